//! Values that look like regular expressions, which they are not.

use crate::draft::DescriptorDraft;
use crate::findings::Findings;
use crate::quote::quote;

/// Texts that are unlikely in a literal value.
const SIGNS: [&str; 11] = [
    "\\d", "\\w", "\\s", "\\.", "\\/", "[0-9", "[a-z", "[A-Z", "[^", "[[:", "(?",
];
/// A word boundary, at either end only: elsewhere it may be part of a path of Windows.
const BOUNDARY: &str = "\\b";

/// Warns about a value that was probably meant as a regular expression.
pub(super) fn check(descriptor: &DescriptorDraft, findings: &mut Findings) {
    let Some(value) = &descriptor.value else {
        return;
    };
    let text = value.value.as_str();
    if !looks_like_regex(text) {
        return;
    }
    let compared = match text.contains('*') {
        true => "compared as it is written, with `*` for any text",
        false => "compared as it is written",
    };
    let message = format!(
        "{} looks like a regular expression, and is {compared}",
        quote(text)
    );
    let help = match as_wildcard(text) {
        Some(meant) => format!(
            "write {}, or leave it if it is meant literally",
            quote(&meant)
        ),
        None => "write the text itself, with `*` for any text".to_owned(),
    };
    findings.warning(value.mark, "looks-like-regex", message, help);
}

fn looks_like_regex(text: &str) -> bool {
    let is_anchored = text.starts_with('^') || (text.len() > 1 && text.ends_with('$'));
    let is_bounded = text.starts_with(BOUNDARY) || text.ends_with(BOUNDARY);
    is_anchored
        || is_bounded
        || repeats_any(text)
        || has_choice(text)
        || SIGNS.iter().any(|sign| text.contains(sign))
}

/// Whether it has alternatives in parentheses, as in `(GET|POST)`.
fn has_choice(text: &str) -> bool {
    let mut open = text.split('(').skip(1);
    open.any(|group| {
        group
            .split_once(')')
            .is_some_and(|(group, _)| group.contains('|'))
    })
}

/// Whether it has `.*` or `.+` in it, not as in `10.0.0.*` and `example.*`.
fn repeats_any(text: &str) -> bool {
    let mut before = None;
    let mut pairs = text.chars().zip(text.chars().skip(1));
    pairs.any(|(dot, star)| {
        let stands_alone = before
            .replace(dot)
            .is_none_or(|c: char| !c.is_alphanumeric() && c != '*');
        dot == '.' && matches!(star, '*' | '+') && stands_alone
    })
}

/// The wildcard that matches what the expression does, if that is easy to find.
fn as_wildcard(text: &str) -> Option<String> {
    let (open_start, open_end) = (!text.starts_with('^'), !text.ends_with('$'));
    let inner = text.strip_prefix('^').unwrap_or(text);
    let inner = inner.strip_suffix('$').unwrap_or(inner);
    let plain = inner.replace(".*", "*").replace(".+", "*");
    let plain = plain.replace("\\.", ".").replace("\\/", "/");
    // An expression without an anchor matches anywhere, unless it begins with any text itself.
    let begins = if open_start && text.ends_with('$') && !plain.starts_with('*') {
        "*"
    } else {
        ""
    };
    let ends = if open_end && text.starts_with('^') && !plain.ends_with('*') {
        "*"
    } else {
        ""
    };
    let is_easy =
        !plain.is_empty() && !plain.contains(['\\', '[', '(', '{', '|', '+', '?', '^', '$']);
    is_easy.then(|| format!("{begins}{plain}{ends}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn regular_expressions_are_recognised() {
        for text in [
            "^/api/.*",
            "/api$",
            "/v[0-9]+/x",
            "\\d+",
            "a\\.b",
            ".*",
            "/.+/y",
            "(?:a|b)",
            "(?i)curl",
            "(GET|POST)",
            "/x/(a|b)/y",
            "[^/]+",
            "[[:digit:]]",
            "[A-Z]",
            "\\bcurl",
            "curl\\b",
        ] {
            assert!(looks_like_regex(text), "{text}");
        }
        for text in [
            "/api/*",
            "*",
            "a.b",
            "10.0.0.*",
            "*.example.*",
            "*.*",
            "$",
            "user?",
            "[::1]",
            "a|b",
            "C:\\x",
            "C:\\bin",
            "Mozilla/5.0 (X11; Linux)",
            "(a) | (b)",
            "1+1",
        ] {
            assert!(!looks_like_regex(text), "{text}");
        }
    }

    #[test]
    fn the_wildcard_that_was_meant_is_named_where_there_is_one() {
        for (text, meant) in [
            ("^/api/.*", Some("/api/*")),
            ("^/api/.*$", Some("/api/*")),
            ("^/api", Some("/api*")),
            ("\\.php$", Some("*.php")),
            ("/a/.+/b", Some("/a/*/b")),
            ("^[0-9]+$", None),
            ("^$", None),
        ] {
            assert_eq!(as_wildcard(text).as_deref(), meant, "{text}");
        }
    }
}
