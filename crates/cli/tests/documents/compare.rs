//! Compares the output that a page shows with the real one.

/// The line that matches any number of lines.
const ANY: &str = "...";

/// Compares line by line; a line `...` in `expected` matches any number of lines, or none. If
/// numbers vary, all whole numbers are equal.
///
/// # Errors
///
/// The lines that are missing or unexpected.
pub(crate) fn compare(expected: &str, actual: &str, numbers_vary: bool) -> Result<(), String> {
    let lines = |text: &str| -> Vec<String> {
        let lines = text.lines().map(str::trim_end);
        lines
            .map(|line| {
                if numbers_vary {
                    masked(line)
                } else {
                    line.to_owned()
                }
            })
            .collect()
    };
    let (expected, actual) = (lines(expected), lines(actual));
    let mut parts: Vec<&[String]> = expected.split(|line| line == ANY).collect();
    let mut rest = &actual[..];
    // The first and the last part must match at the ends; those between are searched in order.
    let first = parts.remove(0);
    rest = rest
        .strip_prefix(first)
        .ok_or_else(|| format!("does not begin with\n{first:#?}"))?;
    if let Some(last) = parts.pop() {
        rest = rest
            .strip_suffix(last)
            .ok_or_else(|| format!("does not end with\n{last:#?}"))?;
    } else if !rest.is_empty() {
        return Err(format!("the page does not show\n{rest:#?}"));
    }
    for part in parts {
        let mut places = 0..=rest.len().saturating_sub(part.len());
        let at = places.find(|at| rest[*at..].starts_with(part));
        let at = at.ok_or_else(|| format!("there is no\n{part:#?}"))?;
        rest = &rest[at + part.len()..];
    }
    Ok(())
}

/// The units of lengths of time.
const UNITS: [&str; 7] = ["ns", "us", "ms", "s", "m", "h", "d"];

/// Replaces every whole number and every length of time with `#`, so that `59m59s` equals `1h`.
fn masked(line: &str) -> String {
    let mut masked = String::with_capacity(line.len());
    let mut rest = line;
    while let Some(char) = rest.chars().next() {
        if !char.is_ascii_digit() {
            masked.push(char);
            rest = &rest[char.len_utf8()..];
            continue;
        }
        if !masked.ends_with('#') {
            masked.push('#');
        }
        rest = rest.trim_start_matches(|char: char| char.is_ascii_digit());
        let end = rest.find(|char: char| !char.is_alphabetic());
        let (word, behind) = rest.split_at(end.unwrap_or(rest.len()));
        if UNITS.contains(&word) {
            rest = behind;
        }
    }
    masked
}

#[test]
fn output_differs_where_it_differs() {
    for (expected, actual, is_same) in [
        ("a\nb\n", "a\nb\n", true),
        ("a\n", "a\nb\n", false),
        ("a\nb\n", "a\n", false),
        ("a\n...\n", "a\nb\nc\n", true),
        ("...\nc\n", "a\nb\nc\n", true),
        ("...\nb\n...\n", "a\nb\nc\n", true),
        ("...\nx\n...\n", "a\nb\nc\n", false),
        ("a\n...\na\n", "a\n", false),
        ("", "a\n", false),
        ("", "", true),
        ("t=60\n", "t=59\n", false),
    ] {
        assert_eq!(
            compare(expected, actual, false).is_ok(),
            is_same,
            "{expected} {actual}"
        );
    }
    assert!(compare("t=60;r=1\n", "t=5;r=22\r\n", true).is_ok());
    assert!(compare("t=60;r=1\n", "t=;r=22\n", true).is_err());
    assert!(compare("in 59m59s3ms\n", "in 1h\n", true).is_ok());
    assert!(compare("1 message\n", "2 messages\n", true).is_err());
}
