//! Formats of nginx: `$remote_addr - $remote_user [$time_local] "$request" $status`.

use super::{Blanks, InvalidLogFormat, Piece, TIME_BYTES, Value};
use crate::field::Field;
use crate::record::Slot;

/// The variables that say something of a request; of several for one value, the first is taken.
const VARIABLES: [(&str, Slot); 22] = [
    ("msec", Slot::Time),
    ("time_iso8601", Slot::Time),
    ("time_local", Slot::Time),
    ("request", Slot::Request),
    ("remote_addr", Slot::Field(Field::Client)),
    ("remote_user", Slot::Field(Field::User)),
    ("request_method", Slot::Field(Field::Method)),
    ("request_uri", Slot::Field(Field::Path)),
    ("uri", Slot::Field(Field::Path)),
    ("document_uri", Slot::Field(Field::Path)),
    ("args", Slot::Field(Field::Query)),
    ("query_string", Slot::Field(Field::Query)),
    ("server_protocol", Slot::Field(Field::Protocol)),
    ("status", Slot::Field(Field::Status)),
    ("body_bytes_sent", Slot::Field(Field::Bytes)),
    ("bytes_sent", Slot::Field(Field::Bytes)),
    ("http_referer", Slot::Field(Field::Referer)),
    ("http_user_agent", Slot::Field(Field::UserAgent)),
    ("host", Slot::Field(Field::Host)),
    ("http_host", Slot::Field(Field::Host)),
    ("server_name", Slot::Field(Field::Host)),
    ("http_x_forwarded_for", Slot::Field(Field::ForwardedFor)),
];
/// The variable that says nothing of a request, but is a number.
pub(super) const PORT: &str = "$remote_port";
/// What the names of variables begin with whose values may have blanks.
const WITH_BLANKS: [&str; 8] = [
    "http_",
    "sent_http_",
    "upstream_",
    "cookie_",
    "ssl_",
    "request_body",
    "request_filename",
    "proxy_add_",
];

/// Splits a format into text and variables.
pub(super) fn pieces(format: &str) -> Result<Vec<Piece>, InvalidLogFormat> {
    let mut pieces = Vec::new();
    let mut rest = format;
    while let Some(at) = rest.find('$') {
        if at > 0 {
            pieces.push(Piece::Text(rest[..at].to_owned()));
        }
        let behind = &rest[at + 1..];
        let is_name = |char: char| char.is_ascii_alphanumeric() || char == '_';
        let (name, after) = match behind.strip_prefix('{') {
            Some(braced) => braced.split_once('}').unwrap_or(("", "")),
            None => behind.split_at(behind.find(|char| !is_name(char)).unwrap_or(behind.len())),
        };
        if name.is_empty() || !name.chars().all(is_name) {
            return Err(InvalidLogFormat::Directive {
                directive: "$".to_owned(),
                why: "no name of a variable follows; write such as $remote_addr".to_owned(),
            });
        }
        pieces.push(Piece::Value(value(name)));
        rest = after;
    }
    if !rest.is_empty() {
        pieces.push(Piece::Text(rest.to_owned()));
    }
    Ok(pieces)
}

fn value(name: &str) -> Value {
    let known = VARIABLES.iter().position(|(variable, _)| *variable == name);
    let may_have_blanks =
        name == "request" || WITH_BLANKS.iter().any(|prefix| name.starts_with(prefix));
    Value {
        name: format!("${name}"),
        slot: known.map(|at| VARIABLES[at].1),
        rank: known.unwrap_or_default(),
        blanks: match name {
            "time_local" => Blanks::Within(TIME_BYTES),
            _ if may_have_blanks => Blanks::Maybe,
            _ => Blanks::Never,
        },
    }
}
