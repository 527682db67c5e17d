//! Parses limits: `10/s`, `100/minute`, `5 per 15m sliding_log`.

use std::fmt;
use std::str::FromStr;

use super::{Algorithm, Anchor, InvalidLimit, Limit, Segments};
use crate::span::{ParseSpanError, Span};

/// Why a text is not a limit.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ParseLimitError {
    /// The text has neither `/` nor ` per `.
    NoWindow,
    /// The text before the window is not a whole number up to 2^32 - 1.
    Count,
    /// The window is neither a unit nor a duration.
    Window(ParseSpanError),
    /// The word after the window is not an algorithm.
    Algorithm(String),
    /// The words after the algorithm are not options of it.
    Option(String),
    /// The limit is invalid.
    Invalid(InvalidLimit),
}

// === impl Limit ===

impl FromStr for Limit {
    type Err = ParseLimitError;

    /// Parses the text that `Display` writes, and shorter forms: `10/s`, `100/minute`, `5 per 15m`,
    /// `2/s leaky_bucket queue 10`.
    ///
    /// Without an algorithm, the limit is a token bucket, as with [`Limit::per`]. In a rules file
    /// the default is a fixed window, as in Envoy.
    ///
    /// # Example
    ///
    /// ```
    /// use tollgate_core::{Algorithm, Limit, Span};
    ///
    /// assert_eq!("10/s".parse(), Ok(Limit::per_second(10)));
    /// assert_eq!("100/minute burst 20".parse(), Ok(Limit::per_minute(100).burst(20)));
    /// let login: Limit = "5 per 15m sliding_log".parse()?;
    /// assert_eq!((login.algorithm(), login.window()), (Algorithm::SlidingLog, Span::MINUTE * 15));
    /// assert_eq!(login.to_string().parse(), Ok(login));
    /// # Ok::<(), tollgate_core::ParseLimitError>(())
    /// ```
    fn from_str(text: &str) -> Result<Limit, ParseLimitError> {
        let (count, rest) = text
            .split_once('/')
            .or_else(|| text.split_once(" per "))
            .ok_or(ParseLimitError::NoWindow)?;
        let count = whole_number(count.trim()).ok_or(ParseLimitError::Count)?;
        let words: Vec<&str> = rest.split_whitespace().collect();
        let Some((window, words)) = words.split_first() else {
            return Err(ParseLimitError::Window(ParseSpanError::Empty));
        };
        let window = read_window(window)?;
        let (algorithm, options) = read_algorithm(words)?;
        let limit = Limit::new(algorithm, count, window).map_err(ParseLimitError::Invalid)?;
        read_options(limit, options)
    }
}

/// Parses a unit with or without a number: `minute`, `m`, `15m`.
fn read_window(text: &str) -> Result<Span, ParseLimitError> {
    match Span::unit(text).or_else(|| Span::short_unit(text)) {
        Some(window) => Ok(window),
        None if text.starts_with(char::is_alphabetic) => Err(ParseLimitError::Window(
            ParseSpanError::UnknownUnit(text.to_owned()),
        )),
        None => text.parse().map_err(ParseLimitError::Window),
    }
}

/// Parses the algorithm at the start of `words`; returns it with the words after it.
fn read_algorithm<'w, 't>(
    words: &'w [&'t str],
) -> Result<(Algorithm, &'w [&'t str]), ParseLimitError> {
    let (name, options) = match words {
        [] | ["burst" | "soft" | "elastic" | "reserved" | "with", ..] => {
            return Ok((Algorithm::TokenBucket, words));
        }
        [name, options @ ..] => (*name, options),
    };
    match (name, options) {
        ("token_bucket", _) => Ok((Algorithm::TokenBucket, options)),
        ("leaky_bucket", _) => Ok((Algorithm::LeakyBucket, options)),
        ("sliding_log", _) => Ok((Algorithm::SlidingLog, options)),
        ("fixed_window", ["from", "the", "first", "request", options @ ..]) => {
            Ok((Algorithm::FixedWindow(Anchor::FirstRequest), options))
        }
        ("fixed_window", _) => Ok((Algorithm::FixedWindow(Anchor::Clock), options)),
        ("sliding_window", ["in", count, "segments" | "segment", options @ ..]) => {
            let segments = whole_number(count).and_then(|number| u8::try_from(number).ok());
            let segments =
                segments.ok_or_else(|| ParseLimitError::Option(format!("in {count} segments")))?;
            let segments = Segments::new(segments).map_err(ParseLimitError::Invalid)?;
            Ok((Algorithm::SlidingWindow(segments), options))
        }
        ("sliding_window", _) => Ok((Algorithm::SlidingWindow(Segments::ONE), options)),
        _ => Err(ParseLimitError::Algorithm(name.to_owned())),
    }
}

/// Applies the burst or queue, the soft or elastic part, the share for priority and the view in
/// `options` to `limit`.
fn read_options(limit: Limit, options: &[&str]) -> Result<Limit, ParseLimitError> {
    let unknown = || ParseLimitError::Option(options.join(" "));
    let (limit, options) = match (limit.algorithm(), options) {
        (Algorithm::TokenBucket, ["burst", count, rest @ ..])
        | (Algorithm::LeakyBucket, ["queue", count, rest @ ..]) => {
            let count = whole_number(count).ok_or_else(unknown)?;
            let limit = limit.with_burst(count).map_err(ParseLimitError::Invalid)?;
            (limit, rest)
        }
        _ => (limit, options),
    };
    let (limit, options) = match options {
        ["soft", percent, rest @ ..] => {
            let percent = read_percent(percent).ok_or_else(unknown)?;
            let limit = limit.with_soft(percent).map_err(ParseLimitError::Invalid)?;
            (limit, rest)
        }
        ["elastic", percent, rest @ ..] => {
            let percent = read_percent(percent).ok_or_else(unknown)?;
            let limit = limit.with_elastic(percent);
            (limit.map_err(ParseLimitError::Invalid)?, rest)
        }
        _ => (limit, options),
    };
    let (limit, options) = match options {
        ["reserved", percent, rest @ ..] => {
            let percent = read_percent(percent).and_then(|percent| u8::try_from(percent).ok());
            let limit = limit.with_priority_share(percent.ok_or_else(unknown)?);
            (limit.map_err(ParseLimitError::Invalid)?, rest)
        }
        _ => (limit, options),
    };
    match options {
        [] => Ok(limit),
        ["with", "priority"] => Ok(limit.for_priority()),
        ["with", "headroom"] => Ok(limit.with_headroom()),
        ["with", "priority", "with", "headroom"] => Ok(limit.whole()),
        _ => Err(unknown()),
    }
}

/// Parses `20%`.
fn read_percent(text: &str) -> Option<u32> {
    text.strip_suffix('%').and_then(whole_number)
}

/// Parses digits only: `str::parse` would accept a sign as well.
fn whole_number(text: &str) -> Option<u32> {
    let is_number = text.bytes().all(|byte| byte.is_ascii_digit());
    is_number.then(|| text.parse().ok()).flatten()
}

/// What may follow an algorithm.
const OPTIONS: &str = "options are, in this order: `in 6 segments` of sliding_window, `from the \
    first request` of fixed_window, `burst 20` of token_bucket, `queue 20` of leaky_bucket; `soft \
    10%` or `elastic 50%`; `reserved 20%`";

// === impl ParseLimitError ===

impl fmt::Display for ParseLimitError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ParseLimitError::NoWindow => f.write_str(
                "a limit has neither `/` nor ` per `: write `100/minute` or `5 per 15m`",
            ),
            ParseLimitError::Count => {
                write!(f, "a limit begins with a whole number up to {}", u32::MAX)
            }
            ParseLimitError::Window(_) => f.write_str(
                "a limit's window is not a length of time: write second, minute, hour, day, week, \
                 month or year, or a length such as 15m",
            ),
            ParseLimitError::Algorithm(name) => write!(
                f,
                "unknown algorithm `{}`: write token_bucket, leaky_bucket, fixed_window, \
                 sliding_window or sliding_log",
                name.escape_debug()
            ),
            ParseLimitError::Option(words) => write!(
                f,
                "unknown option `{}` of a limit; {OPTIONS}",
                words.escape_debug()
            ),
            ParseLimitError::Invalid(_) => {
                f.write_str("the limit can be read, but not all of its values are valid")
            }
        }
    }
}

impl std::error::Error for ParseLimitError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            ParseLimitError::Window(source) => Some(source),
            ParseLimitError::Invalid(source) => Some(source),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn every_limit_is_read_back_from_its_text() {
        let texts = [
            "10 per 1m token_bucket",
            "10 per 1m token_bucket burst 3",
            "0 per 1d token_bucket",
            "2 per 1s leaky_bucket queue 10 soft 20%",
            "3 per 1h sliding_window in 6 segments",
            "3 per 1h sliding_window soft 10%",
            "7 per 1h30m fixed_window from the first request",
            "7 per 1ns fixed_window",
            "5 per 15m sliding_log",
            "100 per 1m fixed_window reserved 20%",
            "9 per 1m token_bucket burst 3 soft 10% reserved 100%",
            "0 per 1m token_bucket reserved 20% with priority",
            "3 per 1m sliding_log elastic 50%",
            "3 per 1m sliding_log elastic 50% with headroom",
            "3 per 1m token_bucket elastic 1% reserved 20% with priority with headroom",
        ];
        for text in texts {
            let limit: Limit = text.parse().unwrap();
            assert_eq!(limit.to_string(), text);
        }
    }

    #[test]
    fn short_texts_are_token_buckets() {
        for text in [
            "100/minute",
            "100/Minute",
            "100 / m",
            "100 per 60s",
            "100/1m",
        ] {
            assert_eq!(text.parse(), Ok(Limit::per_minute(100)), "{text}");
        }
        assert_eq!("1/s soft 50%".parse(), Ok(Limit::per_second(1).soft(50)));
        let year = Limit::token_bucket(1, Span::DAY * 365);
        assert_eq!("1/year".parse(), year.map_err(ParseLimitError::Invalid));
    }

    #[test]
    fn texts_that_are_no_limit_say_why() {
        let of = |text: &str| text.parse::<Limit>().unwrap_err();
        assert_eq!(of(""), ParseLimitError::NoWindow);
        assert_eq!(of("10"), ParseLimitError::NoWindow);
        assert_eq!(of("+1/s"), ParseLimitError::Count);
        assert_eq!(of("4294967296/s"), ParseLimitError::Count);
        assert_eq!(of("10/"), ParseLimitError::Window(ParseSpanError::Empty));
        assert_eq!(of("10/15"), ParseLimitError::Window(ParseSpanError::NoUnit));
        let unit = ParseSpanError::UnknownUnit("fortnight".to_owned());
        assert_eq!(of("1/fortnight"), ParseLimitError::Window(unit));
        assert_eq!(of("1/s lru"), ParseLimitError::Algorithm("lru".to_owned()));
        let option = |words: &str| ParseLimitError::Option(words.to_owned());
        assert_eq!(of("1/s token_bucket queue 3"), option("queue 3"));
        assert_eq!(of("1/s sliding_log burst 3"), option("burst 3"));
        assert_eq!(of("1/s soft 3"), option("soft 3"));
        assert_eq!(of("1/s soft 3% x"), option("soft 3% x"));
        assert_eq!(of("1/s reserved 256%"), option("reserved 256%"));
        assert_eq!(of("1/s reserved 3% soft 3%"), option("reserved 3% soft 3%"));
        for count in ["300", "many"] {
            let text = format!("1/h sliding_window in {count} segments");
            assert_eq!(of(&text), option(&format!("in {count} segments")));
        }
        let shown = of("5/s sliding_window segments 60").to_string();
        let expected = "unknown option `segments 60` of a limit; options are, in this order: `in 6 \
            segments` of sliding_window,";
        assert!(shown.starts_with(expected), "{shown}");
        let share = ParseLimitError::Invalid(InvalidLimit::PriorityShare(101));
        assert_eq!(of("1/s reserved 101%"), share);
        let segments = ParseLimitError::Invalid(InvalidLimit::Segments(61));
        assert_eq!(of("1/h sliding_window in 61 segments"), segments);
        assert!(matches!(
            of("1/0s"),
            ParseLimitError::Invalid(InvalidLimit::Window(_))
        ));
    }
}
