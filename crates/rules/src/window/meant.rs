//! What was probably meant by a text that is not a short form or length of time: `5 req/min` is
//! `5/minute`.

use tollgate_core::Span;

use super::{SHORT_UNITS, meant_unit, short_form, window};

/// The longest text that is looked at.
const TEXT_BYTES_MAX: usize = 64;
/// Straight and curly quotes.
const QUOTES: [char; 6] = ['"', '\'', '“', '”', '‘', '’'];
/// Words between a count and its window that change nothing.
const FILLERS: [&str; 18] = [
    "r", "req", "reqs", "request", "requests", "hit", "hits", "call", "calls", "time", "times",
    "x", "per", "a", "an", "every", "each", "in",
];
/// Words for a count's name and its window together.
const RATES: [(&str, &str); 5] = [
    ("rps", "second"),
    ("qps", "second"),
    ("rpm", "minute"),
    ("rph", "hour"),
    ("rpd", "day"),
];

/// The short form that a text was probably meant to be.
pub(crate) fn meant_short_form(text: &str) -> Option<String> {
    if text.len() > TEXT_BYTES_MAX {
        return None;
    }
    let text = text.trim().trim_matches(QUOTES).trim().to_lowercase();
    let (count, rest) = split_count(&text)?;
    let form = format!("{count}/{}", meant_length(rest)?);
    short_form(&form).is_ok().then_some(form)
}

/// The whole number that a text was probably meant to be: `1,000`, `1k`, `1e3`.
pub(crate) fn meant_count(text: &str) -> Option<u32> {
    if text.len() > TEXT_BYTES_MAX {
        return None;
    }
    let (count, rest) = split_count(text.trim())?;
    rest.trim().is_empty().then_some(count)
}

/// The window that a text was probably meant to be, as the short form takes it: `15min` is `15m`. A
/// number alone is one of `unit`.
pub(crate) fn meant_window(text: &str, unit: &str) -> Option<String> {
    let text = text.trim();
    let is_number = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let written = match is_number {
        true => format!("{text}{unit}"),
        false => text.to_owned(),
    };
    if window(&written).is_ok() {
        return Some(written);
    }
    let form = meant_short_form(&format!("1/{written}"))?;
    form.strip_prefix("1/").map(str::to_owned)
}

/// The number at the beginning, and what follows it.
fn split_count(text: &str) -> Option<(u32, &str)> {
    let text = text.strip_prefix('+').unwrap_or(text).trim_start();
    let is_part = |c: char| c.is_ascii_digit() || c == '_' || c == ',';
    let end = text.find(|c| !is_part(c)).unwrap_or(text.len());
    let (digits, rest) = text.split_at(end);
    let is_grouped = digits.split(',').skip(1).all(|group| group.len() == 3);
    let number: u32 = match digits.bytes().next() {
        Some(b'0'..=b'9') if is_grouped => digits.replace([',', '_'], "").parse().ok()?,
        _ => return None,
    };
    let (factor, rest) = split_factor(rest);
    Some((number.checked_mul(factor?)?, rest))
}

/// The power of ten after a number, as in `1k` and `1e3`, and what follows it.
fn split_factor(text: &str) -> (Option<u32>, &str) {
    if let Some(rest) = text.strip_prefix('k') {
        return (Some(1000), rest);
    }
    let Some(rest) = text.strip_prefix('e') else {
        return (Some(1), text);
    };
    let end = rest.find(|c: char| !c.is_ascii_digit());
    let (exponent, after) = rest.split_at(end.unwrap_or(rest.len()));
    match exponent.parse() {
        Ok(exponent) => (10_u32.checked_pow(exponent), after),
        Err(_) => (Some(1), text),
    }
}

/// The window in the text after a count, as the short form takes it.
fn meant_length(text: &str) -> Option<String> {
    let mut words = words(text).into_iter().peekable();
    let before = words.len();
    while words.next_if(|word| FILLERS.contains(word)).is_some() {}
    // `60s` is a length of time, and no count.
    let separator = |c: char| !c.is_alphanumeric() && !c.is_whitespace();
    let is_apart = words.len() < before || text.trim_start().starts_with(separator);
    let number = words.next_if(|word| word.bytes().all(|byte| byte.is_ascii_digit()));
    let word = words.next()?;
    // `5/minute per user`: each value has its own counter anyway.
    let is_end = match words.next() {
        None => true,
        Some(next) => next == "per" && words.next().is_some() && words.next().is_none(),
    };
    if !is_end {
        return None;
    }
    let rate = RATES.iter().find(|(rate, _)| *rate == word);
    if !is_apart && rate.is_none() {
        return None;
    }
    let name = match rate {
        Some((_, unit)) => Some(*unit),
        None => long_name(word).or_else(|| meant_unit(word)),
    };
    match (number.map(str::parse::<u32>), name) {
        (None | Some(Ok(1)), Some(name)) => Some(name.to_owned()),
        (Some(Ok(number)), Some(name)) if !matches!(name, "month" | "year") => {
            let mut short = SHORT_UNITS.into_iter();
            let short = short.find(|short| name.starts_with(short))?;
            Some(format!("{number}{short}"))
        }
        (Some(Ok(number)), None) if Span::short_unit(word).is_some() => {
            Some(format!("{number}{word}"))
        }
        _ => None,
    }
}

/// The name of a unit, or of its short form.
fn long_name(word: &str) -> Option<&'static str> {
    let span = Span::unit(word).or_else(|| Span::short_unit(word))?;
    let mut units = Span::UNITS.into_iter();
    let (name, _) = units.find(|(_, of_unit)| *of_unit == span)?;
    Some(name)
}

/// Numbers, words and, as `per`, slashes after the first.
fn words(text: &str) -> Vec<&str> {
    let mut words = Vec::new();
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let is_same = |c: char| match first {
            _ if first.is_ascii_digit() => c.is_ascii_digit(),
            _ if first.is_alphabetic() => c.is_alphabetic(),
            // Also digits that are not ASCII: `first` itself is always the same.
            _ => !c.is_ascii_digit() && !c.is_alphabetic(),
        };
        let end = rest.find(|c| !is_same(c)).unwrap_or(rest.len());
        let (word, after) = rest.split_at(end);
        match word.trim() {
            "/" => words.push("per"),
            trimmed if trimmed.starts_with(char::is_alphanumeric) => words.push(trimmed),
            _ => {}
        }
        rest = after;
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_others_write_is_understood() {
        for (text, form) in [
            ("05/m", "5/minute"),
            ("00/m", "0/minute"),
            ("1e3/m", "1000/minute"),
            ("100r/s", "100/second"),
            ("5 / 15 m", "5/15m"),
            ("5 req/min", "5/minute"),
            ("5 requests per minute", "5/minute"),
            ("1_000/m", "1000/minute"),
            ("1,000/m", "1000/minute"),
            ("10k/h", "10000/hour"),
            ("5 per 15 minutes", "5/15m"),
            ("10rps", "10/second"),
            ("10 RPM", "10/minute"),
            ("5 every minute", "5/minute"),
            ("5per minute", "5/minute"),
            ("5 in 1m", "5/minute"),
            ("5-M", "5/minute"),
            ("5//m", "5/minute"),
            ("“5/m”", "5/minute"),
            ("5/min.", "5/minute"),
            ("10 / 1 hour", "10/hour"),
            ("5 / minute / user", "5/minute"),
            ("100/minute/ip", "100/minute"),
            ("5 per 2 weeks", "5/2w"),
            ("7 per 100 ms", "7/100ms"),
        ] {
            assert_eq!(meant_short_form(text).as_deref(), Some(form), "{text}");
        }
        for text in [
            "",
            "10",
            "ten/m",
            "-5/m",
            "1.5/s",
            "1,00/m",
            "5/m burst 10",
            "10/m, 20/h",
            "60s",
            "10 minutes",
            "5 per 2 months",
            "5 ５/m",
            "5/²",
            "9e9/m",
            "5/fortnight",
            "5 pro Woche",
            "5/60",
        ] {
            assert_eq!(meant_short_form(text), None, "{text}");
        }
    }

    #[test]
    fn what_others_write_for_a_number_is_understood() {
        for (text, count) in [("1,000", 1000), ("1k", 1000), ("2e3", 2000), ("1_0", 10)] {
            assert_eq!(meant_count(text), Some(count), "{text}");
        }
        for text in ["", "k", "1.5", "10/m", "1e10", "5000000k", "many"] {
            assert_eq!(meant_count(text), None, "{text}");
        }
    }
}
