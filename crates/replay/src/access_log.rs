//! Lines of access logs in the common and the combined format.
//!
//! `host ident user [time] "request" status size`, then in the combined format `"referer"` and
//! `"user agent"`. Lines are bytes: a client may send anything, and servers differ in what they
//! escape. A line is an event if everything up to the size can be read; what follows is optional.
//!
//! Exactly three fields precede the time. If there are more, they begin with a prefix that another
//! program added (see [`crate::prefix`]), or the line is not an event: to take the first field for
//! the client would count the wrong key.
//!
//! A quoted field ends at a quote that is not escaped. As not all servers escape quotes, a request
//! ends at the first such quote that status and size follow, and if there is none, at any quote
//! that they follow.

use std::fmt;

use tollgate_core::Moment;

use crate::noun::Noun;
use crate::prefix;
use crate::timestamp::{BadMoment, CLF_BYTES, clf};

/// The most brackets of a line that its time is looked for in. Each of those before the time begins
/// a field, of which a line with all known prefixes has 14, unless values of structured data have
/// further ones.
const BRACKETS_MAX: usize = 16;
/// What addresses and host names have beside letters and digits. A client with anything else is an
/// address with something glued to it, so it would be another key than that of the address.
const IN_CLIENT: &[u8] = b"-._:%/[]*";

/// One request, as a server logged it. Nothing is unescaped; missing fields are empty.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LogLine<'a> {
    pub(crate) at: Moment,
    pub(crate) client: &'a [u8],
    pub(crate) user: &'a [u8],
    pub(crate) request: &'a [u8],
    pub(crate) status: &'a [u8],
    pub(crate) bytes: &'a [u8],
    /// What follows the size.
    rest: &'a [u8],
}

/// The parts of a request such as `GET /a?b HTTP/1.1`; missing parts are empty.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct RequestLine<'a> {
    pub(crate) method: &'a [u8],
    pub(crate) path: &'a [u8],
    pub(crate) query: &'a [u8],
    pub(crate) protocol: &'a [u8],
}

/// What cannot be read in a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BadLine {
    Blank,
    /// No time in brackets.
    Format,
    /// A time, and before it not three fields but so many.
    Fields(usize),
    /// A time, and before it three fields whose first is neither an address nor a host name.
    Client,
    Time(BadMoment),
    Request,
    Status,
    Size,
}

// === impl LogLine ===

impl<'a> LogLine<'a> {
    /// A line of which only the moment and the client are known.
    pub(crate) const fn of_client(at: Moment, client: &'a [u8]) -> LogLine<'a> {
        LogLine {
            at,
            client,
            user: b"",
            request: b"",
            status: b"",
            bytes: b"",
            rest: b"",
        }
    }

    /// Reads a line.
    pub(crate) fn parse(line: &'a [u8]) -> Result<LogLine<'a>, BadLine> {
        if line.trim_ascii().is_empty() {
            return Err(BadLine::Blank);
        }
        let Head {
            client,
            user,
            at,
            rest,
        } = head(strip_quotes(line))?;
        let rest = rest.strip_prefix(b" \"").ok_or(BadLine::Request)?;
        let (request, outcome) = request_and_outcome(rest)?;
        Ok(LogLine {
            at,
            client,
            user,
            request,
            status: outcome.status,
            bytes: outcome.size,
            rest: outcome.rest,
        })
    }

    /// Referer and user agent; empty if missing or damaged.
    pub(crate) fn referer_and_user_agent(&self) -> (&'a [u8], &'a [u8]) {
        let Some((referer, rest)) = split_quoted(self.rest) else {
            return (b"", b"");
        };
        let (user_agent, _) = split_quoted(rest).unwrap_or((b"", b""));
        (referer, user_agent)
    }
}

// === impl RequestLine ===

impl<'a> RequestLine<'a> {
    /// Method, path, query and protocol.
    ///
    /// The protocol is a last word such as `HTTP/1.1`, the method the first; what is between them,
    /// blanks included, is path and query.
    pub(crate) fn parse(request: &'a [u8]) -> RequestLine<'a> {
        let Some((method, rest)) = split(request, b' ') else {
            return RequestLine {
                method: request,
                ..RequestLine::default()
            };
        };
        let last = memchr::memrchr(b' ', rest).map(|at| (&rest[..at], &rest[at + 1..]));
        let (target, protocol) = match last {
            Some((target, protocol)) if is_protocol(protocol) => (target, protocol),
            _ => (rest, &b""[..]),
        };
        let (path, query) = split(target, b'?').unwrap_or((target, b""));
        RequestLine {
            method,
            path,
            query,
            protocol,
        }
    }
}

/// A line without the pair of quotes around all of it, as an export has them. A combined line ends
/// with a quote of its own: then their number is odd.
fn strip_quotes(line: &[u8]) -> &[u8] {
    let inner = line.strip_prefix(b"\"");
    let inner = inner.and_then(|inner| inner.strip_suffix(b"\""));
    let are_paired = |inner: &&[u8]| memchr::memchr_iter(b'"', inner).count().is_multiple_of(2);
    inner.filter(are_paired).unwrap_or(line)
}

fn split(text: &[u8], at: u8) -> Option<(&[u8], &[u8])> {
    let end = memchr::memchr(at, text)?;
    Some((&text[..end], &text[end + 1..]))
}

/// A line up to its time.
struct Head<'a> {
    client: &'a [u8],
    user: &'a [u8],
    at: Moment,
    /// What follows the bracket behind the time.
    rest: &'a [u8],
}

/// Splits the part before the quoted request: address, user and time.
fn head(line: &[u8]) -> Result<Head<'_>, BadLine> {
    let mut why = BadLine::Format;
    for (before, after) in brackets(line).take(BRACKETS_MAX) {
        let time = after.split_at_checked(CLF_BYTES);
        let time = time.filter(|(_, rest)| rest.first() == Some(&b']'));
        let moment = time.map_or(Err(BadMoment::Form), |(time, _)| clf(time));
        let fields = client_first(before);
        let fields = fields.or_else(|| prefix::without(before).find_map(client_first));
        match (moment, fields, time) {
            (Ok(at), Some([client, _ident, user]), Some((_, rest))) => {
                return Ok(Head {
                    client,
                    user,
                    at,
                    rest: &rest[1..],
                });
            }
            (Ok(_), ..) => {
                why = why.or_else(|| match three(before) {
                    Some(_) => BadLine::Client,
                    None => BadLine::Fields(count(before)),
                });
            }
            (Err(bad), Some(_), _) => why = why.or_else(|| BadLine::Time(bad)),
            // A bracket of something else, such as `nginx [123]:`.
            (Err(_), None, _) => {}
        }
    }
    Err(why)
}

/// What is before and after each bracket that follows a blank, without either.
fn brackets(line: &[u8]) -> impl Iterator<Item = (&[u8], &[u8])> {
    memchr::memchr_iter(b'[', line).filter_map(|bracket| {
        let before = line[..bracket].strip_suffix(b" ")?;
        Some((before, &line[bracket + 1..]))
    })
}

/// The three fields of `text`, if the first can be a client.
fn client_first(text: &[u8]) -> Option<[&[u8]; 3]> {
    let is_of_client =
        |byte: &u8| byte.is_ascii_alphanumeric() || !byte.is_ascii() || IN_CLIENT.contains(byte);
    three(text).filter(|[client, ..]| client.iter().all(is_of_client))
}

/// The three fields of `text`, if there are exactly three, separated by single blanks.
fn three(text: &[u8]) -> Option<[&[u8]; 3]> {
    let mut words = text.split(|byte| *byte == b' ');
    let fields = [words.next()?, words.next()?, words.next()?];
    let is_whole = words.next().is_none() && fields.iter().all(|field| !field.is_empty());
    is_whole.then_some(fields)
}

/// The number of fields in the text.
fn count(text: &[u8]) -> usize {
    let words = text.split(|byte| *byte == b' ');
    words.filter(|word| !word.is_empty()).count()
}

/// The outcome of a request: status and size.
struct Outcome<'a> {
    status: &'a [u8],
    size: &'a [u8],
    rest: &'a [u8],
}

fn request_and_outcome(text: &[u8]) -> Result<(&[u8], Outcome<'_>), BadLine> {
    let mut why = BadLine::Request;
    let quotes = || memchr::memchr_iter(b'"', text);
    for quote in quotes().filter(|quote| !is_escaped(text, *quote)) {
        match outcome(&text[quote + 1..]) {
            Ok(outcome) => return Ok((&text[..quote], outcome)),
            Err(bad) if why == BadLine::Request => why = bad,
            Err(_) => {}
        }
    }
    let unescaped = quotes().find_map(|quote| {
        let outcome = outcome(&text[quote + 1..]).ok()?;
        Some((&text[..quote], outcome))
    });
    unescaped.ok_or(why)
}

fn outcome(text: &[u8]) -> Result<Outcome<'_>, BadLine> {
    let text = text.strip_prefix(b" ").ok_or(BadLine::Status)?;
    let (status, text) = split(text, b' ').unwrap_or((text, b""));
    if status.len() != 3 || !status.iter().all(u8::is_ascii_digit) {
        return Err(BadLine::Status);
    }
    let (size, rest) = match memchr::memchr(b' ', text) {
        Some(end) => text.split_at(end),
        None => (text, &b""[..]),
    };
    let is_number = !size.is_empty() && size.iter().all(u8::is_ascii_digit);
    if !is_number && size != b"-" {
        return Err(BadLine::Size);
    }
    Ok(Outcome { status, size, rest })
}

/// A blank and a quoted text, and what follows: nothing or another blank.
fn split_quoted(text: &[u8]) -> Option<(&[u8], &[u8])> {
    let text = text.strip_prefix(b" \"")?;
    let mut quotes = memchr::memchr_iter(b'"', text);
    let end = quotes.find(|quote| !is_escaped(text, *quote))?;
    let rest = &text[end + 1..];
    (rest.is_empty() || rest.starts_with(b" ")).then_some((&text[..end], rest))
}

/// Whether an odd number of backslashes stands before this byte.
pub(crate) fn is_escaped(text: &[u8], at: usize) -> bool {
    let before = text[..at].iter().rev();
    before.take_while(|byte| **byte == b'\\').count() % 2 == 1
}

/// Whether this is a name and a version, as in `HTTP/1.1`.
fn is_protocol(word: &[u8]) -> bool {
    split(word, b'/').is_some_and(|(name, version)| {
        !name.is_empty()
            && name.iter().all(u8::is_ascii_uppercase)
            && version.first().is_some_and(u8::is_ascii_digit)
    })
}

// === impl BadLine ===

impl BadLine {
    /// The first reason stands.
    fn or_else(self, other: impl FnOnce() -> BadLine) -> BadLine {
        match self {
            BadLine::Format => other(),
            first => first,
        }
    }
}

/// What a line is expected to begin with.
const EXPECTED: &str = "not in common or combined format: expected `HOST IDENT USER [TIME]`";

impl fmt::Display for BadLine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let missing = match self {
            BadLine::Blank => return f.write_str("the line is blank"),
            BadLine::Format => return f.write_str(EXPECTED),
            BadLine::Fields(count) => {
                let fields = Noun(*count, "field");
                return write!(f, "{EXPECTED}, found {count} {fields} before the time");
            }
            BadLine::Client => {
                return write!(
                    f,
                    "{EXPECTED}, found a HOST with other characters than a host's"
                );
            }
            BadLine::Time(bad) => return bad.fmt(f),
            BadLine::Request => "\"request\" after the time",
            BadLine::Status => "status of three digits after the request",
            BadLine::Size => "size (a number or -) after the status",
        };
        write!(f, "there is no {missing}")
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests;
