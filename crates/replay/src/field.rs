//! The fields of a line of a log: their names, and their values in one line.

use tollgate_rules::nearest;

use crate::access_log::{LogLine, RequestLine};
use crate::pattern::InvalidPattern;

/// A field of an access log's line. One that a line does not have is empty there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
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
    /// The host that the request is for; not in the common and the combined format.
    Host,
    /// The `X-Forwarded-For` header; not in the common and the combined format.
    ForwardedFor,
}

const FIELDS: [(&str, Field); Field::COUNT] = [
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
    ("host", Field::Host),
    ("forwarded_for", Field::ForwardedFor),
];

/// Names that other programs use for a field.
pub(crate) const OTHER_NAMES: [(&str, &str); 31] = [
    ("ip", "client"),
    ("addr", "client"),
    ("address", "client"),
    ("remote_addr", "client"),
    ("remote_address", "client"),
    ("remote_host", "client"),
    ("client_ip", "client"),
    ("clientip", "client"),
    ("h", "client"),
    ("remote_user", "user"),
    ("u", "user"),
    ("verb", "method"),
    ("target", "path"),
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
    ("http_referer", "referer"),
    ("http_user_agent", "user_agent"),
    ("http_host", "host"),
    ("x_forwarded_for", "forwarded_for"),
    ("http_x_forwarded_for", "forwarded_for"),
];

// === impl Field ===

impl Field {
    /// How many there are.
    pub(crate) const COUNT: usize = 12;

    /// All fields, in their order.
    pub(crate) fn all() -> impl Iterator<Item = Field> {
        FIELDS.into_iter().map(|(_, field)| field)
    }

    /// Its place among all.
    #[expect(
        clippy::as_conversions,
        reason = "the only constant way to number the variants of an enum"
    )]
    pub(crate) const fn index(self) -> usize {
        self as usize
    }

    /// Its name in patterns.
    pub(crate) fn name(self) -> &'static str {
        FIELDS[self.index()].0
    }

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
    pub(crate) const fn is_of_agent(self) -> bool {
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
    nearest(&name, &FIELDS.map(|(known, _)| known))
}

/// The names of all fields.
pub(crate) fn field_names() -> String {
    FIELDS.map(|(name, _)| name).join(", ")
}

// === fields of a line ===

/// The fields of one line; those that it does not have are empty.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Fields<'a> {
    values: [&'a [u8]; Field::COUNT],
}

/// Whether a pattern uses the referer or the user agent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Agent {
    Read,
    Ignore,
}

impl<'a> Fields<'a> {
    /// The fields of a line in the common or the combined format.
    pub(crate) fn of(line: LogLine<'a>, agent: Agent) -> Fields<'a> {
        let (referer, user_agent) = match agent {
            Agent::Read => line.referer_and_user_agent(),
            Agent::Ignore => (&b""[..], &b""[..]),
        };
        let RequestLine {
            method,
            path,
            query,
            protocol,
        } = RequestLine::parse(line.request);
        Fields {
            // In the order of `Field`.
            values: [
                line.client,
                line.user,
                method,
                path,
                query,
                protocol,
                line.status,
                line.bytes,
                referer,
                user_agent,
                b"",
                b"",
            ],
        }
    }

    pub(crate) const fn get(&self, field: Field) -> &'a [u8] {
        self.values[field.index()]
    }

    pub(crate) const fn set(&mut self, field: Field, value: &'a [u8]) {
        self.values[field.index()] = value;
    }
}
