//! Patterns that make a descriptor from a line of an access log: `key={field},key2=text`.

use std::fmt;
use std::str::FromStr;

use tollgate_core::{Descriptor, ENTRIES_MAX, Entry};

use crate::field::{Field, Fields, field_names};
use crate::values::Values;

/// One `--descriptor`: keys, and how their values are made from a line's fields.
///
/// Entries are separated by commas; blanks around them are ignored. In a value, `{field}` is
/// replaced by a field of the line ([`Field`]); a value cannot contain a comma or another brace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pattern {
    entries: Vec<(String, Vec<Piece>)>,
    /// Whether logs must have its fields.
    is_required: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Piece {
    Text(String),
    Field(Field),
}

/// Why a text is not a [`Pattern`].
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum InvalidPattern {
    /// No such field.
    UnknownField {
        /// As written.
        field: String,
        /// The field that was probably meant, if that is clear.
        meant: Option<&'static str>,
    },
    /// A field other than the client, where traffic has only clients.
    NotClient {
        /// As written.
        field: String,
    },
    /// A `{` without its `}`, or the reverse.
    Brace {
        /// The value.
        value: String,
    },
    /// An entry that is not `key=value`.
    NoValue {
        /// The entry.
        entry: String,
    },
    /// An entry that begins with `=`.
    NoKey {
        /// The entry.
        entry: String,
    },
    /// A field that lines of the log do not have.
    Lacks {
        /// Why not.
        why: String,
    },
    /// More entries than a descriptor may have.
    ManyEntries {
        /// How many.
        count: usize,
    },
}

// === impl Pattern ===

impl Pattern {
    /// Reads a pattern for traffic that has no lines of a log: `{client}` is its only field.
    ///
    /// # Errors
    ///
    /// [`InvalidPattern`].
    pub fn of_clients(text: &str) -> Result<Pattern, InvalidPattern> {
        let not_client = |field: String| Err(InvalidPattern::NotClient { field });
        let pattern: Pattern = match text.parse() {
            Err(InvalidPattern::UnknownField { field, .. }) => return not_client(field),
            parsed => parsed?,
        };
        let other = pattern.fields().find(|field| *field != Field::Client);
        match other {
            Some(field) => not_client(field.name().to_owned()),
            None => Ok(pattern),
        }
    }

    /// The same pattern, whose fields are empty if the lines of a log cannot have them. Of another
    /// pattern, this is an error.
    #[must_use]
    pub fn without_requirements(self) -> Pattern {
        Pattern {
            is_required: false,
            ..self
        }
    }

    /// The keys of the entries, in order.
    pub fn keys(&self) -> impl Iterator<Item = &str> {
        self.entries.iter().map(|(key, _)| key.as_str())
    }

    /// Adds the values of this pattern's entries.
    pub(crate) fn render(&self, line: &Fields<'_>, values: &mut Values) {
        for (_, pieces) in &self.entries {
            values.push(pieces.iter().map(|piece| match piece {
                Piece::Text(text) => text.as_bytes(),
                Piece::Field(field) => line.get(*field),
            }));
        }
    }

    /// The descriptor with these values; takes as many of them as there are entries.
    pub(crate) fn descriptor<'a>(
        &'a self,
        values: &mut impl Iterator<Item = &'a [u8]>,
    ) -> Descriptor<'a> {
        let entries = self.entries.iter().zip(values);
        let entries = entries.map(|((key, _), value)| Entry {
            key: key.as_bytes(),
            value,
        });
        Descriptor {
            entries: entries.collect(),
            ..Descriptor::default()
        }
    }

    /// The fields that values are made of.
    pub(crate) fn fields(&self) -> impl Iterator<Item = Field> {
        let pieces = self.entries.iter().flat_map(|(_, pieces)| pieces);
        pieces.filter_map(|piece| match piece {
            Piece::Field(field) => Some(*field),
            Piece::Text(_) => None,
        })
    }

    /// The fields that the lines of a log must have.
    pub(crate) fn required_fields(&self) -> impl Iterator<Item = Field> {
        self.fields().filter(|_| self.is_required)
    }
}

impl FromStr for Pattern {
    type Err = InvalidPattern;

    fn from_str(text: &str) -> Result<Pattern, InvalidPattern> {
        let entries: Vec<_> = text.split(',').map(entry).collect::<Result<_, _>>()?;
        if entries.len() > ENTRIES_MAX {
            let count = entries.len();
            return Err(InvalidPattern::ManyEntries { count });
        }
        Ok(Pattern {
            entries,
            is_required: true,
        })
    }
}

fn entry(text: &str) -> Result<(String, Vec<Piece>), InvalidPattern> {
    let text = text.trim();
    let entry = || text.to_owned();
    match text.split_once('=') {
        Some(("", _)) => Err(InvalidPattern::NoKey { entry: entry() }),
        None | Some((_, "")) => Err(InvalidPattern::NoValue { entry: entry() }),
        Some((key, value)) => Ok((key.trim_end().to_owned(), pieces(value.trim_start())?)),
    }
}

/// Splits a pattern's value into text and fields.
fn pieces(value: &str) -> Result<Vec<Piece>, InvalidPattern> {
    let brace = || InvalidPattern::Brace {
        value: value.to_owned(),
    };
    let mut pieces = Vec::new();
    let mut rest = value;
    while !rest.is_empty() {
        let end = rest.find(['{', '}']).unwrap_or(rest.len());
        let (literal, braced) = rest.split_at(end);
        if !literal.is_empty() {
            pieces.push(Piece::Text(literal.to_owned()));
        }
        let Some(braced) = braced.strip_prefix('{') else {
            return if braced.is_empty() {
                Ok(pieces)
            } else {
                Err(brace())
            };
        };
        let (name, after) = braced.split_once('}').ok_or_else(brace)?;
        pieces.push(Piece::Field(Field::of_name(name.trim())?));
        rest = after;
    }
    Ok(pieces)
}

// === impl InvalidPattern ===

impl std::error::Error for InvalidPattern {}

impl fmt::Display for InvalidPattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            InvalidPattern::UnknownField { field, meant } => {
                write!(f, "there is no field `{field}`; ")?;
                if let Some(meant) = meant {
                    write!(f, "did you mean `{meant}`? ")?;
                }
                let names = field_names();
                write!(f, "fields: {names}")
            }
            InvalidPattern::NotClient { field } => {
                write!(
                    f,
                    "there is no `{{{field}}}`: this traffic has only `{{client}}`; write the text \
                     itself, such as path=/login"
                )
            }
            InvalidPattern::Brace { value } => {
                write!(
                    f,
                    "a brace of `{value}` has no partner; a field is written `{{client}}`"
                )
            }
            InvalidPattern::NoValue { entry } => {
                write!(
                    f,
                    "`{entry}` has no value; write `key={{field}}` or `key=text`"
                )
            }
            InvalidPattern::NoKey { entry } => {
                write!(
                    f,
                    "`{entry}` has no key; write `key={{field}}` or `key=text`"
                )
            }
            InvalidPattern::Lacks { why } => f.write_str(why),
            InvalidPattern::ManyEntries { count } => {
                write!(
                    f,
                    "{count} entries in a descriptor; {ENTRIES_MAX} is the most"
                )
            }
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests;
