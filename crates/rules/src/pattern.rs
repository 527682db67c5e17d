//! Values with `*` in them.

use memchr::memmem;

/// A value in which each `*` matches any bytes, also none. Case-sensitive.
///
/// Matching takes no memory, and time in proportion to the value and the pattern: their lengths are
/// added, not multiplied.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Pattern {
    /// The text before the first star.
    head: Box<[u8]>,
    /// The texts between stars; none is empty.
    middle: Box<[Box<[u8]>]>,
    /// The text after the last star.
    tail: Box<[u8]>,
}

// === impl Pattern ===

impl Pattern {
    /// The pattern of `text`; `None` if it contains no star.
    pub(crate) fn new(text: &str) -> Option<Pattern> {
        let (head, rest) = text.split_once('*')?;
        let (middle, tail) = rest.rsplit_once('*').unwrap_or(("", rest));
        let middle = middle.split('*').filter(|part| !part.is_empty());
        Some(Pattern {
            head: head.as_bytes().into(),
            middle: middle.map(|part| part.as_bytes().into()).collect(),
            tail: tail.as_bytes().into(),
        })
    }

    /// Whether `value` is one of those meant.
    pub(crate) fn matches(&self, value: &[u8]) -> bool {
        let Some(rest) = value.strip_prefix(&*self.head) else {
            return false;
        };
        let Some(mut rest) = rest.strip_suffix(&*self.tail) else {
            return false;
        };
        // The first position where a part fits leaves the most for the parts after it.
        for part in &self.middle {
            let Some(at) = memmem::find(rest, part) else {
                return false;
            };
            rest = &rest[at + part.len()..];
        }
        true
    }

    /// Whether this pattern matches every value that the pattern written as `other` matches.
    ///
    /// A star in `other` is taken as a character that only a star can match, so a yes is sure.
    pub(crate) fn covers(&self, other: &str) -> bool {
        self.matches(other.as_bytes())
    }

    /// Whether every value is meant.
    pub(crate) fn is_all(&self) -> bool {
        self.head.is_empty() && self.middle.is_empty() && self.tail.is_empty()
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::Pattern;

    #[test]
    fn a_star_stands_for_any_text() {
        let table = [
            ("*", "", true),
            ("*", "anything", true),
            ("/api/*", "/api/", true),
            ("/api/*", "/api", false),
            ("*.js", ".js", true),
            ("*.js", "a.jsx", false),
            ("a*a", "a", false),
            ("a*a", "aa", true),
            ("a*b*c", "a-b-c", true),
            ("a*b*c", "abc", true),
            ("a*b*c", "acb", false),
            ("**", "x", true),
            ("a**b", "ab", true),
            ("*ab*ab*", "ab", false),
            ("*ab*ab*", "xabyabz", true),
            ("A*", "abc", false),
            ("é*", "één", true),
        ];
        for (pattern, value, expected) in table {
            let matches = Pattern::new(pattern).unwrap().matches(value.as_bytes());
            assert_eq!(matches, expected, "{pattern} on {value}");
        }
    }

    #[test]
    fn bytes_that_are_no_text_match_too() {
        let pattern = Pattern::new("a*é*").unwrap();
        assert!(pattern.matches(b"a\xff\xc3\xa9\xfe"));
        assert!(!pattern.matches(b"a\xff\xc3"));
    }

    #[test]
    fn a_value_without_a_star_is_no_pattern() {
        assert_eq!(Pattern::new("plain"), None);
    }

    #[test]
    fn a_wider_pattern_covers_a_narrower_one() {
        let covers = |wide: &str, narrow| Pattern::new(wide).unwrap().covers(narrow);
        assert!(covers("*", "a*"));
        assert!(covers("a*", "ab*c"));
        assert!(!covers("ab*", "a*"));
        assert!(!covers("a*c", "a*"));
    }
}
