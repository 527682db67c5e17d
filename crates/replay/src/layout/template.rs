//! Lines as a `log_format` of nginx or a `LogFormat` of Apache describes them.
//!
//! A value ends where the text that follows it in the format begins. In quotes, that is a quote
//! that is not escaped. What follows the last value that is needed is not looked at.

use std::borrow::Cow;
use std::fmt;

use crate::access_log::is_escaped;
use crate::field::Field;
use crate::record::{BadRecord, Record, Slot, is_had};

mod apache;
mod nginx;
mod quoting;

/// The bytes of `17/May/2015:10:05:03 +0000`, which has a blank in it.
const TIME_BYTES: usize = 26;

/// Where the values of a line are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Template {
    /// What a line begins with.
    lead: Vec<u8>,
    parts: Vec<Part>,
    /// A value whose end cannot be found, so that nothing behind it can be.
    lost_at: Option<String>,
    /// What is said of a line that is not in the format, if the user has not written the format.
    expected: Option<&'static str>,
}

/// A value, and what follows it.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Part {
    /// As written in the format.
    name: String,
    slot: Option<Slot>,
    /// It has at least so many bytes.
    width: usize,
    until: Vec<u8>,
    is_quoted: bool,
    /// A line is not in the format if it has a blank.
    is_word: bool,
    /// It is a number, and a line is not in the format if it is none: a port behind an address.
    is_port: bool,
}

/// A piece of a format.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Piece {
    Text(String),
    Value(Value),
}

/// A value in a format.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Value {
    /// As written in the format.
    name: String,
    slot: Option<Slot>,
    /// Of several values for one slot, the one with the lowest rank is taken.
    rank: usize,
    /// Whether it has blanks in it, and how many bytes at least.
    blanks: Blanks,
}

/// Whether a value has blanks in it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Blanks {
    #[default]
    Never,
    /// In its first bytes, so many.
    Within(usize),
    /// Anywhere, if a client chooses it so, which hardly one does.
    Rarely,
    /// Anywhere.
    Maybe,
}

/// A value, what stands before it, and what stands behind it.
type Placed<'v> = (String, &'v Value, String);

/// Why a text is not a log format.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum InvalidLogFormat {
    /// It has no value.
    NoValue,
    /// It is JSON.
    Json,
    /// A directive that cannot be read.
    Directive {
        /// As written.
        directive: String,
        /// Why not, and what to write.
        why: String,
    },
    /// Two values with nothing between them.
    Adjacent {
        /// The first.
        first: String,
        /// The second.
        second: String,
    },
    /// There is no time, or it cannot be found in a line.
    NoTime {
        /// The value before it whose end cannot be found, if there is one.
        lost_at: Option<String>,
    },
}

// === impl Template ===

impl Template {
    /// Reads a format: nginx's if it has a `$`, or else Apache's.
    pub(super) fn parse(format: &str) -> Result<Template, InvalidLogFormat> {
        let unquoted = quoting::unquote(format);
        let format = unquoted.as_deref().unwrap_or(format).trim();
        if format.starts_with('{') {
            return Err(InvalidLogFormat::Json);
        }
        let pieces = match format.contains('$') {
            true => nginx::pieces(format, Blanks::Maybe)?,
            false => apache::pieces(format)?,
        };
        let template = Template::of(&pieces)?;
        let has_time = template.slots().any(|slot| slot == Slot::Time);
        if !has_time {
            return Err(InvalidLogFormat::NoTime {
                lost_at: template.lost_at,
            });
        }
        Ok(template)
    }

    /// A format of a program, whose values that are not named as nginx's have no blanks. A line
    /// that is not in it is said to be not as `expected`.
    pub(super) fn of_program(
        format: &str,
        expected: &'static str,
    ) -> Result<Template, InvalidLogFormat> {
        let template = Template::of(&nginx::pieces(format, Blanks::Never)?)?;
        Ok(Template {
            expected: Some(expected),
            ..template
        })
    }

    /// The values up to the last one that is needed.
    fn of(pieces: &[Piece]) -> Result<Template, InvalidLogFormat> {
        let (lead, values) = place(pieces)?;
        let slots = choose_slots(&values);
        let needed = slots.iter().rposition(Option::is_some);
        let needed = needed.ok_or(InvalidLogFormat::NoValue)?;
        let (mut parts, mut lost_at, mut words) = (Vec::new(), None, 0);
        for (index, (before, value, until)) in values.iter().enumerate() {
            if index > needed && index >= words {
                break;
            }
            let is_quoted = before.ends_with('"') && until.starts_with('"');
            let has_blank_end = until.starts_with(' ');
            if value.blanks == Blanks::Rarely && has_blank_end && !is_quoted {
                words = words.max(end_of_words(&lead, &values, &slots, index).unwrap_or(0));
            }
            let is_word = index < words && !matches!(value.blanks, Blanks::Within(_));
            let may_have_blanks = matches!(value.blanks, Blanks::Rarely | Blanks::Maybe);
            if may_have_blanks && has_blank_end && !is_quoted && !is_word {
                lost_at = Some(value.name.clone());
                break;
            }
            parts.push(Part {
                name: value.name.clone(),
                slot: slots[index],
                width: match value.blanks {
                    Blanks::Within(bytes) if has_blank_end => bytes,
                    _ => 0,
                },
                until: until.clone().into_bytes(),
                is_quoted,
                is_word,
                is_port: value.name == nginx::PORT,
            });
        }
        Ok(Template {
            lead: lead.into_bytes(),
            parts,
            lost_at,
            expected: None,
        })
    }

    fn slots(&self) -> impl Iterator<Item = Slot> {
        self.parts.iter().filter_map(|part| part.slot)
    }

    /// Why lines do not have this field.
    pub(super) fn lacks(&self, field: Field) -> Option<String> {
        if is_had(field, |slot| self.slots().any(|known| known == slot)) {
            return None;
        }
        let name = field.name();
        Some(match &self.lost_at {
            None => format!("the log format has no `{name}`"),
            Some(lost_at) => format!(
                "the log format has no `{name}` before {lost_at}, which may have blanks in it and \
                 is not in quotes, so that its end cannot be found"
            ),
        })
    }

    /// The values of a line.
    pub(super) fn read<'a>(&self, line: &'a [u8]) -> Result<Record<'a>, BadRecord> {
        let read = self.read_parts(line);
        match self.expected {
            Some(expected) => read.map_err(|_| BadRecord::Layout(expected.to_owned())),
            None => read,
        }
    }

    /// The values of a line, or which text of the format is missing in it, behind which value.
    fn read_parts<'a>(&self, line: &'a [u8]) -> Result<Record<'a>, BadRecord> {
        let mut record = Record::default();
        let lead = String::from_utf8_lossy(&self.lead);
        let rest = line.strip_prefix(self.lead.as_slice());
        let mut rest = rest.ok_or_else(|| {
            BadRecord::Layout(format!(
                "not in the log format: it does not begin with `{lead}`"
            ))
        })?;
        for part in &self.parts {
            let Some(end) = part.end(rest) else {
                return Err(BadRecord::Layout(format!(
                    "not in the log format: no `{}` follows {}",
                    String::from_utf8_lossy(&part.until),
                    part.name
                )));
            };
            let value = &rest[..end];
            if part.is_port && !value.iter().all(u8::is_ascii_digit) {
                let why = format!("not in the log format: {} is not a number", part.name);
                return Err(BadRecord::Layout(why));
            }
            let is_word = part.is_word || part.slot == Some(Slot::Field(Field::Client));
            if is_word && value.contains(&b' ') {
                let why = format!("not in the log format: {} has a blank", part.name);
                return Err(BadRecord::Layout(why));
            }
            if let Some(slot) = part.slot {
                record.set(slot, Cow::Borrowed(value));
            }
            rest = &rest[end + part.until.len()..];
        }
        Ok(record)
    }
}

/// Puts together values and what stands between them; and what a line begins with.
fn place(pieces: &[Piece]) -> Result<(String, Vec<Placed<'_>>), InvalidLogFormat> {
    let mut lead = String::new();
    let mut values: Vec<Placed<'_>> = Vec::new();
    for piece in pieces {
        match piece {
            Piece::Text(text) => match values.last_mut() {
                None => lead.push_str(text),
                Some((_, _, until)) => until.push_str(text),
            },
            Piece::Value(value) => {
                let before = match values.last() {
                    None => lead.clone(),
                    Some((_, last, until)) if until.is_empty() => {
                        return Err(InvalidLogFormat::Adjacent {
                            first: last.name.clone(),
                            second: value.name.clone(),
                        });
                    }
                    Some((_, _, until)) => until.clone(),
                };
                values.push((before, value, String::new()));
            }
        }
    }
    Ok((lead, values))
}

/// The end of the values from this one on of which each must be a word, so that a blank in one of
/// them makes a line one with too many words: up to the quote that closes those in quotes, or up to
/// a time in brackets. `None` if a blank could make another value the client.
fn end_of_words(
    lead: &str,
    values: &[Placed<'_>],
    slots: &[Option<Slot>],
    from: usize,
) -> Option<usize> {
    let is_client = |slot: &Option<Slot>| *slot == Some(Slot::Field(Field::Client));
    let texts = values[..from].iter().map(|(_, _, until)| until.as_str());
    let quotes: usize = texts
        .chain([lead])
        .map(|text| text.matches('"').count())
        .sum();
    let is_in_quotes = !quotes.is_multiple_of(2);
    for (index, (_, value, until)) in values.iter().enumerate().skip(from) {
        if value.blanks == Blanks::Maybe || is_client(&slots[index]) {
            return None;
        }
        let next = values.get(index + 1).map(|(_, next, _)| *next);
        let is_before_time = next.is_some_and(|next| {
            let has_brackets = until.ends_with('[') || next.blanks == apache::IN_BRACKETS;
            next.slot == Some(Slot::Time) && has_brackets
        });
        match (is_in_quotes, until.contains('"')) {
            (true, true) => return Some(index + 1),
            // Servers escape quotes in values, so a blank and a quote end the value.
            (false, true) if until == " \"" && !slots[index..].iter().any(is_client) => {
                return Some(index + 1);
            }
            (false, true) => return None,
            // A client could choose a time in brackets, and what is behind it.
            _ if is_before_time && slots[index..].iter().any(is_client) => return None,
            _ if is_before_time => return Some(index + 1),
            _ => {}
        }
    }
    None
}

/// The slots of the values: of several values for one slot, that of the lowest rank has it.
fn choose_slots(values: &[Placed<'_>]) -> Vec<Option<Slot>> {
    let is_best = |one: &Value| {
        let others = values.iter().filter(|(_, other, _)| other.slot == one.slot);
        let best = others.min_by_key(|(_, other, _)| other.rank);
        best.is_some_and(|(_, best, _)| std::ptr::eq(*best, one))
    };
    let slots = values.iter();
    slots
        .map(|(_, value, _)| value.slot.filter(|_| is_best(value)))
        .collect()
}

impl Part {
    /// Where the value ends.
    fn end(&self, text: &[u8]) -> Option<usize> {
        if self.until.is_empty() {
            return Some(text.len());
        }
        let behind = text.get(self.width..)?;
        if self.slot == Some(Slot::Field(Field::Client)) && self.until.starts_with(b":") {
            // An IPv6 address has colons, too: the last one before a blank is the port's.
            let word = memchr::memchr(b' ', text).unwrap_or(text.len());
            return memchr::memrchr(b':', &text[..word])
                .filter(|colon| text[*colon..].starts_with(&self.until));
        }
        let first = || memchr::memmem::find(behind, &self.until);
        let end = match self.is_quoted {
            false => first(),
            true => memchr::memmem::find_iter(behind, &self.until)
                .find(|quote| !is_escaped(text, *quote))
                .or_else(first),
        };
        end.map(|end| end + self.width)
    }
}

// === impl InvalidLogFormat ===

impl std::error::Error for InvalidLogFormat {}

impl fmt::Display for InvalidLogFormat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            InvalidLogFormat::NoValue => f.write_str(
                "it has no variable of nginx ($remote_addr) and no directive of Apache (%h) that \
                 says anything of a request",
            ),
            InvalidLogFormat::Json => {
                f.write_str("it is JSON; write --format nginx-json, or --format json with --fields")
            }
            InvalidLogFormat::Directive { directive, why } => write!(f, "{directive}: {why}"),
            InvalidLogFormat::Adjacent { first, second } => write!(
                f,
                "nothing is between {first} and {second}, so where one ends cannot be known"
            ),
            InvalidLogFormat::NoTime { lost_at: None } => f.write_str(
                "it has no time; nginx's are $time_local, $time_iso8601 and $msec, Apache's is %t",
            ),
            InvalidLogFormat::NoTime {
                lost_at: Some(lost_at),
            } => write!(
                f,
                "the time is behind {lost_at}, which may have blanks in it and is not in quotes, \
                 so that its end cannot be found"
            ),
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests;
