//! Lists to which every proxy appends an entry, read from the right.
//!
//! A client writes the beginning of such a list, and our proxies its end. Reading begins at the end
//! and looks at nothing to the left of what it needs, so that no quote, comma or length which a
//! client chose changes how our proxies' entries are understood.

use std::net::IpAddr;

use super::literal;

/// The longest entry of a list that is read. A longer one is not an address.
pub const ENTRY_BYTES_MAX: usize = 512;

/// The entries of a line, the last first. `None` is an entry that is too long or has an unbalanced
/// quote; nothing follows it.
#[derive(Clone, Debug)]
pub(super) struct Last<'a> {
    rest: Option<&'a [u8]>,
    quotes: Quotes,
}

/// Whether a comma in quotes belongs to an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Quotes {
    Plain,
    Quoted,
}

/// The address in an element of `Forwarded`: its `for` parameter, of which there must be one.
pub(super) fn parse_forwarded(element: &[u8]) -> Option<IpAddr> {
    let mut found = None;
    let mut parameters = Last {
        rest: Some(element),
        quotes: Quotes::Quoted,
    };
    while let Some(parameter) = parameters.next_before(b';') {
        let parameter = parameter?.trim_ascii();
        // RFC 7239, section 4: any of them may be missing between semicolons.
        if parameter.is_empty() {
            continue;
        }
        let equals = parameter.iter().position(|byte| *byte == b'=')?;
        let (name, value) = (&parameter[..equals], &parameter[equals + 1..]);
        if !name.eq_ignore_ascii_case(b"for") {
            continue;
        }
        let inner = value.strip_prefix(b"\"");
        let inner = inner.map_or(Some(value), |inner| inner.strip_suffix(b"\""))?;
        if found.replace(literal::parse(inner)?).is_some() {
            return None;
        }
    }
    found
}

// === impl Last ===

impl<'a> Last<'a> {
    /// The entries of `X-Forwarded-For`.
    pub(super) const fn entries(line: &'a [u8]) -> Last<'a> {
        Last {
            rest: Some(line),
            quotes: Quotes::Plain,
        }
    }

    /// The elements of `Forwarded`.
    pub(super) const fn elements(line: &'a [u8]) -> Last<'a> {
        Last {
            rest: Some(line),
            quotes: Quotes::Quoted,
        }
    }

    /// Takes what stands behind the last separator.
    fn next_before(&mut self, separator: u8) -> Option<Option<&'a [u8]>> {
        let rest = self.rest?;
        let mut in_quotes = false;
        for (seen, (at, &byte)) in rest.iter().enumerate().rev().enumerate() {
            if seen > ENTRY_BYTES_MAX {
                self.rest = None;
                return Some(None);
            }
            if byte == b'"' && self.quotes == Quotes::Quoted && !is_escaped(&rest[..at]) {
                in_quotes = !in_quotes;
            } else if byte == separator && !in_quotes {
                self.rest = Some(&rest[..at]);
                return Some(Some(&rest[at + 1..]));
            }
        }
        self.rest = None;
        Some((!in_quotes && rest.len() <= ENTRY_BYTES_MAX).then_some(rest))
    }
}

impl<'a> Iterator for Last<'a> {
    type Item = Option<&'a [u8]>;

    fn next(&mut self) -> Option<Option<&'a [u8]>> {
        self.next_before(b',')
    }
}

/// Whether what follows these bytes in a quoted string is escaped: an odd number of backslashes.
fn is_escaped(before: &[u8]) -> bool {
    let backslashes = before
        .iter()
        .rev()
        .take(ENTRY_BYTES_MAX)
        .take_while(|byte| **byte == b'\\');
    backslashes.count() % 2 == 1
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    fn elements(line: &str) -> Vec<Option<String>> {
        let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
        Last::elements(line.as_bytes())
            .map(|element| element.map(text))
            .collect()
    }

    #[test]
    fn elements_are_split_from_the_right() {
        let some = |text: &str| Some(text.to_owned());
        assert_eq!(elements("a, b"), [some(" b"), some("a")]);
        assert_eq!(elements(""), [some("")]);
        assert_eq!(elements("x=\"a,b\",c"), [some("c"), some("x=\"a,b\"")]);
        assert_eq!(
            elements(r#"x="a\",b",c"#),
            [some("c"), some(r#"x="a\",b""#)]
        );
        // The quote that a client left open ends where our proxy's element begins.
        assert_eq!(
            elements("for=\", for=\"[::1]\""),
            [some(" for=\"[::1]\""), None]
        );
        let long = format!("{},b", "a".repeat(ENTRY_BYTES_MAX + 1));
        assert_eq!(elements(&long), [some("b"), None]);
        let fits = format!("{},b", "a".repeat(ENTRY_BYTES_MAX));
        assert_eq!(elements(&fits)[1].as_ref().unwrap().len(), ENTRY_BYTES_MAX);
    }

    #[test]
    fn an_element_has_one_address() {
        let table = [
            ("for=192.0.2.7", Some("192.0.2.7")),
            (" FOR=192.0.2.7:80 ;proto=https", Some("192.0.2.7")),
            (
                "by=10.0.0.1; for=\"[2001:db8::1]:443\"",
                Some("2001:db8::1"),
            ),
            ("for=192.0.2.7;host=\"a;for=b\"", Some("192.0.2.7")),
            ("for=192.0.2.7;proto=https;", Some("192.0.2.7")),
            (";; for=192.0.2.7", Some("192.0.2.7")),
            ("for=\"_hidden\"", None),
            ("for=unknown", None),
            ("for=\"192.0.2.7", None),
            ("proto=https", None),
            ("for=192.0.2.7;for=192.0.2.8", None),
            ("192.0.2.7", None),
            ("", None),
            (";", None),
        ];
        for (element, expected) in table {
            let expected = expected.map(|text| text.parse().unwrap());
            assert_eq!(parse_forwarded(element.as_bytes()), expected, "{element}");
        }
    }
}
