//! Which traces are recorded.

use crate::trace_context::TraceId;

/// The parts of a [`Ratio`].
const PARTS: u32 = 1_000_000;
/// The digits behind the point of a ratio.
const DIGITS: usize = 6;

/// A part of all traces, in parts of a million.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ratio(u32);

// === impl Ratio ===

impl Ratio {
    /// Every trace.
    pub const ALL: Ratio = Ratio(PARTS);
    /// No trace.
    pub const NONE: Ratio = Ratio(0);

    /// A percentage, such as `10%` or `0.01%`; `None` if it is none, or has more than four digits
    /// behind the point.
    pub fn parse_percent(text: &str) -> Option<Ratio> {
        parse_parts(text.strip_suffix('%')?, DIGITS - 2)
    }

    /// A number from 0 to 1, such as `0.1`; `None` if it is none, or has more than six digits
    /// behind the point.
    pub fn parse_fraction(text: &str) -> Option<Ratio> {
        parse_parts(text, DIGITS)
    }

    /// Whether a trace is one of them. All services that sample by the id of a trace choose the
    /// same ones.
    pub(crate) fn contains(self, trace: TraceId) -> bool {
        // The last eight bytes, as in the SDKs of OpenTelemetry.
        let low = trace.0 & u128::from(u64::MAX >> 1);
        let bound = (u128::from(self.0) << 63) / u128::from(PARTS);
        low < bound
    }
}

/// Reads a decimal number, in parts of which 10 to the power of `digits` make 1, and at most
/// [`PARTS`].
fn parse_parts(text: &str, digits: usize) -> Option<Ratio> {
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    let is_number = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    if whole.is_empty() || fraction.len() > digits || !is_number(whole) || !is_number(fraction) {
        return None;
    }
    let parts: u32 = format!("{whole}{fraction:0<digits$}").parse().ok()?;
    (parts <= PARTS).then_some(Ratio(parts))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ratios_are_read() {
        for (text, parts) in [
            ("0%", Some(0)),
            ("100%", Some(PARTS)),
            ("100.0%", Some(PARTS)),
            ("0.0001%", Some(1)),
            ("12.5%", Some(125_000)),
            ("100.0001%", None),
            ("0.00001%", None),
            ("10", None),
            ("%", None),
            (".5%", None),
            ("-1%", None),
            ("1e1%", None),
            ("999999999999%", None),
        ] {
            let expected = parts.map(Ratio);
            assert_eq!(Ratio::parse_percent(text), expected, "{text}");
        }
        for (text, parts) in [
            ("0", Some(0)),
            ("1", Some(PARTS)),
            ("1.0", Some(PARTS)),
            ("0.25", Some(250_000)),
            ("0.000001", Some(1)),
            ("1.1", None),
            ("0.0000001", None),
            ("50%", None),
            ("", None),
        ] {
            let expected = parts.map(Ratio);
            assert_eq!(Ratio::parse_fraction(text), expected, "{text}");
        }
    }

    #[test]
    fn a_ratio_contains_its_part_of_the_ids() {
        let top = u128::from(u64::MAX >> 1);
        let high = 1 << 127;
        for (ratio, id, is_contained) in [
            (Ratio::NONE, 0, false),
            (Ratio::ALL, top, true),
            (Ratio::ALL, u128::MAX, true),
            (Ratio(500_000), top / 2, true),
            (Ratio(500_000), top / 2 + 1, false),
            (Ratio(500_000), high + top / 2 + 1, false),
            (Ratio(1), high, true),
        ] {
            assert_eq!(
                ratio.contains(TraceId(id)),
                is_contained,
                "{ratio:?} {id:x}"
            );
        }
    }
}
