//! Conditions on the counts of a report, for `--fail-if`: `denied > 0.1%`.

use std::fmt;
use std::str::FromStr;

use serde_json::{Value, json};

use crate::comparison::Comparison;
use crate::noun::Noun;
use crate::report::Report;
use crate::traffic::Traffic;

/// The most decimals of a number in a condition.
const DECIMALS_MAX: usize = 6;
/// The most digits before the point.
const DIGITS_MAX: usize = 15;

/// A condition: a metric, a comparison, and a number or a percentage.
#[derive(Clone, Debug)]
pub struct Condition {
    text: String,
    metric: &'static Metric,
    operator: Operator,
    threshold: Threshold,
}

/// A condition with the counts that it was compared with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Checked {
    /// The condition, as it was written.
    pub condition: String,
    /// Whether it holds.
    pub holds: bool,
    /// Whether the counts say anything about it: about what limits do, only if an event met one.
    pub is_judged: bool,
    /// The count of its metric.
    pub count: u64,
    /// What the count is a part of.
    pub of: u64,
    /// The noun of what it is a part of.
    unit: &'static str,
}

/// A count of a report.
#[derive(Debug)]
struct Metric {
    name: &'static str,
    count: fn(&Counted<'_>) -> u64,
    whole: &'static Whole,
    /// What it is a count of.
    about: About,
}

/// What a metric is a count of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum About {
    /// The input, or which events meet a limit at all.
    Input,
    /// What limits do with events.
    Limits,
    /// What changes between two sets of rules.
    Changes,
}

/// What conditions are compared with.
#[derive(Clone, Copy, Debug)]
pub struct Counted<'a> {
    /// The report; of a comparison, that of the new rules.
    pub report: &'a Report,
    /// The traffic.
    pub traffic: &'a Traffic,
    /// The comparison, if there is one.
    pub comparison: Option<&'a Comparison>,
}

/// What a count is a part of.
#[derive(Debug)]
struct Whole {
    unit: &'static str,
    count: fn(&Counted<'_>) -> u64,
}

const EVENTS: Whole = Whole {
    unit: "event",
    count: |counted| counted.report.events,
};
const LINES: Whole = Whole {
    unit: "line",
    count: |counted| u64::from(counted.traffic.lines()),
};

static METRICS: [Metric; 9] = [
    metric("events", About::Input, |counted| counted.report.events),
    metric("allowed", About::Limits, |counted| counted.report.allowed),
    metric("denied", About::Limits, |counted| counted.report.denied),
    metric("over_soft", About::Limits, |counted| {
        counted.report.over_soft
    }),
    metric("delayed", About::Limits, |counted| counted.report.delayed),
    metric("without_limit", About::Input, |counted| {
        counted.report.without_limit
    }),
    Metric {
        name: "skipped",
        count: |counted| counted.traffic.skipped_lines().count,
        whole: &LINES,
        about: About::Input,
    },
    metric("newly_denied", About::Changes, |counted| {
        let comparison = counted.comparison;
        comparison.map_or(0, |comparison| comparison.newly_denied)
    }),
    metric("no_longer_denied", About::Changes, |counted| {
        let comparison = counted.comparison;
        comparison.map_or(0, |comparison| comparison.no_longer_denied)
    }),
];

/// A metric that is a part of all events.
const fn metric(name: &'static str, about: About, count: fn(&Counted<'_>) -> u64) -> Metric {
    Metric {
        name,
        count,
        whole: &EVENTS,
        about,
    }
}

impl About {
    /// Whether these counts say anything about it. Zero denied events say nothing if no event met a
    /// limit: most likely, a domain or a key is not that of the rules.
    fn is_judged(self, counted: &Counted<'_>) -> bool {
        let has_met_limit = |report: &Report| report.without_limit < report.events;
        match self {
            About::Input => true,
            About::Limits => has_met_limit(counted.report),
            About::Changes => {
                let before = counted.comparison.map(|comparison| &comparison.before);
                has_met_limit(counted.report) || before.is_some_and(has_met_limit)
            }
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Operator {
    More,
    AtLeast,
    Less,
    AtMost,
    Equal,
    NotEqual,
}

/// The longest first, so that `>` does not match the beginning of `>=`.
const OPERATORS: [(&str, Operator); 7] = [
    (">=", Operator::AtLeast),
    ("<=", Operator::AtMost),
    ("==", Operator::Equal),
    ("!=", Operator::NotEqual),
    (">", Operator::More),
    ("<", Operator::Less),
    ("=", Operator::Equal),
];

/// A decimal number, exactly: `digits` divided by `scale`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Threshold {
    digits: u128,
    scale: u128,
    is_percent: bool,
}

/// Why a text is not a [`Condition`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InvalidCondition {
    /// Where, in characters from 1.
    pub column: usize,
    /// What is expected there.
    pub expected: String,
}

// === impl Condition ===

impl Condition {
    /// The metric, if only a comparison has it.
    pub fn of_comparison(&self) -> Option<&'static str> {
        (self.metric.about == About::Changes).then_some(self.metric.name)
    }

    /// Compares the counts of a report. A percentage of nothing is zero.
    pub fn check(&self, counted: &Counted<'_>) -> Checked {
        let count = (self.metric.count)(counted);
        let of = (self.metric.whole.count)(counted);
        let Threshold {
            digits,
            scale,
            is_percent,
        } = self.threshold;
        // Numbers have at most 15 digits and 6 decimals, so no product exceeds 128 bits.
        let (found, bound) = match is_percent {
            true => (u128::from(count) * 100 * scale, digits * u128::from(of)),
            false => (u128::from(count) * scale, digits),
        };
        let holds = match self.operator {
            Operator::More => found > bound,
            Operator::AtLeast => found >= bound,
            Operator::Less => found < bound,
            Operator::AtMost => found <= bound,
            Operator::Equal => found == bound,
            Operator::NotEqual => found != bound,
        };
        Checked {
            condition: self.text.clone(),
            holds,
            is_judged: self.metric.about.is_judged(counted),
            count,
            of,
            unit: self.metric.whole.unit,
        }
    }
}

impl FromStr for Condition {
    type Err = InvalidCondition;

    fn from_str(text: &str) -> Result<Condition, InvalidCondition> {
        let mut cursor = Cursor { text, at: 0 };
        let name = cursor.take(|sign| sign.is_alphanumeric() || sign == '_');
        let known = METRICS.iter().find(|metric| metric.name == name);
        let metric = known.ok_or_else(|| {
            let names: Vec<_> = METRICS.iter().map(|metric| metric.name).collect();
            let before = Cursor {
                at: cursor.at - name.len(),
                ..cursor
            };
            before.reject(format!("one of {}", names.join(", ")))
        })?;
        cursor.skip_blanks();
        let mut operators = OPERATORS.iter();
        let found = operators.find(|(sign, _)| cursor.rest().starts_with(sign));
        let (sign, operator) =
            found.ok_or_else(|| cursor.reject("one of > >= < <= == !=".to_owned()))?;
        cursor.at += sign.len();
        let threshold = cursor.threshold()?;
        cursor.skip_blanks();
        if !cursor.rest().is_empty() {
            return Err(cursor.reject("the end".to_owned()));
        }
        Ok(Condition {
            text: text.trim().to_owned(),
            metric,
            operator: *operator,
            threshold,
        })
    }
}

/// A text, and how far it was read.
#[derive(Clone, Copy)]
struct Cursor<'t> {
    text: &'t str,
    at: usize,
}

impl<'t> Cursor<'t> {
    fn rest(&self) -> &'t str {
        &self.text[self.at..]
    }

    fn skip_blanks(&mut self) {
        self.at = self.text.len() - self.rest().trim_start().len();
    }

    /// The next characters of a kind, after blanks.
    fn take(&mut self, is_kind: impl Fn(char) -> bool) -> &'t str {
        self.skip_blanks();
        let rest = self.rest();
        let end = rest.find(|sign| !is_kind(sign)).unwrap_or(rest.len());
        self.at += end;
        &rest[..end]
    }

    /// A number, with or without decimals and a percent sign.
    fn threshold(&mut self) -> Result<Threshold, InvalidCondition> {
        self.skip_blanks();
        let start = *self;
        let number = self.take(|sign| sign.is_ascii_digit() || sign == '.');
        let (whole, decimals) = number.split_once('.').unwrap_or((number, "0"));
        let is_number = [whole, decimals]
            .iter()
            .all(|part| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit()));
        let fits = whole.len() <= DIGITS_MAX && decimals.len() <= DECIMALS_MAX;
        let digits = [whole, decimals].concat().parse();
        let (true, true, Ok(digits)) = (is_number, fits, digits) else {
            return Err(start.reject(format!(
                "a number such as 100 or 0.1%, of at most {DIGITS_MAX} digits and {DECIMALS_MAX} \
                 decimals"
            )));
        };
        let decimals = u32::try_from(decimals.len()).unwrap_or_default();
        self.skip_blanks();
        let is_percent = self.rest().starts_with('%');
        if is_percent && digits > 100 * 10_u128.pow(decimals) {
            return Err(start.reject("a percentage of at most 100%".to_owned()));
        }
        self.at += usize::from(is_percent);
        Ok(Threshold {
            digits,
            scale: 10_u128.pow(decimals),
            is_percent,
        })
    }

    fn reject(&self, expected: String) -> InvalidCondition {
        let column = self.text[..self.at].chars().count() + 1;
        InvalidCondition { column, expected }
    }
}

// === impl Checked ===

impl Checked {
    /// The condition and its counts as a JSON object.
    pub fn to_json(&self) -> Value {
        json!({
            "condition": self.condition,
            "holds": self.holds,
            "judged": self.is_judged,
            "count": self.count,
            "of": self.of,
        })
    }
}

impl fmt::Display for Checked {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Checked {
            condition,
            count,
            of,
            unit,
            ..
        } = self;
        // Hundredths of a percent, rounded down.
        let parts = (u128::from(*count) * 10_000)
            .checked_div(u128::from(*of))
            .unwrap_or(0);
        let (percent, rest) = (parts / 100, parts % 100);
        write!(
            f,
            "{condition}: {count} of {of} {} ({percent}.{rest:02}%)",
            Noun(*of, unit)
        )
    }
}

// === impl InvalidCondition ===

impl std::error::Error for InvalidCondition {}

impl fmt::Display for InvalidCondition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "column {}: expected {}", self.column, self.expected)
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests;
