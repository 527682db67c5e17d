//! When requests are sent: the times of the log, as a function of nothing else.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use tollgate_core::Moment;

/// The slowest speed: a thousandth of the log's pace.
const THOUSANDTHS_MIN: u64 = 1;
/// The fastest speed that is a multiple of the log's pace.
const TIMES_MAX: u64 = 1_000_000;

/// How fast requests are sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Speed {
    /// In thousandths of the log's own pace.
    Thousandths(u64),
    /// As fast as the service answers.
    Max,
}

/// The times at which requests are sent.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pace {
    speed: Speed,
    first: Moment,
}

/// Why a text is not a [`Speed`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct InvalidSpeed;

// === impl Pace ===

impl Pace {
    /// The first request, if there is one, is sent at once.
    pub(super) fn new(speed: Speed, first: Option<Moment>) -> Pace {
        let first = first.unwrap_or(Moment::ZERO);
        Pace { speed, first }
    }

    /// How long after the start a request of this moment is sent; `None` if as soon as possible.
    pub(super) fn due(&self, at: Moment) -> Option<Duration> {
        let Speed::Thousandths(thousandths) = self.speed else {
            return None;
        };
        let since = u128::from(at.as_nanos().saturating_sub(self.first.as_nanos()));
        let nanos = since * 1000 / u128::from(thousandths.max(THOUSANDTHS_MIN));
        let seconds = u64::try_from(nanos / 1_000_000_000).unwrap_or(u64::MAX);
        let rest = u32::try_from(nanos % 1_000_000_000).unwrap_or(0);
        Some(Duration::new(seconds, rest))
    }
}

// === impl Speed ===

impl Speed {
    /// The log's own pace.
    pub(super) const LOG: Speed = Speed::Thousandths(1000);
}

impl FromStr for Speed {
    type Err = InvalidSpeed;

    fn from_str(text: &str) -> Result<Speed, InvalidSpeed> {
        if text == "max" {
            return Ok(Speed::Max);
        }
        let number = text.strip_suffix('x').ok_or(InvalidSpeed)?;
        let (whole, decimals) = number.split_once('.').unwrap_or((number, "0"));
        let is_digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
        let is_decimal = !decimals.is_empty() && decimals.len() <= 3;
        if !is_decimal || !is_digits(whole) || !is_digits(decimals) {
            return Err(InvalidSpeed);
        }
        let whole: u64 = whole.parse().map_err(|_| InvalidSpeed)?;
        let decimals: u64 = format!("{decimals:0<3}")
            .parse()
            .map_err(|_| InvalidSpeed)?;
        let thousandths = whole
            .checked_mul(1000)
            .and_then(|whole| whole.checked_add(decimals));
        match thousandths {
            Some(found) if (THOUSANDTHS_MIN..=TIMES_MAX * 1000).contains(&found) => {
                Ok(Speed::Thousandths(found))
            }
            _ => Err(InvalidSpeed),
        }
    }
}

impl fmt::Display for Speed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Speed::Max => f.write_str("max"),
            Speed::Thousandths(of) if of % 1000 == 0 => write!(f, "{}x", of / 1000),
            Speed::Thousandths(of) => {
                let decimals = format!("{:03}", of % 1000);
                write!(f, "{}.{}x", of / 1000, decimals.trim_end_matches('0'))
            }
        }
    }
}

// === impl InvalidSpeed ===

impl std::error::Error for InvalidSpeed {}

impl fmt::Display for InvalidSpeed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "write a multiple of the log's pace from 0.001x to {TIMES_MAX}x, such as `1x` or \
             `0.5x`, or `max`"
        )
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn a_speed_is_a_multiple_or_the_most() {
        for (text, thousandths) in [
            ("1x", 1000),
            ("10x", 10_000),
            ("0.5x", 500),
            ("2.25x", 2250),
            ("0.001x", 1),
            ("1000000x", 1_000_000_000),
        ] {
            let speed: Speed = text.parse().unwrap();
            assert_eq!(speed, Speed::Thousandths(thousandths), "{text}");
            assert_eq!(speed.to_string(), text);
        }
        assert_eq!("max".parse(), Ok(Speed::Max));
        assert_eq!(Speed::Max.to_string(), "max");
        for text in [
            "",
            "x",
            "1",
            "0x",
            "0.0001x",
            "-1x",
            "1e3x",
            "1000001x",
            "1.x",
            ".5x",
            "1,5x",
            "Max",
            "99999999999999999999x",
            "18446744073709551615x",
            "+1x",
            "1.+5x",
        ] {
            assert_eq!(text.parse::<Speed>(), Err(InvalidSpeed), "{text}");
        }
    }

    #[test]
    fn requests_are_due_at_their_times_divided_by_the_speed() {
        let first = Moment::from_nanos(5_000_000_000);
        let at = |nanos: u64| Moment::from_nanos(5_000_000_000 + nanos);
        let due =
            |speed: &str, nanos| Pace::new(speed.parse().unwrap(), Some(first)).due(at(nanos));
        assert_eq!(due("1x", 0), Some(Duration::ZERO));
        assert_eq!(due("1x", 1_500_000_000), Some(Duration::from_millis(1500)));
        assert_eq!(due("10x", 1_500_000_000), Some(Duration::from_millis(150)));
        assert_eq!(due("0.5x", 1_500_000_000), Some(Duration::from_secs(3)));
        assert_eq!(due("max", 1_500_000_000), None);
        let longest = Pace::new(Speed::Thousandths(1), Some(Moment::ZERO));
        let last = longest.due(Moment::from_nanos(u64::MAX)).unwrap();
        assert_eq!(last.as_secs(), u64::MAX / 1_000_000);
        let before = Pace::new(Speed::Thousandths(1000), Some(first));
        assert_eq!(before.due(Moment::ZERO), Some(Duration::ZERO));
    }
}
