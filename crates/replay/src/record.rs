//! One line of a log whose layout says where the values are: the values, and what they mean.

use std::borrow::Cow;
use std::fmt;
use std::net::SocketAddr;

use tollgate_core::Moment;

use crate::access_log::RequestLine;
use crate::field::{Field, Fields};
use crate::timestamp::BadMoment;
use crate::timestamp::written::written;

/// What a value of a line is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Slot {
    /// The time, see [`written`].
    Time,
    /// The first line of the request, `GET /a?b HTTP/1.1`.
    Request,
    /// A field. A path may have its query, and before it scheme and host.
    Field(Field),
}

/// How many kinds of values there are.
const SLOTS: usize = Field::COUNT + 2;

/// The values of a line; missing ones are empty, and so is `-`.
#[derive(Debug, Default)]
pub(crate) struct Record<'a> {
    values: [Cow<'a, [u8]>; SLOTS],
    /// Whether lines of this layout have a client.
    has_client: bool,
}

/// Why a line is not an event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum BadRecord {
    Blank,
    NoTime,
    Time(BadMoment),
    NoClient,
    /// Not in the layout; the text says why.
    Layout(String),
}

// === impl Slot ===

impl Slot {
    pub(crate) const fn index(self) -> usize {
        match self {
            Slot::Time => 0,
            Slot::Request => 1,
            Slot::Field(field) => 2 + field.index(),
        }
    }
}

/// Whether a log that has these slots has a field, on its own or as a part of another.
pub(crate) fn is_had(field: Field, has: impl Fn(Slot) -> bool) -> bool {
    let of_request = matches!(
        field,
        Field::Method | Field::Path | Field::Query | Field::Protocol
    );
    has(Slot::Field(field))
        || of_request && has(Slot::Request)
        || field == Field::Query && has(Slot::Field(Field::Path))
}

// === impl Record ===

impl<'a> Record<'a> {
    /// Sets a value.
    pub(crate) fn set(&mut self, slot: Slot, value: Cow<'a, [u8]>) {
        self.has_client |= slot == Slot::Field(Field::Client);
        self.values[slot.index()] = value;
    }

    pub(crate) fn get(&self, slot: Slot) -> &[u8] {
        match &*self.values[slot.index()] {
            b"-" => b"",
            value => value,
        }
    }

    /// The moment and the fields of the line.
    pub(crate) fn read(&self) -> Result<(Moment, Fields<'_>), BadRecord> {
        let time = self.get(Slot::Time);
        if time.is_empty() {
            return Err(BadRecord::NoTime);
        }
        let at = written(time).map_err(BadRecord::Time)?;
        let mut fields = Fields::default();
        for field in Field::all() {
            fields.set(field, self.get(Slot::Field(field)));
        }
        self.read_request(&mut fields);
        let client = without_port(fields.get(Field::Client));
        if self.has_client && (client.is_empty() || client.contains(&b' ')) {
            return Err(BadRecord::NoClient);
        }
        fields.set(Field::Client, client);
        Ok((at, fields))
    }

    /// Takes method, path, query and protocol from the first line of the request where they are not
    /// given on their own, and the query from the path.
    fn read_request<'r>(&'r self, fields: &mut Fields<'r>) {
        let request = RequestLine::parse(self.get(Slot::Request));
        let parts = [
            (Field::Method, request.method),
            (Field::Path, request.path),
            (Field::Query, request.query),
            (Field::Protocol, request.protocol),
        ];
        for (field, value) in parts {
            if fields.get(field).is_empty() {
                fields.set(field, value);
            }
        }
        let target = without_origin(fields.get(Field::Path));
        let (path, query) = match memchr::memchr(b'?', target) {
            Some(at) => (&target[..at], &target[at + 1..]),
            None => (target, &b""[..]),
        };
        fields.set(Field::Path, path);
        let given = fields.get(Field::Query);
        let given = given.strip_prefix(b"?").unwrap_or(given);
        fields.set(Field::Query, if given.is_empty() { query } else { given });
    }
}

/// The target without `https://example.com:443` before its path.
fn without_origin(target: &[u8]) -> &[u8] {
    let rest = target.strip_prefix(b"http://");
    let Some(rest) = rest.or_else(|| target.strip_prefix(b"https://")) else {
        return target;
    };
    match memchr::memchr2(b'/', b'?', rest) {
        Some(at) if rest[at] == b'/' => &rest[at..],
        _ => b"/",
    }
}

/// The client without its port and its brackets: `192.0.2.1:4242`, `[2001:db8::1]:4242`,
/// `[2001:db8::1]`.
fn without_port(client: &[u8]) -> &[u8] {
    let text = std::str::from_utf8(client).unwrap_or_default();
    let address = match memchr::memrchr(b':', client) {
        Some(colon) if text.parse::<SocketAddr>().is_ok() => &client[..colon],
        _ => client,
    };
    let inner = address.strip_prefix(b"[");
    inner
        .and_then(|inner| inner.strip_suffix(b"]"))
        .unwrap_or(address)
}

// === impl BadRecord ===

impl fmt::Display for BadRecord {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            BadRecord::Blank => f.write_str("the line is blank"),
            BadRecord::NoTime => f.write_str("there is no time"),
            BadRecord::Time(bad) => bad.fmt(f),
            BadRecord::NoClient => f.write_str("there is no client"),
            BadRecord::Layout(why) => f.write_str(why),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_client_loses_its_port_and_nothing_else() {
        for (client, expected) in [
            ("192.0.2.1:4242", "192.0.2.1"),
            ("[2001:db8::1]:4242", "2001:db8::1"),
            ("[2001:db8::1]", "2001:db8::1"),
            ("192.0.2.1", "192.0.2.1"),
            ("2001:db8::1", "2001:db8::1"),
            ("2001:db8::1:80", "2001:db8::1:80"),
            ("example.com:80", "example.com:80"),
            ("unix:", "unix:"),
            (":", ":"),
        ] {
            assert_eq!(without_port(client.as_bytes()), expected.as_bytes());
        }
    }

    #[test]
    fn a_path_loses_its_origin_and_its_query() {
        let read = |request: &'static str, query: &'static str| {
            let mut record = Record::default();
            record.set(Slot::Time, b"1"[..].into());
            record.set(Slot::Request, request.as_bytes().into());
            record.set(Slot::Field(Field::Query), query.as_bytes().into());
            let (_, fields) = record.read().expect("it has a time");
            let parts = [Field::Method, Field::Path, Field::Query, Field::Protocol];
            parts.map(|field| String::from_utf8_lossy(fields.get(field)).into_owned())
        };
        let table = [
            ("GET /a?b=1 HTTP/1.1", "", ["GET", "/a", "b=1", "HTTP/1.1"]),
            (
                "GET http://h:80/a?b HTTP/2.0",
                "-",
                ["GET", "/a", "b", "HTTP/2.0"],
            ),
            ("GET https://h?b HTTP/2", "", ["GET", "/", "b", "HTTP/2"]),
            ("GET https://h", "", ["GET", "/", "", ""]),
            (
                "OPTIONS * HTTP/1.1",
                "?x",
                ["OPTIONS", "*", "x", "HTTP/1.1"],
            ),
            ("-", "", ["", "", "", ""]),
        ];
        for (request, query, expected) in table {
            assert_eq!(read(request, query), expected, "{request}");
        }
    }
}
