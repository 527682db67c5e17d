//! The lines that are not events: how many, why, and the first of them.

use tollgate_core::Escaped;

use crate::input::Line;
use crate::plain::Cut;

/// The skipped lines that are kept to be shown; the others are counted.
pub const SKIPPED_SHOWN_MAX: usize = 10;
/// The most bytes of a skipped line that are shown.
pub const EXCERPT_BYTES_MAX: usize = 120;
/// The most characters of a reason that are shown.
pub const REASON_CHARS_MAX: usize = 500;
/// The most reasons that are counted separately.
pub const REASONS_MAX: usize = 20;
/// The reason under which further ones are counted together.
const OTHER_REASONS: &str = "other reasons";

/// The lines that are not events.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Skipped {
    /// How many.
    pub count: u64,
    /// Why, and how many for each reason, the most first; at most [`REASONS_MAX`] and one more.
    /// Columns are left out of reasons here, so that equal errors are counted together.
    pub reasons: Vec<(String, u64)>,
    /// The first of them, at most [`SKIPPED_SHOWN_MAX`].
    pub first: Vec<SkippedLine>,
}

/// A line that is not an event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SkippedLine {
    /// Among the lines of all inputs, from 0; see [`crate::Traffic::place`].
    pub line: u32,
    /// What is wrong with it, with control characters escaped.
    pub reason: String,
    /// Its beginning, with control characters escaped.
    pub excerpt: String,
}

// === impl Skipped ===

impl Skipped {
    /// Counts a line. The reason may name what the log has, such as columns.
    pub(crate) fn add(&mut self, number: u32, line: &Line<'_>, reason: &str) {
        let reason = Cut(reason, REASON_CHARS_MAX).to_string();
        self.count += 1;
        self.tally(&reason);
        if self.first.len() < SKIPPED_SHOWN_MAX {
            let excerpt = match line {
                Line::Text(bytes) | Line::Cut(bytes) => excerpt(bytes),
                Line::TooLong => String::new(),
            };
            self.first.push(SkippedLine {
                line: number,
                reason,
                excerpt,
            });
        }
    }

    /// Counts a reason, if there is room for it.
    fn tally(&mut self, reason: &str) {
        let reason = match reason.rsplit_once(" at column ") {
            Some((reason, column)) if column.bytes().all(|byte| byte.is_ascii_digit()) => reason,
            _ => reason,
        };
        let is_known = |(known, _): &(String, u64)| known == reason;
        let reason = if self.reasons.len() < REASONS_MAX || self.reasons.iter().any(is_known) {
            reason
        } else {
            OTHER_REASONS
        };
        match self.reasons.iter().position(|(known, _)| known == reason) {
            None => self.reasons.push((reason.to_owned(), 1)),
            Some(at) => {
                self.reasons[at].1 += 1;
                // Kept in order: one step is enough, since counts grow by one.
                if at > 0 && self.reasons[at - 1].1 < self.reasons[at].1 {
                    let more = self.reasons[at].1;
                    let to = self.reasons[..at].partition_point(|(_, count)| *count >= more);
                    self.reasons.swap(at, to);
                }
            }
        }
    }
}

/// The beginning of a line.
fn excerpt(line: &[u8]) -> String {
    let shown = Escaped(&line[..line.len().min(EXCERPT_BYTES_MAX)]);
    let cut = if line.len() > EXCERPT_BYTES_MAX {
        "…"
    } else {
        ""
    };
    format!("{shown}{cut}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reasons_are_counted_the_most_first_and_never_too_many() {
        let mut skipped = Skipped::default();
        for number in 0..1000_u32 {
            let reason = match number % 4 {
                0 => format!("bad number at column {number}"),
                1 => format!("reason {number}"),
                _ => "blank".to_owned(),
            };
            skipped.add(number, &Line::Text(b""), &reason);
        }
        let reasons = &skipped.reasons;
        assert_eq!(reasons[0], ("blank".to_owned(), 500));
        assert_eq!(reasons[1], ("bad number".to_owned(), 250));
        assert_eq!(reasons.len(), REASONS_MAX + 1);
        assert_eq!(
            reasons.iter().map(|(_, count)| count).sum::<u64>(),
            skipped.count
        );
        assert!(reasons.is_sorted_by_key(|(_, count)| std::cmp::Reverse(*count)));
    }

    #[test]
    fn reasons_have_nothing_that_controls_a_terminal_and_are_not_long() {
        let mut skipped = Skipped::default();
        skipped.add(0, &Line::Text(b""), "no `\u{1b}[2J\u{202e}`");
        skipped.add(1, &Line::Text(b""), &"x".repeat(REASON_CHARS_MAX + 1));
        let long = "x".repeat(REASON_CHARS_MAX) + "…";
        for (at, expected) in ["no `\\u{1b}[2J\\u{202e}`", &long].iter().enumerate() {
            assert_eq!(skipped.first[at].reason, *expected);
            assert_eq!(skipped.reasons[at].0, *expected);
        }
    }

    #[test]
    fn whatever_the_order_of_reasons_they_are_counted_the_most_first() {
        for sequence in 0..3_usize.pow(7) {
            let mut skipped = Skipped::default();
            for at in 0..7 {
                let reason = ["a", "b", "c"][sequence / 3_usize.pow(at) % 3];
                skipped.add(at, &Line::Text(b""), reason);
                let reasons = &skipped.reasons;
                assert!(reasons.is_sorted_by_key(|(_, count)| std::cmp::Reverse(*count)));
                let all: u64 = reasons.iter().map(|(_, count)| count).sum();
                assert_eq!(all, skipped.count);
            }
        }
    }
}
