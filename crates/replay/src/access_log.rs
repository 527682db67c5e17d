//! Lines of access logs in the common and the combined format.
//!
//! `host ident user [time] "request" status size`, then in the combined format `"referer"` and
//! `"user agent"`. Lines are bytes: a client may send anything, and servers differ in what they
//! escape. A line counts once everything up to the size can be read; what follows is a bonus.
//!
//! A quoted field ends at a quote that is not escaped. As not all servers escape quotes, a request
//! ends at the first such quote that status and size follow, and if there is none, at any quote
//! that they follow.

use std::fmt;

use tollgate_core::Moment;

use crate::timestamp::{BadMoment, CLF_BYTES, clf};

/// One request, as a server wrote it down. Nothing is unescaped; what is absent is empty.
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

/// The parts of a request such as `GET /a?b HTTP/1.1`; what is absent is empty.
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
    Host,
    Ident,
    User,
    Time(BadMoment),
    Request,
    Status,
    Size,
}

// === impl LogLine ===

impl<'a> LogLine<'a> {
    /// Reads a line.
    pub(crate) fn parse(line: &'a [u8]) -> Result<LogLine<'a>, BadLine> {
        if line.trim_ascii().is_empty() {
            return Err(BadLine::Blank);
        }
        let (client, rest) = word(line).ok_or(BadLine::Host)?;
        let (_ident, rest) = word(rest).ok_or(BadLine::Ident)?;
        let (user, at, rest) = user_and_time(rest)?;
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

    /// Method, path, query and protocol.
    ///
    /// The protocol is a last word such as `HTTP/1.1`, the method the first; what is between them,
    /// blanks included, is path and query.
    pub(crate) fn request_line(&self) -> RequestLine<'a> {
        let Some((method, rest)) = split(self.request, b' ') else {
            return RequestLine {
                method: self.request,
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

    /// Referer and user agent; one that is damaged is empty, as one that is absent.
    pub(crate) fn referer_and_user_agent(&self) -> (&'a [u8], &'a [u8]) {
        let Some((referer, rest)) = quoted(self.rest) else {
            return (b"", b"");
        };
        let (user_agent, _) = quoted(rest).unwrap_or((b"", b""));
        (referer, user_agent)
    }
}

/// A word that is not empty, and what follows the blank after it.
fn word(text: &[u8]) -> Option<(&[u8], &[u8])> {
    split(text, b' ').filter(|(word, _)| !word.is_empty())
}

fn split(text: &[u8], at: u8) -> Option<(&[u8], &[u8])> {
    let end = memchr::memchr(at, text)?;
    Some((&text[..end], &text[end + 1..]))
}

/// The user, who may have blanks in his name, the time after him, and what follows its bracket.
fn user_and_time(text: &[u8]) -> Result<(&[u8], Moment, &[u8]), BadLine> {
    let mut why = BadLine::User;
    for bracket in memchr::memchr_iter(b'[', text) {
        let Some(user) = text[..bracket].strip_suffix(b" ") else {
            continue;
        };
        if user.is_empty() {
            continue;
        }
        let bracketed = text[bracket + 1..].split_at_checked(CLF_BYTES);
        let Some((time, rest)) = bracketed.filter(|(_, rest)| rest.first() == Some(&b']')) else {
            why = why.or(BadMoment::Form);
            continue;
        };
        match clf(time) {
            Ok(at) => return Ok((user, at, &rest[1..])),
            Err(bad) => why = why.or(bad),
        }
    }
    Err(why)
}

/// What came of a request.
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
fn quoted(text: &[u8]) -> Option<(&[u8], &[u8])> {
    let text = text.strip_prefix(b" \"")?;
    let mut quotes = memchr::memchr_iter(b'"', text);
    let end = quotes.find(|quote| !is_escaped(text, *quote))?;
    let rest = &text[end + 1..];
    (rest.is_empty() || rest.starts_with(b" ")).then_some((&text[..end], rest))
}

/// Whether an odd number of backslashes stands before this byte.
fn is_escaped(text: &[u8], at: usize) -> bool {
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
    const fn or(self, bad: BadMoment) -> BadLine {
        match self {
            BadLine::User => BadLine::Time(bad),
            first => first,
        }
    }
}

impl fmt::Display for BadLine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let missing = match self {
            BadLine::Blank => return f.write_str("the line is blank"),
            BadLine::Time(bad) => return bad.fmt(f),
            BadLine::Host => "host",
            BadLine::Ident => "ident after the host",
            BadLine::User => "user and [time] after the ident",
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
