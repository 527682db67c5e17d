//! Patterns that make a descriptor from a line of an access log: `key={field},key2=text`.

use std::fmt;
use std::str::FromStr;

use tollgate_core::{Descriptor, ENTRIES_MAX, Entry};

use crate::access_log::{LogLine, RequestLine};
use crate::values::Values;

/// One `--descriptor`: keys, and how their values are made from a line's fields.
///
/// Entries are separated by commas; blanks around them are ignored. In a value, `{field}` is
/// replaced by a field of the line ([`Field`]); a value cannot contain a comma or another brace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pattern {
    entries: Vec<(String, Vec<Piece>)>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Piece {
    Text(String),
    Field(Field),
}

/// A field of an access log's line. One that a line does not have is empty there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Field {
    /// The first field, unchanged: an address or a name.
    Client,
    /// The user, `-` if unknown.
    User,
    /// The first word of the request.
    Method,
    /// The path: the target up to the question mark.
    Path,
    /// The query: what follows the question mark.
    Query,
    /// The last word of the request, such as `HTTP/1.1`.
    Protocol,
    /// The response's status.
    Status,
    /// The response's size, `-` if it had none.
    Bytes,
    /// The `Referer` header.
    Referer,
    /// The `User-Agent` header.
    UserAgent,
}

const FIELDS: [(&str, Field); 10] = [
    ("client", Field::Client),
    ("user", Field::User),
    ("method", Field::Method),
    ("path", Field::Path),
    ("query", Field::Query),
    ("protocol", Field::Protocol),
    ("status", Field::Status),
    ("bytes", Field::Bytes),
    ("referer", Field::Referer),
    ("user_agent", Field::UserAgent),
];

/// Names that other programs use for a field.
const OTHER_NAMES: [(&str, &str); 24] = [
    ("ip", "client"),
    ("addr", "client"),
    ("address", "client"),
    ("remote_addr", "client"),
    ("remote_address", "client"),
    ("remote_host", "client"),
    ("host", "client"),
    ("h", "client"),
    ("remote_user", "user"),
    ("u", "user"),
    ("verb", "method"),
    ("uri", "path"),
    ("url", "path"),
    ("request_uri", "path"),
    ("args", "query"),
    ("query_string", "query"),
    ("version", "protocol"),
    ("code", "status"),
    ("size", "bytes"),
    ("length", "bytes"),
    ("body_bytes_sent", "bytes"),
    ("referrer", "referer"),
    ("agent", "user_agent"),
    ("ua", "user_agent"),
];
/// The largest edit distance at which a name counts as a misspelling of another.
const SLIPS_MAX: usize = 3;

/// Why a text is no [`Pattern`].
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
    /// More entries than a descriptor may have.
    ManyEntries {
        /// How many.
        count: usize,
    },
}

// === impl Pattern ===

impl Pattern {
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

    /// Whether a value depends on referer or user agent.
    pub(crate) fn needs_agent(&self) -> bool {
        let mut pieces = self.entries.iter().flat_map(|(_, pieces)| pieces);
        pieces.any(|piece| matches!(piece, Piece::Field(field) if field.needs_agent()))
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
        Ok(Pattern { entries })
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

// === impl Field ===

impl Field {
    /// The field of this name.
    pub(crate) fn of_name(name: &str) -> Result<Field, InvalidPattern> {
        if let Some((_, field)) = FIELDS.iter().find(|(known, _)| *known == name) {
            return Ok(*field);
        }
        Err(InvalidPattern::UnknownField {
            field: name.to_owned(),
            meant: meant_field(name),
        })
    }

    /// Whether the field is the referer or the user agent.
    pub(crate) const fn needs_agent(self) -> bool {
        matches!(self, Field::Referer | Field::UserAgent)
    }
}

/// The field that was probably meant: the name is another program's, or misspelled.
fn meant_field(name: &str) -> Option<&'static str> {
    let name = name.to_lowercase().replace('-', "_");
    let mut other_names = OTHER_NAMES.iter();
    if let Some((_, field)) = other_names.find(|(other, _)| *other == name) {
        return Some(field);
    }
    let slips = |known: &str| strsim::damerau_levenshtein(known, &name);
    let nearest = FIELDS
        .iter()
        .map(|(known, _)| *known)
        .min_by_key(|known| slips(known))?;
    (slips(nearest) <= SLIPS_MAX.min(nearest.len() / 2)).then_some(nearest)
}

// === fields of a line ===

/// A line with its request taken apart, and if it is asked for, referer and user agent.
pub(crate) struct Fields<'a> {
    line: LogLine<'a>,
    request: RequestLine<'a>,
    referer: &'a [u8],
    user_agent: &'a [u8],
}

/// Whether a pattern uses the referer or the user agent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Agent {
    Read,
    Ignore,
}

impl<'a> Fields<'a> {
    pub(crate) fn of(line: LogLine<'a>, agent: Agent) -> Fields<'a> {
        let (referer, user_agent) = match agent {
            Agent::Read => line.referer_and_user_agent(),
            Agent::Ignore => (&b""[..], &b""[..]),
        };
        Fields {
            line,
            request: line.request_line(),
            referer,
            user_agent,
        }
    }

    pub(crate) const fn get(&self, field: Field) -> &'a [u8] {
        match field {
            Field::Client => self.line.client,
            Field::User => self.line.user,
            Field::Method => self.request.method,
            Field::Path => self.request.path,
            Field::Query => self.request.query,
            Field::Protocol => self.request.protocol,
            Field::Status => self.line.status,
            Field::Bytes => self.line.bytes,
            Field::Referer => self.referer,
            Field::UserAgent => self.user_agent,
        }
    }
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
                let names = FIELDS.map(|(name, _)| name).join(", ");
                write!(f, "fields: {names}")
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
