//! Values as clients send them, and the form in which they are keys.

use std::borrow::Cow;

use http::header::COOKIE;
use http::{HeaderMap, HeaderName, Method, Uri};
use percent_encoding::percent_decode;

use crate::rejection::Flaw;

/// The longest value of a header, cookie or parameter that makes a key.
pub const VALUE_BYTES_MAX: usize = 8 * 1024;
/// The most cookies, or parameters of a query, among which a value is looked for.
pub const PAIRS_MAX: usize = 512;

/// The methods of RFC 9110 and PATCH.
const METHODS: [&str; 9] = [
    "GET", "HEAD", "POST", "PUT", "DELETE", "CONNECT", "OPTIONS", "TRACE", "PATCH",
];

/// A method's value. All unknown methods have one, or each would be a key of its own.
pub(super) fn method(method: &Method) -> &'static [u8] {
    let known = METHODS
        .iter()
        .find(|known| known.eq_ignore_ascii_case(method.as_str()));
    known.unwrap_or(&"OTHER").as_bytes()
}

/// The value of a header.
pub(crate) fn header<'a>(
    headers: &'a HeaderMap,
    name: &HeaderName,
) -> Result<Option<Cow<'a, [u8]>>, Flaw> {
    if is_respelled(headers, name) {
        return Err(Flaw::Respelled);
    }
    let values = headers.get_all(name).iter();
    only(values.map(|value| Cow::Borrowed(value.as_bytes().trim_ascii())))
}

/// Whether there is a header with another name that is the same to servers of CGI.
pub fn is_respelled(headers: &HeaderMap, name: &HeaderName) -> bool {
    let mut sent = headers.keys();
    sent.any(|other| other != name && is_same_to_cgi(other, name))
}

/// Whether two names of headers are one to servers of CGI. All have `_` for `-`; lighttpd has it
/// for each character that is no letter and no digit.
pub fn is_same_to_cgi(one: &HeaderName, other: &HeaderName) -> bool {
    let folded = |byte: u8| match byte.is_ascii_alphanumeric() {
        true => byte,
        false => b'-',
    };
    let (one, other) = (one.as_str(), other.as_str());
    one.len() == other.len() && one.bytes().map(folded).eq(other.bytes().map(folded))
}

/// The value of a cookie. Percent-encoding is decoded, as many servers do: otherwise one session
/// would have a key for each of its spellings. Some servers also read a backslash in a quoted value
/// as an escape; no client needs one, so it is rejected.
pub(crate) fn cookie<'a>(
    headers: &'a HeaderMap,
    name: &str,
) -> Result<Option<Cow<'a, [u8]>>, Flaw> {
    let lines = headers.get_all(COOKIE).iter();
    let pairs = lines.flat_map(|line| line.as_bytes().split(|byte| *byte == b';'));
    let pairs = collect_bounded(pairs)?;
    let mut all = pairs.iter();
    if all.any(|pair| is_cookie_respelled(pair, name) || is_separated(pair, name)) {
        return Err(Flaw::Respelled);
    }
    let pairs = pairs.into_iter();
    let raw: Vec<&[u8]> = pairs.filter_map(|pair| value_of(pair, name)).collect();
    if raw.iter().any(|value| is_escaped(value)) {
        return Err(Flaw::Escaped);
    }
    let values = raw.into_iter();
    only(values.map(|value| Cow::from(percent_decode(unquote(value).unwrap_or(value)))))
}

/// What is between the quotes of a value that has them round it.
fn unquote(value: &[u8]) -> Option<&[u8]> {
    value.strip_prefix(b"\"")?.strip_suffix(b"\"")
}

/// The value of a cookie as it was sent, if it has this name.
fn value_of<'a>(pair: &'a [u8], name: &str) -> Option<&'a [u8]> {
    let rest = pair.trim_ascii().strip_prefix(name.as_bytes())?;
    let value = rest.trim_ascii_start().strip_prefix(b"=")?;
    Some(value.trim_ascii_start())
}

/// Whether a cookie has another name that is the same to PHP. Some servers also decode names.
fn is_cookie_respelled(pair: &[u8], name: &str) -> bool {
    let pair = pair.trim_ascii();
    let sent = pair.split(|byte| *byte == b'=').next().unwrap_or(pair);
    let decoded = Cow::from(percent_decode(sent));
    let is_same = sent.trim_ascii_end() == name.as_bytes();
    !is_same && is_same_to_php(&decoded, name.as_bytes())
}

/// Whether a pair has a cookie of this name to servers that also end cookies at white space, as
/// Python's do, or at a comma (RFC 2965), and not the same one to others. Neither is in a value
/// (RFC 6265, section 4.1.1) but in quotes.
fn is_separated(pair: &[u8], name: &str) -> bool {
    let pair = pair.trim_ascii();
    let is_separator = |byte: &u8| byte.is_ascii_whitespace() || *byte == b',';
    let mut halves = pair.splitn(2, |byte| *byte == b'=');
    let value = halves.nth(1).unwrap_or_default().trim_ascii();
    if unquote(value).is_some_and(|inner| !inner.contains(&b'"')) {
        return false;
    }
    if let Some(value) = value_of(pair, name) {
        return value.iter().any(is_separator);
    }
    let is_start = |two: &[u8]| is_separator(&two[0]) && !is_separator(&two[1]);
    let words = pair.windows(2).enumerate().filter(|(_, two)| is_start(two));
    let mut rests = words.map(|(at, _)| &pair[at + 1..]);
    rests.any(|rest| value_of(rest, name).is_some())
}

/// Whether a value is quoted and has a backslash.
fn is_escaped(value: &[u8]) -> bool {
    value.starts_with(b"\"") && value.contains(&b'\\')
}

/// The value of a parameter in the query, as in the URL standard's
/// `application/x-www-form-urlencoded`, but its bytes as they are: those that are not UTF-8 would
/// all become one character, and so would the values of different clients.
///
/// Some servers also separate parameters by `;`: one that they find, or whose value they cut, is
/// rejected.
pub(super) fn query<'a>(uri: &'a Uri, name: &str) -> Result<Option<Cow<'a, [u8]>>, Flaw> {
    let query = uri.query().unwrap_or_default();
    let pairs = query.split('&').filter(|pair| !pair.is_empty());
    let pairs = collect_bounded(pairs)?.into_iter();
    let pieces = pairs.flat_map(|pair| {
        let is_cut = pair.contains(';');
        pair.split(';').map(move |piece| (piece, is_cut))
    });
    let mut values = Vec::new();
    for (piece, is_cut) in pieces {
        let (key, value) = piece.split_once('=').unwrap_or((piece, ""));
        let key = form_decode(key);
        if !is_cut && *key == *name.as_bytes() {
            values.push(form_decode(value));
        } else if is_same_to_php(&key, name.as_bytes()) {
            return Err(Flaw::Respelled);
        }
    }
    only(values.into_iter())
}

/// Whether two names of parameters or cookies are one to PHP, where the last parameter of a name
/// counts, and the first cookie.
fn is_same_to_php(one: &[u8], other: &[u8]) -> bool {
    fold_name(one).eq(fold_name(other))
}

/// A name as PHP has it: without spaces at its beginning, up to a NUL, and with `_` for characters
/// that its variables cannot have. A bracket that is closed is the index of an array.
fn fold_name(name: &[u8]) -> impl Iterator<Item = u8> {
    let spaces = name.iter().take_while(|byte| **byte == b' ').count();
    let name = name[spaces..].split(|byte| *byte == 0).next();
    let name = name.unwrap_or_default();
    let mut from_bracket = name.iter().skip_while(|byte| **byte != b'[');
    let has_index = from_bracket.any(|byte| *byte == b']');
    name.iter().map(move |byte| match byte {
        b'.' | b' ' => b'_',
        b'[' if !has_index => b'_',
        _ => *byte,
    })
}

/// A name or a value of a form, decoded.
fn form_decode(text: &str) -> Cow<'_, [u8]> {
    if text.contains('+') {
        let spaced = text.replace('+', " ");
        return Cow::Owned(percent_decode(spaced.as_bytes()).collect());
    }
    Cow::from(percent_decode(text.as_bytes()))
}

/// A value without white space round it; `None` if nothing is left.
pub(super) fn check(value: Cow<'_, [u8]>) -> Result<Option<Cow<'_, [u8]>>, Flaw> {
    let trimmed = match std::str::from_utf8(&value) {
        Ok(text) => text.trim().as_bytes(),
        Err(_) => value.trim_ascii(),
    };
    if trimmed.len() > VALUE_BYTES_MAX {
        return Err(Flaw::TooLong);
    }
    let is_control = match std::str::from_utf8(trimmed) {
        Ok(text) => text.chars().any(char::is_control),
        Err(_) => trimmed.iter().any(u8::is_ascii_control),
    };
    if is_control {
        return Err(Flaw::ControlCharacter);
    }
    if trimmed.is_empty() {
        return Ok(None);
    }
    match trimmed.len() == value.len() {
        true => Ok(Some(value)),
        false => Ok(Some(Cow::Owned(trimmed.to_vec()))),
    }
}

/// A value in small letters, where it is text.
pub(crate) fn fold_case(value: &[u8]) -> Vec<u8> {
    match std::str::from_utf8(value) {
        Ok(text) => text.to_lowercase().into_bytes(),
        Err(_) => value.to_ascii_lowercase(),
    }
}

fn collect_bounded<T>(pairs: impl Iterator<Item = T>) -> Result<Vec<T>, Flaw> {
    let pairs: Vec<T> = pairs.take(PAIRS_MAX + 1).collect();
    match pairs.len() > PAIRS_MAX {
        true => Err(Flaw::ManyPairs),
        false => Ok(pairs),
    }
}

/// The only value. Of several, one server takes the first and another the last, so whichever we
/// took, a client could put one of its own making there.
fn only<'a>(
    mut values: impl Iterator<Item = Cow<'a, [u8]>>,
) -> Result<Option<Cow<'a, [u8]>>, Flaw> {
    let Some(first) = values.next() else {
        return Ok(None);
    };
    match values.all(|value| value == first) {
        true => Ok(Some(first)),
        false => Err(Flaw::Repeated),
    }
}
