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
/// Variables that cannot have a blank, whatever a client sends.
const WITHOUT_BLANKS: [&str; 33] = [
    "remote_addr",
    "remote_port",
    "realip_remote_addr",
    "realip_remote_port",
    "proxy_protocol_addr",
    "proxy_protocol_port",
    "status",
    "bytes_sent",
    "body_bytes_sent",
    "request_method",
    "request_length",
    "request_time",
    "request_id",
    "msec",
    "time_iso8601",
    "host",
    "hostname",
    "scheme",
    "https",
    "pipe",
    "pid",
    "gzip_ratio",
    "connection",
    "connection_requests",
    "connection_time",
    "server_addr",
    "server_name",
    "server_port",
    "server_protocol",
    "content_length",
    "limit_req_status",
    "limit_conn_status",
    "request_completion",
];
/// What the names of others begin with, which are numbers.
const TCP_INFO: &str = "tcpinfo_";
/// Variables that a client may choose with a blank in it.
const RARELY_WITH_BLANKS: [&str; 6] = [
    "remote_user",
    "request_uri",
    "uri",
    "document_uri",
    "args",
    "query_string",
];

/// Splits a format into text and variables; `others` are the blanks of variables that are not known
/// here.
pub(super) fn pieces(format: &str, others: Blanks) -> Result<Vec<Piece>, InvalidLogFormat> {
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
        pieces.push(Piece::Value(value(name, others)));
        rest = after;
    }
    if !rest.is_empty() {
        pieces.push(Piece::Text(rest.to_owned()));
    }
    Ok(pieces)
}

fn value(name: &str, others: Blanks) -> Value {
    let known = VARIABLES.iter().position(|(variable, _)| *variable == name);
    Value {
        name: format!("${name}"),
        slot: known.map(|at| VARIABLES[at].1),
        rank: known.unwrap_or_default(),
        blanks: match name {
            "time_local" => Blanks::Within(TIME_BYTES),
            _ if RARELY_WITH_BLANKS.contains(&name) => Blanks::Rarely,
            _ if WITHOUT_BLANKS.contains(&name) => Blanks::Never,
            _ if name.starts_with(TCP_INFO) => Blanks::Never,
            _ => others,
        },
    }
}
