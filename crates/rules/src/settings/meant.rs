//! What was probably meant by a text that is not a length of time or a number of bytes.

use tollgate_core::Span;

use crate::window;

/// The longest text that is looked at.
const TEXT_BYTES_MAX: usize = 64;
/// How sizes are written, and the first letters of their units in lower case.
const UNITS: [(&str, &[&str]); 4] = [
    ("KiB", &["k", "kb", "kib", "kilobyte", "kibibyte"]),
    ("MiB", &["m", "mb", "mib", "megabyte", "mebibyte"]),
    ("GiB", &["g", "gb", "gib", "gigabyte", "gibibyte"]),
    ("", &["", "b", "byte"]),
];

/// What a text was probably meant to be, where one such as `example` is expected: `8MiB` for `8MB`
/// where `64KiB` would be right, and `5m` for `5 minutes` where `10s` would. `None` if it is that.
pub(super) fn meant_value(text: &str, example: &str) -> Option<String> {
    if text.len() > TEXT_BYTES_MAX {
        return None;
    }
    let meant = match window::window(example) {
        Ok(_) => meant_length(text)?,
        Err(_) if UNITS[..3].iter().any(|(unit, _)| example.ends_with(unit)) => meant_size(text)?,
        Err(_) => return None,
    };
    (meant != text).then_some(meant)
}

/// What to write for `key` in place of a text, of which serde says that it is expected to be "a
/// length of time such as `15m`".
pub(super) fn help_for_text(key: &str, text: &str, expected: &str) -> String {
    let example = expected.split('`').nth(1);
    match example.and_then(|example| meant_value(text, example)) {
        Some(meant) => format!("did you mean `{key}: {meant}`?"),
        None => format!("write {expected}"),
    }
}

/// A length of time, in numbers and short units; a number alone is one of seconds.
fn meant_length(text: &str) -> Option<String> {
    let meant = window::meant_window(text, "s")?;
    if window::window(&meant).is_ok() {
        return Some(meant);
    }
    // The short form takes `minute` for one minute.
    let span = Span::unit(&meant)?;
    Some(span.to_string())
}

/// A number of bytes.
fn meant_size(text: &str) -> Option<String> {
    let text = text.trim();
    let end = text.find(|c: char| !c.is_ascii_digit());
    let (number, unit) = text.split_at(end.unwrap_or(text.len()));
    let unit = unit.trim().to_lowercase();
    let unit = unit.strip_suffix('s').unwrap_or(&unit);
    let (written, _) = UNITS.iter().find(|(_, names)| names.contains(&unit))?;
    (!number.is_empty()).then(|| format!("{number}{written}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_and_times_are_converted() {
        for (text, example, expected) in [
            ("8MB", "64KiB", Some("8MiB")),
            ("1GB", "64KiB", Some("1GiB")),
            ("512 k", "64KiB", Some("512KiB")),
            ("2 megabytes", "64KiB", Some("2MiB")),
            ("100 Bytes", "64KiB", Some("100")),
            ("64KiB", "64KiB", None),
            ("1.5MB", "64KiB", None),
            ("MB", "64KiB", None),
            ("5TB", "64KiB", None),
            ("5 minutes", "10s", Some("5m")),
            ("1 minute", "10s", Some("1m")),
            ("minute", "10s", Some("1m")),
            ("30sec", "10s", Some("30s")),
            ("30", "15m", Some("30s")),
            ("30s", "15m", None),
            ("a while", "15m", None),
            ("8MB", "15m", None),
            ("30", "1000000", None),
            ("8MB", "10%", None),
        ] {
            let meant = meant_value(text, example);
            assert_eq!(meant.as_deref(), expected, "{text} {example}");
        }
        assert_eq!(meant_value(&"9".repeat(65), "15m"), None);
    }
}
