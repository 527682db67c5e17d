//! A descriptor as text, on the command line and in a query: `user=ann,path=/x`.

use std::fmt;
use std::str::FromStr;

use tollgate_core::{Entry, PerDescriptor};

/// The entries of a descriptor, in their order: `user=ann,path=/x`. A backslash before a comma, an
/// equals sign or a backslash makes it a part of a key or value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DescriptorText(Vec<(String, String)>);

/// Why a text is not a [`DescriptorText`].
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum InvalidDescriptorText {
    /// An entry without `=`.
    NoValue(String),
    /// An entry that begins with `=`.
    NoKey(String),
    /// A backslash before something that needs none.
    Escape(String),
}

// === impl DescriptorText ===

impl DescriptorText {
    /// The keys and values.
    pub fn pairs(&self) -> &[(String, String)] {
        &self.0
    }

    /// The entries of a request's descriptor.
    pub fn entries(&self) -> PerDescriptor<Entry<'_>> {
        let entries = self.0.iter().map(|(key, value)| Entry {
            key: key.as_bytes(),
            value: value.as_bytes(),
        });
        entries.collect()
    }
}

impl FromStr for DescriptorText {
    type Err = InvalidDescriptorText;

    fn from_str(text: &str) -> Result<DescriptorText, InvalidDescriptorText> {
        let (mut entries, mut entry, mut key) = (Vec::new(), String::new(), None);
        let mut characters = text.chars();
        loop {
            match characters.next() {
                Some('\\') => match characters.next() {
                    Some(plain @ ('\\' | ',' | '=')) => entry.push(plain),
                    _ => return Err(InvalidDescriptorText::Escape(text.to_owned())),
                },
                Some('=') if key.is_none() => key = Some(std::mem::take(&mut entry)),
                end @ (Some(',') | None) => {
                    let value = std::mem::take(&mut entry);
                    match key.take() {
                        None => return Err(InvalidDescriptorText::NoValue(value)),
                        Some(key) if key.is_empty() => {
                            return Err(InvalidDescriptorText::NoKey(value));
                        }
                        Some(key) => entries.push((key, value)),
                    }
                    if end.is_none() {
                        return Ok(DescriptorText(entries));
                    }
                }
                Some(other) => entry.push(other),
            }
        }
    }
}

impl fmt::Display for DescriptorText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, (key, value)) in self.0.iter().enumerate() {
            let comma = if index > 0 { "," } else { "" };
            write!(f, "{comma}{key}={value}")?;
        }
        Ok(())
    }
}

// === impl InvalidDescriptorText ===

impl std::error::Error for InvalidDescriptorText {}

impl fmt::Display for InvalidDescriptorText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            InvalidDescriptorText::NoValue(entry) => write!(
                f,
                "`{entry}` is not a valid entry: write KEY=VALUE, and `\\,` for a comma in a value"
            ),
            InvalidDescriptorText::NoKey(value) => {
                write!(f, "`={value}` has no key: write KEY=VALUE")
            }
            InvalidDescriptorText::Escape(text) => write!(
                f,
                "in `{text}` a backslash stands before something else than `\\`, `,` or `=`: write \
                 `\\\\` for a backslash"
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    fn read(text: &str) -> Result<Vec<(String, String)>, InvalidDescriptorText> {
        text.parse().map(|DescriptorText(entries)| entries)
    }

    fn pairs(pairs: &[(&str, &str)]) -> Vec<(String, String)> {
        let pairs = pairs.iter();
        pairs
            .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()))
            .collect()
    }

    #[test]
    fn entries_are_read_in_their_order() {
        let table = [
            ("user=ann", &[("user", "ann")][..]),
            ("user=ann,path=/x", &[("user", "ann"), ("path", "/x")]),
            ("q=a=b", &[("q", "a=b")]),
            ("user=", &[("user", "")]),
            (r"a\,b=c\,d\\,e=f", &[("a,b", r"c,d\"), ("e", "f")]),
            (r"a\=b=c", &[("a=b", "c")]),
            (" user = ann ", &[(" user ", " ann ")]),
        ];
        for (text, expected) in table {
            assert_eq!(read(text).unwrap(), pairs(expected), "{text}");
        }
    }

    #[test]
    fn what_is_no_entry_is_said_to_be_none() {
        let no_value = |text: &str| Err(InvalidDescriptorText::NoValue(text.to_owned()));
        assert_eq!(read("user"), no_value("user"));
        assert_eq!(read(""), no_value(""));
        assert_eq!(read("user=ann,"), no_value(""));
        assert_eq!(
            read("=ann"),
            Err(InvalidDescriptorText::NoKey("ann".to_owned()))
        );
        for text in [r"user=a\", r"user=\n"] {
            assert_eq!(
                read(text),
                Err(InvalidDescriptorText::Escape(text.to_owned()))
            );
        }
    }
}
