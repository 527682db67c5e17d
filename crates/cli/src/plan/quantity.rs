//! Counts and rates as people write them: `1000000`, `1M`, `10k/s`, `36M/hour`.

use std::str::FromStr;

use tollgate_core::{Limit, Span};

/// The largest count and rate: far beyond what is bought, and far below what overflows.
pub(super) const COUNT_MAX: u64 = 1_000_000_000_000;
const SUFFIXES: [(char, u64); 3] = [('k', 1_000), ('M', 1_000_000), ('G', 1_000_000_000)];

/// A number from 1 to [`COUNT_MAX`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Count(pub(super) u64);

/// Requests per second, rounded up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RequestRate(pub(super) u64);

// === impl Count ===

impl FromStr for Count {
    type Err = String;

    fn from_str(text: &str) -> Result<Count, String> {
        let suffix = SUFFIXES.iter().find(|(letter, _)| text.ends_with(*letter));
        let (digits, factor) = match suffix {
            Some((_, factor)) => (&text[..text.len() - 1], *factor),
            None => (text, 1),
        };
        let is_number = digits.bytes().all(|byte| byte.is_ascii_digit());
        let number = is_number.then(|| digits.parse::<u64>().ok()).flatten();
        let number = number.and_then(|number| number.checked_mul(factor));
        let number = number.filter(|number| (1..=COUNT_MAX).contains(number));
        number.map(Count).ok_or_else(|| {
            format!("`{text}` is not a number from 1 to {COUNT_MAX}: write 250000, 250k, 1M or 2G")
        })
    }
}

// === impl RequestRate ===

impl FromStr for RequestRate {
    type Err = String;

    fn from_str(text: &str) -> Result<RequestRate, String> {
        let (count, window) = match text.split_once('/') {
            None => (text, Span::SECOND),
            Some((count, unit)) => (count, parse_unit(text, unit)?),
        };
        let Count(count) = count
            .parse()
            .map_err(|why| format!("`{text}` is not a rate such as 10k/s: {why}"))?;
        let nanos = u128::from(count) * u128::from(Span::SECOND.as_nanos());
        let per_second = nanos.div_ceil(u128::from(window.as_nanos()));
        match u64::try_from(per_second) {
            Ok(per_second) if per_second <= COUNT_MAX => Ok(RequestRate(per_second)),
            _ => Err(format!("`{text}` is more than {COUNT_MAX} per second")),
        }
    }
}

/// The length of time after the slash, as a limit has it.
fn parse_unit(text: &str, unit: &str) -> Result<Span, String> {
    let is_unit = !unit.trim().contains(char::is_whitespace);
    // Windows can be shorter than a bucket's time for one unit.
    let parse = || format!("1/{unit} fixed_window").parse::<Limit>();
    let limit = is_unit.then(|| parse().ok()).flatten();
    limit
        .map(|limit| limit.window())
        .ok_or_else(|| format!("`{text}` is not a rate: write 10000, 10k/s, 300/m or 36M/hour"))
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn counts_and_rates_are_read() {
        for (text, count) in [
            ("1", 1),
            ("250k", 250_000),
            ("1M", 1_000_000),
            ("2G", 2_000_000_000),
        ] {
            assert_eq!(text.parse(), Ok(Count(count)), "{text}");
        }
        for (text, rate) in [
            ("10000", 10_000),
            ("10k/s", 10_000),
            ("36M/hour", 10_000),
            ("1/day", 1),
            ("90/1m", 2),
            ("10M/second", 10_000_000),
            ("1/50ns", 20_000_000),
            ("100/ns", 100_000_000_000),
        ] {
            assert_eq!(text.parse(), Ok(RequestRate(rate)), "{text}");
        }
    }

    #[test]
    fn errors_say_what_to_write() {
        for text in [
            "", "k", "0", "-1", "+1", "1.5M", "1m", "1000G1", "2000G", "ä",
        ] {
            let error = text.parse::<Count>().unwrap_err();
            assert!(error.contains("write 250000, 250k, 1M or 2G"), "{error}");
        }
        for text in [
            "10k/",
            "10k/x",
            "10k/0s",
            "1/s sliding_log",
            "/s",
            "1G/1ns",
            "1000G/1ms",
        ] {
            assert!(text.parse::<RequestRate>().is_err(), "{text}");
        }
    }
}
