//! What programs put before a line of an access log: a virtual host, a syslog header, the time
//! stamp of a container.
//!
//! Only a certain prefix is removed. Anything else before a line makes it no event, because the
//! client would have to be guessed.

use std::net::IpAddr;

use crate::timestamp::rfc3339;

/// The shortest time in RFC 3339.
const TIME_BYTES_MIN: usize = "2015-05-17T10:05:03Z".len();
/// The longest priority of syslog.
const PRIORITY_BYTES_MAX: usize = "<191>".len();
const MONTHS: [&[u8]; 12] = [
    b"Jan", b"Feb", b"Mar", b"Apr", b"May", b"Jun", b"Jul", b"Aug", b"Sep", b"Oct", b"Nov", b"Dec",
];

/// `text` without the prefixes that stand before it, in the order in which they are likely.
pub(crate) fn without(text: &[u8]) -> impl Iterator<Item = &[u8]> {
    let inner = strip_compose(text).unwrap_or(text);
    let inner = strip_priority(inner).unwrap_or(inner);
    let inner = strip_rfc5424(inner)
        .or_else(|| strip_rfc3164(inner))
        .or_else(|| strip_container(inner))
        .unwrap_or(inner);
    // Three fields are a complete line; only with more of them can the first be a host.
    [Some(inner), strip_virtual_host(inner)]
        .into_iter()
        .flatten()
}

/// A word that is not empty, and what follows the blanks after it.
fn word(text: &[u8]) -> Option<(&[u8], &[u8])> {
    let end = memchr::memchr(b' ', text).filter(|end| *end > 0)?;
    Some((&text[..end], text[end..].trim_ascii_start()))
}

/// `web-1  | ` of docker compose, `[pod/web/nginx] ` of kubectl.
fn strip_compose(text: &[u8]) -> Option<&[u8]> {
    let (name, rest) = word(text)?;
    if name.starts_with(b"[pod/") && name.ends_with(b"]") {
        return Some(rest);
    }
    rest.strip_prefix(b"| ")
}

/// `<134>` of syslog.
fn strip_priority(text: &[u8]) -> Option<&[u8]> {
    let start = &text[..text.len().min(PRIORITY_BYTES_MAX)];
    let start = start.strip_prefix(b"<")?;
    let end = memchr::memchr(b'>', start)?;
    is_number(&start[..end]).then(|| &text[end + 2..])
}

/// `1 2015-05-17T10:05:03Z host nginx 123 - - ` of RFC 5424, with structured data or `-`.
fn strip_rfc5424(text: &[u8]) -> Option<&[u8]> {
    let rest = strip_time(text.strip_prefix(b"1 ")?)?;
    let (_host, rest) = word(rest)?;
    let (_application, rest) = word(rest)?;
    let (_process, rest) = word(rest)?;
    let (_message, rest) = word(rest)?;
    let rest = rest.strip_prefix(b"-").or_else(|| strip_elements(rest))?;
    rest.strip_prefix(b" ")
}

/// `[id name="value"]` of RFC 5424, one or several.
fn strip_elements(text: &[u8]) -> Option<&[u8]> {
    let mut rest = text.strip_prefix(b"[")?;
    loop {
        rest = &rest[element_end(rest)? + 1..];
        match rest.strip_prefix(b"[") {
            Some(next) => rest = next,
            None => return Some(rest),
        }
    }
}

/// The first bracket that is not in quotes, where a backslash escapes the next byte.
fn element_end(text: &[u8]) -> Option<usize> {
    let (mut is_quoted, mut is_escaped) = (false, false);
    text.iter().position(|byte| {
        let was_escaped = std::mem::replace(&mut is_escaped, false);
        match byte {
            b'\\' if is_quoted => is_escaped = !was_escaped,
            b'"' if !was_escaped => is_quoted = !is_quoted,
            _ => {}
        }
        *byte == b']' && !is_quoted
    })
}

/// `May 17 10:05:03 host nginx[123]: ` of RFC 3164, also with a time of RFC 3339, and without the
/// host: that is HAProxy's default, and an option of nginx.
fn strip_rfc3164(text: &[u8]) -> Option<&[u8]> {
    let rest = match strip_time(text) {
        Some(rest) => rest,
        None => {
            let (_month, rest) = word(text).filter(|(word, _)| MONTHS.contains(word))?;
            let (_day, rest) = word(rest).filter(|(day, _)| is_number(day))?;
            let is_time = |(time, _): &(&[u8], &[u8])| time.len() == 8 && time[2] == b':';
            word(rest).filter(is_time)?.1
        }
    };
    let (first, rest) = word(rest)?;
    if is_tag(first) {
        return Some(rest);
    }
    let (_tag, rest) = word(rest).filter(|(tag, _)| tag.ends_with(b":"))?;
    Some(rest)
}

/// Whether this is a program's `nginx:` or `nginx[123]:`, and neither a host nor a client.
fn is_tag(word: &[u8]) -> bool {
    let Some(tag) = word.strip_suffix(b":") else {
        return false;
    };
    let (name, process) = match memchr::memchr(b'[', tag) {
        Some(bracket) => (&tag[..bracket], tag[bracket + 1..].strip_suffix(b"]")),
        None => (tag, Some(&b"0"[..])),
    };
    let is_of_name = |byte: &u8| byte.is_ascii_alphanumeric() || b"-._/".contains(byte);
    let is_name = !name.is_empty() && name.iter().all(is_of_name) && !is_address(name);
    is_name && process.is_some_and(is_number)
}

/// `2015-05-17T10:05:03.123456789Z ` of docker, with `stdout F ` behind it of Kubernetes.
fn strip_container(text: &[u8]) -> Option<&[u8]> {
    let rest = strip_time(text)?;
    let streams: [&[u8]; 4] = [b"stdout F ", b"stdout P ", b"stderr F ", b"stderr P "];
    let plain = streams.iter().find_map(|stream| rest.strip_prefix(*stream));
    Some(plain.unwrap_or(rest))
}

/// A time in RFC 3339 and a blank.
fn strip_time(text: &[u8]) -> Option<&[u8]> {
    let (time, rest) = word(text).filter(|(time, _)| time.len() >= TIME_BYTES_MIN)?;
    let time = std::str::from_utf8(time).ok()?;
    rfc3339(time).is_ok().then_some(rest)
}

/// `example.com:443 ` of Apache's vhost_combined, and a host without a port before an address.
fn strip_virtual_host(text: &[u8]) -> Option<&[u8]> {
    let (host, rest) = word(text)?;
    let client = word(rest)?.0;
    let name = match memchr::memrchr(b':', host) {
        Some(colon) if is_number(&host[colon + 1..]) => &host[..colon],
        // Not `ann smith`: what follows must certainly be a client.
        _ if is_address(client) && !is_address(host) => host,
        _ => return None,
    };
    let is_bracketed = name.starts_with(b"[") && name.ends_with(b"]");
    // Not `203.0.113.9, 10.0.0.1`, a list of addresses whose last is a proxy.
    let is_of_name = |byte: &u8| byte.is_ascii_alphanumeric() || b"-._".contains(byte);
    let is_name = is_bracketed || !name.is_empty() && name.iter().all(is_of_name);
    // `host:443 - ann smith` is a client with a port and a user with a blank.
    (is_name && client != b"-").then_some(rest)
}

fn is_number(text: &[u8]) -> bool {
    !text.is_empty() && text.iter().all(u8::is_ascii_digit)
}

fn is_address(text: &[u8]) -> bool {
    let text = std::str::from_utf8(text).unwrap_or_default();
    text.parse::<IpAddr>().is_ok()
}
