//! Durations, and their text.

use std::fmt;
use std::ops::{Add, Mul, Sub};
use std::str::FromStr;
use std::time::Duration;

/// A duration in whole nanoseconds, from 0 to 584 years.
///
/// Sums, differences and products saturate. It converts from and to [`Duration`].
///
/// # Example
///
/// ```
/// use std::time::Duration;
/// use tollgate_core::Span;
///
/// const TIMEOUT: Span = Span::from_duration(Duration::from_millis(1_500));
/// assert_eq!(TIMEOUT, Span::SECOND + Span::from_millis(500));
/// assert_eq!(Span::MINUTE * 15 - Span::MINUTE, "14m".parse()?);
/// assert_eq!(Span::from_secs(5_400).to_string(), "1h30m");
/// # Ok::<(), tollgate_core::ParseSpanError>(())
/// ```
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Span(u64);

/// Why a text is not a duration.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ParseSpanError {
    /// The text is empty.
    Empty,
    /// A unit has no number before it, or something other than a number.
    NoNumber,
    /// A number has no unit after it.
    NoUnit,
    /// A number has a decimal point.
    NotWhole,
    /// The unit is unknown.
    UnknownUnit(String),
    /// The duration is longer than a [`Span`] can be.
    TooLong,
}

/// The units, longest first, in nanoseconds.
const SHORT_UNITS: [(&str, u64); 8] = [
    ("w", 7 * Span::DAY.0),
    ("d", Span::DAY.0),
    ("h", Span::HOUR.0),
    ("m", Span::MINUTE.0),
    ("s", Span::SECOND.0),
    ("ms", 1_000_000),
    ("us", 1_000),
    ("ns", 1),
];

// === impl Span ===

impl Span {
    /// Zero.
    pub const ZERO: Span = Span(0);
    /// The shortest span: one nanosecond.
    pub const NANOSECOND: Span = Span(1);
    /// One second.
    pub const SECOND: Span = Span(1_000_000_000);
    /// One minute.
    pub const MINUTE: Span = Span(60 * Span::SECOND.0);
    /// One hour.
    pub const HOUR: Span = Span(60 * Span::MINUTE.0);
    /// One day of 24 hours.
    pub const DAY: Span = Span(24 * Span::HOUR.0);
    /// One week.
    pub const WEEK: Span = Span(7 * Span::DAY.0);
    /// One month of 30 days, as in Envoy's protocol.
    pub const MONTH: Span = Span(30 * Span::DAY.0);
    /// One year of 365 days, as in Envoy's protocol.
    pub const YEAR: Span = Span(365 * Span::DAY.0);
    /// The units that limits are written with, by their names.
    pub const UNITS: [(&'static str, Span); 7] = [
        ("second", Span::SECOND),
        ("minute", Span::MINUTE),
        ("hour", Span::HOUR),
        ("day", Span::DAY),
        ("week", Span::WEEK),
        ("month", Span::MONTH),
        ("year", Span::YEAR),
    ];

    /// A span of `nanos` nanoseconds.
    pub const fn from_nanos(nanos: u64) -> Span {
        Span(nanos)
    }

    /// A span of `millis` milliseconds; saturates.
    pub const fn from_millis(millis: u64) -> Span {
        Span(millis.saturating_mul(1_000_000))
    }

    /// A span of `secs` seconds; saturates.
    pub const fn from_secs(secs: u64) -> Span {
        Span(secs.saturating_mul(Span::SECOND.0))
    }

    /// The span of a [`Duration`]; saturates at 584 years.
    #[expect(clippy::as_conversions, reason = "widening; `u64::from` is not const")]
    pub const fn from_duration(duration: Duration) -> Span {
        let secs = Span::from_secs(duration.as_secs());
        Span(secs.0.saturating_add(duration.subsec_nanos() as u64))
    }

    /// This span as a [`Duration`].
    pub const fn to_duration(self) -> Duration {
        Duration::from_nanos(self.0)
    }

    /// The unit of [`Span::UNITS`] with this name, in any case.
    pub fn unit(name: &str) -> Option<Span> {
        let mut units = Span::UNITS.into_iter();
        let (_, span) = units.find(|(unit, _)| unit.eq_ignore_ascii_case(name))?;
        Some(span)
    }

    /// The span of a unit: `ns`, `us`, `ms`, `s`, `m`, `h`, `d` or `w`.
    pub fn short_unit(name: &str) -> Option<Span> {
        let mut units = SHORT_UNITS.iter();
        let found = units.find(|(unit, _)| *unit == name);
        found.map(|(_, nanos)| Span(*nanos))
    }

    /// Whole nanoseconds.
    pub const fn as_nanos(self) -> u64 {
        self.0
    }

    /// Whole seconds, rounded up, as `Retry-After` needs them.
    pub const fn as_secs_ceil(self) -> u64 {
        self.0.div_ceil(Span::SECOND.0)
    }

    /// Whether this is zero.
    pub const fn is_zero(self) -> bool {
        self.0 == 0
    }

    /// This span times `times`, for constants; saturates.
    pub const fn times(self, times: u64) -> Span {
        Span(self.0.saturating_mul(times))
    }

    /// The numbers and units of its text, the largest unit first; none for [`Span::ZERO`], whose
    /// text is `0s`.
    pub fn units(self) -> impl Iterator<Item = (u64, &'static str)> {
        let mut rest = self.0;
        // Weeks are not written: `14d` is more common in rules files than `2w`.
        SHORT_UNITS[1..].iter().filter_map(move |(unit, nanos)| {
            let number = rest / nanos;
            rest %= nanos;
            (number > 0).then_some((number, *unit))
        })
    }

    /// This span minus `other`, for constants; zero if `other` is longer.
    pub const fn minus(self, other: Span) -> Span {
        Span(self.0.saturating_sub(other.0))
    }
}

impl Add for Span {
    type Output = Span;

    fn add(self, other: Span) -> Span {
        Span(self.0.saturating_add(other.0))
    }
}

impl Sub for Span {
    type Output = Span;

    /// Zero if `other` is longer.
    fn sub(self, other: Span) -> Span {
        self.minus(other)
    }
}

impl Mul<u64> for Span {
    type Output = Span;

    fn mul(self, times: u64) -> Span {
        self.times(times)
    }
}

impl From<Duration> for Span {
    /// Saturates at 584 years.
    fn from(duration: Duration) -> Span {
        Span::from_duration(duration)
    }
}

impl From<Span> for Duration {
    fn from(span: Span) -> Duration {
        span.to_duration()
    }
}

impl fmt::Display for Span {
    /// Writes the units of a rules file: `1h30m`, `500ms`, `0s`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0 == 0 {
            return f.write_str("0s");
        }
        let mut units = self.units();
        units.try_for_each(|(number, unit)| write!(f, "{number}{unit}"))
    }
}

impl fmt::Debug for Span {
    /// As `Display`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl FromStr for Span {
    type Err = ParseSpanError;

    /// Parses numbers with units: `15m`, `1h30m`, `500ms`. Text written by `Display` parses to the
    /// same span.
    fn from_str(text: &str) -> Result<Span, ParseSpanError> {
        if text.is_empty() {
            return Err(ParseSpanError::Empty);
        }
        let mut rest = text;
        let mut nanos: u64 = 0;
        while !rest.is_empty() {
            let (number, after) = split_where_not(rest, |c| c.is_ascii_digit());
            if number.is_empty() {
                return Err(ParseSpanError::NoNumber);
            }
            if after.starts_with('.') {
                return Err(ParseSpanError::NotWhole);
            }
            let (name, after) = split_where_not(after, |c| !c.is_ascii_digit());
            let unit = match Span::short_unit(name) {
                Some(unit) => unit,
                None if name.is_empty() => return Err(ParseSpanError::NoUnit),
                None => return Err(ParseSpanError::UnknownUnit(name.to_owned())),
            };
            let number: u64 = number.parse().map_err(|_| ParseSpanError::TooLong)?;
            let part = number.checked_mul(unit.0).ok_or(ParseSpanError::TooLong)?;
            nanos = nanos.checked_add(part).ok_or(ParseSpanError::TooLong)?;
            rest = after;
        }
        Ok(Span(nanos))
    }
}

fn split_where_not(text: &str, belongs: impl Fn(char) -> bool) -> (&str, &str) {
    let end = text.find(|c| !belongs(c)).unwrap_or(text.len());
    text.split_at(end)
}

// === impl ParseSpanError ===

impl fmt::Display for ParseSpanError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ParseSpanError::Empty => f.write_str("a length of time is missing"),
            ParseSpanError::NoNumber => f.write_str("a unit of time has no number before it"),
            ParseSpanError::NoUnit => f.write_str("a number has no unit of time after it"),
            ParseSpanError::NotWhole => {
                f.write_str("a length of time is not a whole number of its unit")
            }
            ParseSpanError::UnknownUnit(name) => write!(
                f,
                "unknown unit of time `{}`: write ns, us, ms, s, m, h, d or w",
                name.escape_debug()
            ),
            ParseSpanError::TooLong => f.write_str("a length of time is above 584 years"),
        }
    }
}

impl std::error::Error for ParseSpanError {}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn texts_are_read_back() {
        let nanos = [0, 1, 999, 1_000_000_001, 5_400_000_000_000, u64::MAX];
        for span in nanos.map(Span::from_nanos) {
            assert_eq!(span.to_string().parse(), Ok(span));
            assert_eq!(format!("{span:?}"), span.to_string());
        }
        assert_eq!("1w2d".parse(), Ok(Span::DAY * 9));
    }

    #[test]
    fn texts_that_are_no_length_of_time_say_why() {
        let unknown = |name: &str| ParseSpanError::UnknownUnit(name.to_owned());
        let table = [
            ("", ParseSpanError::Empty),
            ("15", ParseSpanError::NoUnit),
            ("m", ParseSpanError::NoNumber),
            ("-1m", ParseSpanError::NoNumber),
            ("1.5h", ParseSpanError::NotWhole),
            ("1y", unknown("y")),
            ("15 m", unknown(" m")),
            ("18446744073709551615s", ParseSpanError::TooLong),
            ("99999999999999999999s", ParseSpanError::TooLong),
        ];
        for (text, error) in table {
            assert_eq!(text.parse::<Span>(), Err(error), "{text}");
        }
    }

    #[test]
    fn durations_convert_and_saturate() {
        assert_eq!(Span::from(Duration::MAX), Span::from_nanos(u64::MAX));
        let span = Span::from_nanos(1_234_567_890);
        assert_eq!(Span::from_duration(span.to_duration()), span);
        assert_eq!(Span::SECOND - Span::MINUTE, Span::ZERO);
        assert_eq!(Span::DAY * u64::MAX, Span::from_nanos(u64::MAX));
    }
}
