//! Formats of Apache: `%h %l %u %t "%r" %>s %b "%{Referer}i" "%{User-Agent}i"`.

use super::{Blanks, InvalidLogFormat, Piece, TIME_BYTES, Value};
use crate::field::Field;
use crate::record::Slot;

/// Directives of one letter that say something of a request.
const DIRECTIVES: [(char, Slot); 15] = [
    ('t', Slot::Time),
    ('r', Slot::Request),
    ('a', Slot::Field(Field::Client)),
    ('h', Slot::Field(Field::Client)),
    ('u', Slot::Field(Field::User)),
    ('m', Slot::Field(Field::Method)),
    ('U', Slot::Field(Field::Path)),
    ('q', Slot::Field(Field::Query)),
    ('H', Slot::Field(Field::Protocol)),
    ('s', Slot::Field(Field::Status)),
    ('b', Slot::Field(Field::Bytes)),
    ('B', Slot::Field(Field::Bytes)),
    ('O', Slot::Field(Field::Bytes)),
    ('V', Slot::Field(Field::Host)),
    ('v', Slot::Field(Field::Host)),
];
/// Those that say nothing that is needed.
const OTHERS: &str = "lADefIkLpPRSTXi";
/// Headers of a request, `%{Name}i`.
const HEADERS: [(&str, Field); 4] = [
    ("referer", Field::Referer),
    ("user-agent", Field::UserAgent),
    ("host", Field::Host),
    ("x-forwarded-for", Field::ForwardedFor),
];
/// The formats of `%{…}t` that can be read, and how many bytes they have that may be blanks.
const TIMES: [(&str, usize); 8] = [
    ("sec", 0),
    ("msec", 0),
    ("usec", 0),
    ("%s", 0),
    ("%d/%b/%Y:%H:%M:%S %z", TIME_BYTES),
    ("%Y-%m-%dT%H:%M:%S%z", 0),
    ("%FT%T%z", 0),
    ("%F %T %z", "2015-05-17 10:05:03 +0000".len()),
];

/// The blanks of `%t`.
pub(super) const IN_BRACKETS: Blanks = Blanks::Within(TIME_BYTES + "[]".len());

/// Splits a format into text and directives.
pub(super) fn pieces(format: &str) -> Result<Vec<Piece>, InvalidLogFormat> {
    let mut pieces = Vec::new();
    let mut text = String::new();
    // As in Apache's configuration, where a format is in quotes.
    let format = format.replace("\\\"", "\"").replace("\\t", "\t");
    let mut rest = format.as_str();
    while let Some(at) = rest.find('%') {
        text.push_str(&rest[..at]);
        let behind = &rest[at + 1..];
        if let Some(after) = behind.strip_prefix('%') {
            text.push('%');
            rest = after;
            continue;
        }
        let (value, after) = directive(behind)?;
        if !text.is_empty() {
            pieces.push(Piece::Text(std::mem::take(&mut text)));
        }
        pieces.push(Piece::Value(value));
        rest = after;
    }
    text.push_str(rest);
    if !text.is_empty() {
        pieces.push(Piece::Text(text));
    }
    Ok(pieces)
}

/// Reads a directive from behind its `%`: `>s`, `{Referer}i`, `!200,304{User-Agent}i`.
fn directive(text: &str) -> Result<(Value, &str), InvalidLogFormat> {
    let is_condition = |char: char| matches!(char, '!' | '<' | '>' | ',') || char.is_ascii_digit();
    let behind = text.trim_start_matches(is_condition);
    let conditions = &text[..text.len() - behind.len()];
    let (argument, behind) = match behind.strip_prefix('{') {
        Some(braced) => match braced.split_once('}') {
            Some((argument, behind)) => (Some(argument), behind),
            None => return Err(invalid(&format!("%{text}"), "the brace is not closed")),
        },
        None => (None, behind),
    };
    let mut letters = behind.chars();
    // `^ti` and `^to` are the only ones with more than a letter: trailers.
    let letter = match behind.strip_prefix('^') {
        Some(trailer) if trailer.starts_with("ti") || trailer.starts_with("to") => {
            letters = trailer[2..].chars();
            Some('^')
        }
        _ => letters.next(),
    };
    let written = &text[..text.len() - letters.as_str().len()];
    let value = value(letter, argument, conditions, &format!("%{written}"))?;
    Ok((value, letters.as_str()))
}

/// What a directive says of a request.
fn value(
    letter: Option<char>,
    argument: Option<&str>,
    conditions: &str,
    written: &str,
) -> Result<Value, InvalidLogFormat> {
    let known = DIRECTIVES
        .iter()
        .position(|(known, _)| Some(*known) == letter);
    let mut value = Value {
        name: written.to_owned(),
        rank: known.unwrap_or_default(),
        ..Value::default()
    };
    match (letter, argument) {
        (Some('t'), None) => {
            value.slot = Some(Slot::Time);
            value.blanks = IN_BRACKETS;
        }
        (Some('t'), Some(format)) => {
            let format = format.strip_prefix("begin:").unwrap_or(format);
            // A part of the second, and the time of the answer, say nothing of the request.
            if !(format.ends_with("_frac") || format.starts_with("end:")) {
                let known = TIMES.iter().find(|(known, _)| *known == format);
                let (_, bytes) = known.ok_or_else(|| invalid(written, &times()))?;
                value.slot = Some(Slot::Time);
                value.blanks = Blanks::Within(*bytes);
            }
        }
        (Some('i'), Some(header)) => {
            let name = header.to_ascii_lowercase();
            let header = HEADERS.iter().find(|(known, _)| *known == name);
            value.slot = header.map(|(_, field)| Slot::Field(*field));
            value.blanks = Blanks::Maybe;
        }
        (Some('o' | 'C' | 'e' | 'n' | 'x' | '^'), Some(_)) => value.blanks = Blanks::Maybe,
        // The peer itself, if a proxy names the client.
        (Some('a'), Some(_)) | (Some('h'), Some(_)) => {}
        // Before an internal redirection, or of another request.
        (Some('s'), None) if conditions.contains('<') => {}
        (Some(_), None) if known.is_some() => {
            value.slot = known.map(|at| DIRECTIVES[at].1);
            value.blanks = match letter {
                Some('r') => Blanks::Maybe,
                Some('u' | 'U') => Blanks::Rarely,
                _ => Blanks::Never,
            };
        }
        (Some('l'), None) => value.blanks = Blanks::Rarely,
        (Some('f'), None) => value.blanks = Blanks::Maybe,
        (Some(letter), _) if OTHERS.contains(letter) => {}
        (Some(_), _) => {
            return Err(invalid(
                written,
                "Apache has no such directive; write %% for a %",
            ));
        }
        (None, _) => return Err(invalid(written, "no letter follows; write %% for a %")),
    }
    Ok(value)
}

fn times() -> String {
    let known = TIMES.map(|(format, _)| format!("%{{{format}}}t"));
    format!(
        "times in this form cannot be read; write %t, or one of {}",
        known.join(", ")
    )
}

fn invalid(directive: &str, why: &str) -> InvalidLogFormat {
    InvalidLogFormat::Directive {
        directive: directive.to_owned(),
        why: why.to_owned(),
    }
}
