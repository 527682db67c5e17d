//! Lengths of time and short forms: `15m`, `1h30m`, `100/minute`, `5 per 15m`.

use tollgate_core::{ParseSpanError, Span};

use crate::findings::Findings;
use crate::nearest::nearest;

mod meant;

pub(crate) use meant::{meant_count, meant_short_form, meant_window};

/// Why a text is not a length of time or a short form.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Bad {
    /// Nothing is written.
    Empty,
    /// A number without a unit after it.
    NoUnit,
    /// A unit without a number before it, or something else than a number.
    NoNumber,
    /// Something below 0.
    Negative,
    /// A number with a point.
    NotWhole,
    /// An unknown unit after a number, as in `15min`.
    Unit(String),
    /// An unknown unit in a short form, as in `60/min`.
    UnitName(String),
    /// Longer than a span can be.
    TooLong,
    /// A short form without ` per ` and without `/`.
    NoPer,
    /// A number in place of a short form, or one with nothing after its `/`.
    NoWindow,
    /// A short form that begins with a 0, which some parsers read as octal.
    Octal,
    /// A short form that does not begin with a whole number.
    Count,
    /// A short form's number, which is larger than 2^32 - 1.
    TooLarge(String),
}

/// The short units, in which lengths of time are written.
const SHORT_UNITS: [&str; 8] = ["ns", "us", "ms", "s", "m", "h", "d", "w"];

/// The unit that a text was probably meant to be: a plural, an abbreviation or a slip.
pub(crate) fn meant_unit(text: &str) -> Option<&'static str> {
    /// Abbreviations that do not begin their unit's name.
    const ABBREVIATIONS: [(&str, &str); 4] = [
        ("hr", "hour"),
        ("wk", "week"),
        ("mth", "month"),
        ("yr", "year"),
    ];
    let text = text.trim().to_lowercase();
    let text = text.strip_suffix('s').unwrap_or(&text);
    let mut abbreviations = ABBREVIATIONS.iter();
    let whole = abbreviations.find(|(short, _)| *short == text);
    let text = whole.map_or(text, |(_, unit)| unit);
    let units = Span::UNITS.map(|(unit, _)| unit);
    let begins = |unit: &&str| text.len() >= 2 && unit.starts_with(text);
    let begins = units.into_iter().find(begins);
    begins.or_else(|| nearest(text, &units))
}

/// A length of time: numbers and short units in turn.
pub(crate) fn window(text: &str) -> Result<Span, Bad> {
    text.parse().map_err(|error| match error {
        _ if text.starts_with('-') => Bad::Negative,
        ParseSpanError::Empty => Bad::Empty,
        ParseSpanError::NoUnit => Bad::NoUnit,
        ParseSpanError::NotWhole => Bad::NotWhole,
        ParseSpanError::UnknownUnit(name) => Bad::Unit(name),
        ParseSpanError::TooLong => Bad::TooLong,
        _ => Bad::NoNumber,
    })
}

/// A short form: a count, `per` or `/`, and a unit's name or a length of time.
pub(crate) fn short_form(text: &str) -> Result<(u32, Span), Bad> {
    let is_number = |text: &str| {
        let text = text.trim();
        !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())
    };
    let parts = text.split_once('/').or_else(|| text.split_once(" per "));
    let (count, window_text) = match parts {
        Some((count, window)) if window.trim().is_empty() && is_number(count) => {
            return Err(Bad::NoWindow);
        }
        Some((count, window)) => (count.trim(), window.trim()),
        None if is_number(text) => return Err(Bad::NoWindow),
        None => return Err(Bad::NoPer),
    };
    let count = match count.parse() {
        _ if !is_number(count) => return Err(Bad::Count),
        _ if count.len() > 1 && count.starts_with('0') => return Err(Bad::Octal),
        Ok(count) => count,
        Err(_) => return Err(Bad::TooLarge(count.to_owned())),
    };
    let span = match Span::unit(window_text) {
        Some(span) => span,
        // `100/s` is as clear as `100/1s`.
        None => match Span::short_unit(window_text) {
            Some(span) => span,
            None if window_text.starts_with(char::is_alphabetic) => {
                return Err(Bad::UnitName(window_text.to_owned()));
            }
            None => window(window_text)?,
        },
    };
    Ok((count, span))
}

// === impl Bad ===

impl Bad {
    /// What is wrong with `text`.
    pub(crate) fn message(&self, text: &str, findings: &Findings) -> String {
        match self {
            Bad::Unit(name) | Bad::UnitName(name) => {
                let (name, text) = (findings.quote(name.trim()), findings.quote(text));
                format!("unknown unit {name} in {text}")
            }
            Bad::TooLarge(count) => {
                let count = findings.quote(count);
                format!("{count} is too large; the maximum is {}", u32::MAX)
            }
            _ => format!("{} {}", findings.quote(text), self.describe()),
        }
    }

    /// What is wrong, to follow the text itself: "`15` has no unit".
    pub(crate) const fn describe(&self) -> &'static str {
        match self {
            Bad::Empty => "is empty",
            Bad::NoUnit => "has no unit",
            Bad::NoNumber => "has a unit without a number",
            Bad::Negative => "has a negative length of time",
            Bad::NotWhole => "is not a whole number of units",
            Bad::Unit(_) | Bad::UnitName(_) => "has an unknown unit",
            Bad::TooLong => "is longer than 366d",
            Bad::NoPer => "has neither `/` nor ` per `",
            Bad::NoWindow => "has no window",
            Bad::Octal => "begins with a 0, which some parsers read as octal",
            Bad::Count => "does not begin with a whole number",
            Bad::TooLarge(_) => "is too large",
        }
    }

    /// What was probably meant, if that is clear.
    pub(crate) fn help(&self) -> Option<String> {
        let (name, is_short) = match self {
            Bad::Unit(name) => (name, true),
            Bad::UnitName(name) => (name, false),
            _ => return None,
        };
        let unit = meant_unit(name)?;
        let mut short = SHORT_UNITS.into_iter();
        let word = match is_short {
            // `month` and `year` have no short form, and `m` is a minute.
            true if unit == "month" => return None,
            true => short.find(|short| unit.starts_with(short))?,
            false => unit,
        };
        Some(format!("did you mean `{word}`?"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_of_units_add_up() {
        let table = [
            ("15m", Span::MINUTE.times(15)),
            ("1h30m", Span::MINUTE.times(90)),
            ("500ms", Span::from_millis(500)),
            ("1w2d", Span::DAY.times(9)),
            ("1s1ns", Span::from_nanos(1_000_000_001)),
            ("7us", Span::from_nanos(7_000)),
            ("0s", Span::ZERO),
        ];
        for (text, span) in table {
            assert_eq!(window(text), Ok(span), "{text}");
        }
    }

    #[test]
    fn what_is_no_length_of_time_says_why() {
        assert_eq!(window(""), Err(Bad::Empty));
        assert_eq!(window("15"), Err(Bad::NoUnit));
        assert_eq!(window("m"), Err(Bad::NoNumber));
        assert_eq!(window("-1m"), Err(Bad::Negative));
        assert_eq!(window("1.5h"), Err(Bad::NotWhole));
        assert_eq!(window("1y"), Err(Bad::Unit("y".to_owned())));
        assert_eq!(window("15 m"), Err(Bad::Unit(" m".to_owned())));
        assert_eq!(window("99999999999999999999s"), Err(Bad::TooLong));
        assert_eq!(window("18446744073709551615s"), Err(Bad::TooLong));
    }

    #[test]
    fn short_forms_take_units_and_lengths() {
        let table = [
            ("100/minute", (100, Span::MINUTE)),
            ("100/Minute", (100, Span::MINUTE)),
            ("5 per 15m", (5, Span::MINUTE.times(15))),
            ("5 per day", (5, Span::DAY)),
            ("100/15m", (100, Span::MINUTE.times(15))),
            ("100 / s", (100, Span::SECOND)),
            ("0/1h30m", (0, Span::MINUTE.times(90))),
        ];
        for (text, expected) in table {
            assert_eq!(short_form(text), Ok(expected), "{text}");
        }
        assert_eq!(short_form("100 in 1m"), Err(Bad::NoPer));
        assert_eq!(short_form("100"), Err(Bad::NoWindow));
        assert_eq!(short_form("100/"), Err(Bad::NoWindow));
        assert_eq!(short_form("010/minute"), Err(Bad::Octal));
        assert_eq!(short_form("0/minute"), Ok((0, Span::MINUTE)));
        assert_eq!(short_form("x/minute"), Err(Bad::Count));
        assert_eq!(short_form("+1/minute"), Err(Bad::Count));
        assert_eq!(short_form("5/-5s"), Err(Bad::Negative));
        assert_eq!(
            short_form("4294967296/minute"),
            Err(Bad::TooLarge("4294967296".to_owned()))
        );
        assert_eq!(
            short_form("5/fortnight"),
            Err(Bad::UnitName("fortnight".to_owned()))
        );
    }

    #[test]
    fn plurals_abbreviations_and_slips_are_understood() {
        let help = |text: &str| short_form(text).err().and_then(|bad| bad.help());
        for (text, unit) in [
            ("60/minutes", "minute"),
            ("60/min", "minute"),
            ("60/Mins", "minute"),
            ("60/mintue", "minute"),
            ("60/sec", "second"),
            ("60/hrs", "hour"),
            ("60/days", "day"),
            ("60/mo", "month"),
            ("60/15min", "m"),
            ("60/2hours", "h"),
        ] {
            let expected = format!("did you mean `{unit}`?");
            assert_eq!(help(text), Some(expected), "{text}");
        }
        for text in ["60/fortnight", "60/x", "60/2month", "60"] {
            assert_eq!(help(text), None, "{text}");
        }
    }
}
