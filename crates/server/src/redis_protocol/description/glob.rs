//! Patterns as Redis matches them: `*`, `?`, `[a-z]`, `[^a]`, and `\` before what stands for
//! itself.
//!
//! Every element but `*` matches exactly one byte. So if an element does not match, only the last
//! `*` can take another byte, and the time is at most that of the name times that of the pattern.

/// The longest pattern that matches anything: no name is nearly as long.
const PATTERN_BYTES_MAX: usize = 1024;

/// Whether a name matches a pattern, in any letter case.
pub(super) fn matches(pattern: &[u8], name: &[u8]) -> bool {
    let (mut pattern, mut name) = (pattern, name);
    if pattern.len() > PATTERN_BYTES_MAX {
        return false;
    }
    // What comes behind the last `*`, and the first byte of the name that it has not taken.
    let mut retry: Option<(&[u8], &[u8])> = None;
    loop {
        match (pattern, name) {
            ([], []) => return true,
            ([b'*', rest @ ..], _) => {
                retry = Some((rest, name));
                pattern = rest;
                continue;
            }
            ([_, ..], [byte, tail @ ..]) => {
                let (is_match, rest) = match_byte(pattern, *byte);
                if is_match {
                    (pattern, name) = (rest, tail);
                    continue;
                }
            }
            _ => {}
        }
        let Some((rest, [_, tail @ ..])) = retry else {
            return false;
        };
        (pattern, name) = (rest, tail);
        retry = Some((rest, tail));
    }
}

/// Whether the first element of a pattern matches a byte, and what follows the element.
fn match_byte(pattern: &[u8], byte: u8) -> (bool, &[u8]) {
    match pattern {
        [b'?', rest @ ..] => (true, rest),
        [b'[', b'^', set @ ..] => {
            let (is_match, rest) = match_set(set, byte);
            (!is_match, rest)
        }
        [b'[', set @ ..] => match_set(set, byte),
        [b'\\', literal, rest @ ..] | [literal, rest @ ..] => {
            (literal.eq_ignore_ascii_case(&byte), rest)
        }
        [] => (false, pattern),
    }
}

/// As [`match_byte`], for what is in brackets. As in Redis, they may lack their end, a range may
/// begin with its larger end, and a letter behind `\` matches only itself.
fn match_set(mut set: &[u8], byte: u8) -> (bool, &[u8]) {
    let mut is_match = false;
    loop {
        set = match set {
            [b'\\', literal, rest @ ..] => {
                is_match |= *literal == byte;
                rest
            }
            [b']', rest @ ..] => return (is_match, rest),
            [one, b'-', other, rest @ ..] => {
                let least = one.min(other).to_ascii_lowercase();
                let most = one.max(other).to_ascii_lowercase();
                is_match |= (least..=most).contains(&byte.to_ascii_lowercase());
                rest
            }
            [literal, rest @ ..] => {
                is_match |= literal.eq_ignore_ascii_case(&byte);
                rest
            }
            [] => return (is_match, set),
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A service's test compares many more patterns with a real Redis.
    #[test]
    fn patterns_match_whole_names_in_any_letter_case() {
        let table: [(&str, &[&str], &[&str]); 9] = [
            ("save", &["save", "SAVE"], &["saves", "sav", ""]),
            ("s*e", &["se", "save", "saveXe"], &["s", "saves"]),
            ("*a*b*", &["ab", "xaxbx", "aab"], &["ba", ""]),
            ("s?ve", &["save", "s?ve"], &["sve", "saave"]),
            ("[^s]*", &["ave", "x"], &["save", "S", ""]),
            ("[r-t]a", &["sa", "Sa"], &["qa", "a"]),
            ("\\*\\s", &["*s", "*S"], &["s", "\\*s"]),
            ("a[\\]]\\", &["a]\\"], &["a]", "a\\"]),
            ("a[b", &["ab"], &["a", "a[b"]),
        ];
        for (pattern, names, others) in table {
            for name in names {
                assert!(
                    matches(pattern.as_bytes(), name.as_bytes()),
                    "{pattern} {name}"
                );
            }
            for name in others {
                assert!(
                    !matches(pattern.as_bytes(), name.as_bytes()),
                    "{pattern} {name}"
                );
            }
        }
    }

    #[test]
    fn time_is_bounded_for_any_pattern() {
        let stars = "*a".repeat(500) + "*b";
        assert!(!matches(stars.as_bytes(), "a".repeat(2_000).as_bytes()));
        assert!(!matches(&b"*".repeat(PATTERN_BYTES_MAX + 1), b"save"));
    }
}
