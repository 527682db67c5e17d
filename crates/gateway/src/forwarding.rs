//! The heads of requests and responses on their way through the gateway.
//!
//! Fields that are for one connection alone are removed (RFC 9110, section 7.6.1), and what the
//! gateway says about the client replaces what the client says about itself.

use std::net::IpAddr;

use http::header::{
    AUTHORIZATION, CONNECTION, CONTENT_LENGTH, COOKIE, EXPECT, FORWARDED, HOST, PROXY_AUTHENTICATE,
    PROXY_AUTHORIZATION, TE, TRANSFER_ENCODING, UPGRADE, VIA,
};
use http::request::Parts;
use http::uri::{Authority, PathAndQuery, Scheme};
use http::{HeaderMap, HeaderName, HeaderValue, Method, Response, StatusCode, Uri, Version};
use hyper::body::Incoming;
use tollgate_http::{address_text, is_same_to_cgi, list_members, remove_dot_segments};

use crate::settings::UpstreamProtocol;
use crate::upgrade::is_answer_to;

/// What the gateway calls itself in `Via`.
const PSEUDONYM: &str = "tollgate";
/// How often a request may have passed through a gateway before: more is a loop.
const GATEWAYS_MAX: usize = 8;

/// Goes with an upgrade to `h2c`.
const HTTP2_SETTINGS: HeaderName = HeaderName::from_static("http2-settings");
const KEEP_ALIVE: HeaderName = HeaderName::from_static("keep-alive");
/// Servers of CGI hand it to their programs as `HTTP_PROXY`, which many libraries take for the
/// proxy of their own requests. No client sends it for another reason.
const PROXY: HeaderName = HeaderName::from_static("proxy");
const PROXY_CONNECTION: HeaderName = HeaderName::from_static("proxy-connection");
const CF_CONNECTING_IP: HeaderName = HeaderName::from_static("cf-connecting-ip");
const X_FORWARDED_FOR: HeaderName = HeaderName::from_static("x-forwarded-for");
const X_FORWARDED_HOST: HeaderName = HeaderName::from_static("x-forwarded-host");
const X_FORWARDED_PROTO: HeaderName = HeaderName::from_static("x-forwarded-proto");
const X_REAL_IP: HeaderName = HeaderName::from_static("x-real-ip");
/// What a request carries about its way here.
static FORWARDING: [HeaderName; 5] = [
    X_FORWARDED_FOR,
    X_FORWARDED_HOST,
    X_FORWARDED_PROTO,
    X_REAL_IP,
    FORWARDED,
];
/// Fields for one connection, whether `Connection` names them or not.
static HOP_BY_HOP: [HeaderName; 9] = [
    CONNECTION,
    HTTP2_SETTINGS,
    KEEP_ALIVE,
    PROXY_AUTHENTICATE,
    PROXY_AUTHORIZATION,
    PROXY_CONNECTION,
    TE,
    TRANSFER_ENCODING,
    UPGRADE,
];
/// Fields that stay, although `Connection` may name them, as those of [`FORWARDING`] do: without
/// them a request is another one, or one of another client.
static END_TO_END: [HeaderName; 4] = [CF_CONNECTING_IP, CONTENT_LENGTH, HOST, VIA];
/// Fields that are not trailers (RFC 9110, section 6.5.1), beside those for one connection and
/// those that the gateway writes: servers that add trailers to the head would take them for a part
/// of it.
static NO_TRAILERS: [HeaderName; 7] = [
    HOST,
    CONTENT_LENGTH,
    AUTHORIZATION,
    COOKIE,
    EXPECT,
    PROXY,
    VIA,
];

/// Who sent a request.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sender {
    /// The other end of the connection; `None` is a Unix socket.
    pub(crate) peer: Option<IpAddr>,
    /// Whether it is a proxy of ours, whose word about the client is taken.
    pub(crate) is_trusted: bool,
    /// The client, as the settings find it.
    pub(crate) client: Option<IpAddr>,
    /// `http` or `https`.
    pub(crate) scheme: &'static str,
}

/// Whether a request has passed through too many gateways.
pub(crate) fn is_loop(headers: &HeaderMap) -> bool {
    let ours = list_members(headers, &VIA)
        .filter(|member| member.split(' ').nth(1) == Some(PSEUDONYM))
        .take(GATEWAYS_MAX + 1);
    ours.count() > GATEWAYS_MAX
}

/// Makes the head of a client's request that of the gateway's own request to `address`.
pub(crate) fn rewrite_request(
    head: &mut Parts,
    sender: Sender,
    address: &str,
    protocol: UpstreamProtocol,
) {
    let has_trailers =
        list_members(&head.headers, &TE).any(|coding| coding.eq_ignore_ascii_case("trailers"));
    let received = head.version;
    remove_named(&mut head.headers);
    remove_fields(&mut head.headers, |name| {
        // The gateway itself asks for the body.
        let is_ours = HOP_BY_HOP.contains(name) || *name == EXPECT || *name == PROXY;
        // A client's own words about itself.
        is_ours || is_respelled(name) || !sender.is_trusted && FORWARDING.contains(name)
    });
    if let Some(authority) = head.uri.authority()
        && let Ok(host) = HeaderValue::from_str(authority.as_str())
    {
        head.headers.insert(HOST, host);
    }
    write_forwarding(&mut head.headers, sender);
    append_via(&mut head.headers, received);
    address_to(head, address, protocol);
    if has_trailers {
        request_trailers(head);
    }
}

/// Says that the response may have trailers, in a head that has the version of the upstream.
pub(crate) fn request_trailers(head: &mut Parts) {
    if head.headers.contains_key(TE) {
        // It has this value only, and `Connection` names it.
        return;
    }
    head.headers
        .insert(TE, HeaderValue::from_static("trailers"));
    if head.version == Version::HTTP_11 {
        // It may be there for an upgrade.
        head.headers
            .append(CONNECTION, HeaderValue::from_static("te"));
    }
}

/// Announces over HTTP/1.1 that a body without a known length is sent in chunks. Otherwise the HTTP
/// library sends no body with methods that seldom have one, such as GET. Nor does it say that there
/// is none with methods that mostly have one (RFC 9110, section 8.6): some servers answer 411.
pub(crate) fn announce_length(head: &mut Parts, length: Option<u64>) {
    if head.version != Version::HTTP_11 {
        return;
    }
    match length {
        None => {
            let chunked = HeaderValue::from_static("chunked");
            head.headers.insert(TRANSFER_ENCODING, chunked);
        }
        Some(0) if matches!(head.method, Method::POST | Method::PUT | Method::PATCH) => {
            let none = HeaderValue::from_static("0");
            head.headers.insert(CONTENT_LENGTH, none);
        }
        Some(_) => {}
    }
}

/// Whether a response has no transfer coding but `chunked`, and switches protocols only to one that
/// the request's `Upgrade` asks for. Another coding would be lost, because it is not passed on.
pub(crate) fn can_pass(response: &Response<Incoming>, asked: Option<&HeaderValue>) -> bool {
    let mut codings = list_members(response.headers(), &TRANSFER_ENCODING);
    let is_chunked = |coding: &str| coding.eq_ignore_ascii_case("chunked");
    let is_switching = response.status() == StatusCode::SWITCHING_PROTOCOLS;
    (!is_switching || is_answer_to(response, asked))
        && codings.next().is_none_or(is_chunked)
        && codings.next().is_none()
}

/// Leaves one of several equal lengths. Whether every `Content-Length` is the same number (RFC
/// 9110, section 8.6).
pub(crate) fn merge_lengths(headers: &mut HeaderMap) -> bool {
    let is_number = |text: &[u8]| text.iter().all(u8::is_ascii_digit);
    // Nearly all that have one.
    if only(headers, &CONTENT_LENGTH).is_some_and(|length| is_number(length.as_bytes())) {
        return true;
    }
    let mut lengths = list_members(headers, &CONTENT_LENGTH);
    let Some(length) = lengths.next() else {
        return true;
    };
    let is_one = is_number(length.as_bytes()) && lengths.all(|other| other == length);
    let one = HeaderValue::from_str(length).ok().filter(|_| is_one);
    drop(lengths);
    if let Some(one) = one {
        headers.insert(CONTENT_LENGTH, one);
    }
    is_one
}

/// Removes the fields of a response that are for one connection, and adds `Via`.
pub(crate) fn rewrite_response(headers: &mut HeaderMap, status: StatusCode, version: Version) {
    if headers.contains_key(TRANSFER_ENCODING) || status == StatusCode::NO_CONTENT {
        // The chunks say how long the body is (RFC 9112, section 6.3), or there is none, and
        // clients of HTTP/2 reject a length.
        headers.remove(CONTENT_LENGTH);
    }
    remove_named(headers);
    remove_fields(headers, |name| HOP_BY_HOP.contains(name));
    append_via(headers, version);
}

/// Removes the fields at the end of a body that belong into a head.
pub(crate) fn rewrite_trailers(trailers: &mut HeaderMap) {
    let groups: [&[HeaderName]; 3] = [&HOP_BY_HOP, &FORWARDING, &NO_TRAILERS];
    remove_fields(trailers, |name| {
        is_respelled(name) || groups.iter().any(|group| group.contains(name))
    });
}

/// Whether a name is another one than those of [`FORWARDING`], but one of them to servers of CGI.
/// No proxy writes such names.
fn is_respelled(name: &HeaderName) -> bool {
    let mut bytes = name.as_str().bytes();
    let is_plain = bytes.all(|byte| byte.is_ascii_alphanumeric() || byte == b'-');
    !is_plain && FORWARDING.iter().any(|known| is_same_to_cgi(known, name))
}

/// Removes the fields that `Connection` names. Those of [`HOP_BY_HOP`] stay for now.
pub(crate) fn remove_named(headers: &mut HeaderMap) {
    // Nearly all that have one: it names no field, or one that is removed anyway.
    if only(headers, &CONNECTION)
        .is_some_and(|named| matches!(named.as_bytes(), b"close" | b"keep-alive"))
    {
        return;
    }
    let stays = |name: &HeaderName| {
        HOP_BY_HOP.contains(name) || END_TO_END.contains(name) || FORWARDING.contains(name)
    };
    let named: Vec<HeaderName> = list_members(headers, &CONNECTION)
        .filter(|name| !matches!(*name, "close" | "keep-alive"))
        .filter_map(|name| HeaderName::from_bytes(name.as_bytes()).ok())
        .filter(|name| !stays(name))
        .collect();
    for name in named {
        headers.remove(name);
    }
}

/// The field of this name, if there is one alone.
fn only<'h>(headers: &'h HeaderMap, name: &HeaderName) -> Option<&'h HeaderValue> {
    let mut fields = headers.get_all(name).iter();
    fields.next().filter(|_| fields.next().is_none())
}

/// Removes the fields whose names are unwanted. Few messages have any, and comparing the names of
/// those that are there takes less time than looking up those that are not.
fn remove_fields(headers: &mut HeaderMap, is_unwanted: impl Fn(&HeaderName) -> bool) {
    // Each turn removes all fields of one of the unwanted names.
    while let Some(name) = headers.keys().find(|name| is_unwanted(name)).cloned() {
        headers.remove(name);
    }
}

/// HTTP/2 may send the pairs of `Cookie` apart; servers of HTTP/1.1 read one field.
pub(crate) fn join_cookies(headers: &mut HeaderMap) {
    if headers.get_all(COOKIE).iter().nth(1).is_none() {
        return;
    }
    let cookies: Vec<&[u8]> = headers
        .get_all(COOKIE)
        .iter()
        .map(HeaderValue::as_bytes)
        .collect();
    if let Ok(joined) = HeaderValue::from_bytes(&cookies.join(&b"; "[..])) {
        headers.insert(COOKIE, joined);
    }
}

/// Says who the client is. A client's own words have been removed; a trusted proxy's stay, and its
/// address is added.
fn write_forwarding(headers: &mut HeaderMap, sender: Sender) {
    let address = |address| {
        let text = address_text(address);
        HeaderValue::from_str(&text).expect("addresses are ASCII")
    };
    let peer = sender.peer.map(address);
    if let Some(client) = sender.client {
        let is_peer = Some(client) == sender.peer;
        let of_peer = peer.clone().filter(|_| is_peer);
        headers.insert(X_REAL_IP, of_peer.unwrap_or_else(|| address(client)));
    }
    match (sender.is_trusted, sender.peer, peer) {
        (true, Some(proxy), _) => add_proxy(headers, proxy),
        (false, _, Some(peer)) => drop(headers.insert(X_FORWARDED_FOR, peer)),
        // A peer without an address adds nothing.
        (_, None, _) | (_, _, None) => {}
    }
    let proto = headers.entry(X_FORWARDED_PROTO);
    proto.or_insert_with(|| HeaderValue::from_static(sender.scheme));
    if let Some(host) = headers.get(HOST).cloned() {
        headers.entry(X_FORWARDED_HOST).or_insert(host);
    }
}

/// Adds the address of a proxy to what it says about the client.
fn add_proxy(headers: &mut HeaderMap, proxy: IpAddr) {
    let mut chain = String::new();
    for before in headers.get_all(X_FORWARDED_FOR) {
        // What is not ASCII is not an address, and would be unreadable in the list.
        chain.push_str(before.to_str().unwrap_or("unknown"));
        chain.push_str(", ");
    }
    chain.push_str(&address_text(proxy));
    // A header that was accepted has visible characters only.
    if let Ok(chain) = HeaderValue::try_from(chain) {
        headers.insert(X_FORWARDED_FOR, chain);
    }
    if headers.contains_key(FORWARDED) {
        let proxy = match proxy {
            IpAddr::V4(proxy) => format!("for={proxy}"),
            IpAddr::V6(proxy) => format!("for=\"[{proxy}]\""),
        };
        let proxy = HeaderValue::try_from(proxy).expect("addresses are ASCII");
        headers.append(FORWARDED, proxy);
    }
}

fn append_via(headers: &mut HeaderMap, received: Version) {
    // Constants, because checking a value for each message costs more than adding it.
    let via = match received {
        Version::HTTP_10 => const { HeaderValue::from_static("1.0 tollgate") },
        Version::HTTP_2 => const { HeaderValue::from_static("2.0 tollgate") },
        _ => const { HeaderValue::from_static("1.1 tollgate") },
    };
    headers.append(VIA, via);
}

/// A target that begins with `/` if it has no path: clients of HTTP/2 may send a query alone. Its
/// path has no dot segments, as it was matched: servers that do not resolve them would see another.
fn with_path(target: Option<PathAndQuery>) -> PathAndQuery {
    let Some(target) = target else {
        return PathAndQuery::from_static("/");
    };
    let path = match target.path() {
        _ if target.as_str().starts_with('?') => Some("/".to_owned()),
        path => remove_dot_segments(path),
    };
    let Some(mut rewritten) = path else {
        return target;
    };
    if let Some(query) = target.query() {
        rewritten.push('?');
        rewritten.push_str(query);
    }
    // Parts of a valid target are valid.
    PathAndQuery::try_from(rewritten).unwrap_or_else(|_| PathAndQuery::from_static("/"))
}

/// Sets version and target, as the protocol of the upstream has them.
fn address_to(head: &mut Parts, address: &str, protocol: UpstreamProtocol) {
    let mut target = std::mem::take(&mut head.uri).into_parts();
    target.path_and_query = Some(with_path(target.path_and_query));
    match protocol {
        UpstreamProtocol::Http1 => {
            (target.scheme, target.authority) = (None, None);
            head.version = Version::HTTP_11;
            if !head.headers.contains_key(HOST)
                && let Ok(host) = HeaderValue::from_str(address)
            {
                head.headers.insert(HOST, host);
            }
        }
        UpstreamProtocol::H2c | UpstreamProtocol::H2 => {
            let host = head.headers.remove(HOST);
            let host = host.and_then(|host| Authority::try_from(host.as_bytes()).ok());
            let authority = target.authority.or(host);
            target.authority = authority.or_else(|| address.parse().ok());
            target.scheme = Some(match protocol {
                UpstreamProtocol::H2 => Scheme::HTTPS,
                _ => Scheme::HTTP,
            });
            head.version = Version::HTTP_2;
        }
    }
    // The path was a path of a valid target before.
    head.uri = Uri::from_parts(target).unwrap_or_default();
}

#[cfg(test)]
mod tests;
