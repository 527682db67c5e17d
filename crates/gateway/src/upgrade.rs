//! Requests that ask to switch protocols on their connection (RFC 9110, section 7.8).

use http::header::{CONNECTION, UPGRADE};
use http::request::Parts;
use http::{HeaderMap, HeaderName, HeaderValue, Response, StatusCode, Version};
use http_body::Body;
use tollgate_http::{InvalidSetting, InvalidSettings, list_members};

use crate::misspelling::find_meant;

/// The protocol that nearly all upgrades are for.
const WEBSOCKET: &str = "websocket";
/// The most protocols of a route.
const PROTOCOLS_MAX: usize = 16;
/// Protocols that carry requests: those within would meet no limit.
const CARRY_REQUESTS: [&str; 6] = ["h2c", "h2", "h3", "http", "tls", "connect-udp"];

/// The protocols that the requests of a route may switch to.
#[derive(Debug, Default)]
pub(crate) struct Protocols(Box<[String]>);

/// The protocols that a request asks for, and may switch to: one or more, as in the header.
#[derive(Debug)]
pub(crate) struct Requested(HeaderValue);

// === impl Protocols ===

impl Protocols {
    /// # Errors
    ///
    /// Every name that is none of a protocol, or that of one which carries requests of HTTP.
    pub(crate) fn new(names: &[String]) -> Result<Protocols, InvalidSettings> {
        let at = "upgrades";
        InvalidSetting::check_at_most(at, names.len(), "protocols", PROTOCOLS_MAX)?;
        let mut errors = InvalidSettings::default();
        errors.take_each(at, names, |name| {
            let instead = "write the name of a protocol: websocket";
            check_protocol(name).map_err(|problem| InvalidSetting::new("", problem, instead))?;
            check_spelling(name)
        });
        errors.check()?;
        Ok(Protocols(names.into()))
    }

    /// What a request asks for, as far as it may. Requests with a body never switch: what follows
    /// their heads has two meanings.
    pub(crate) fn find_requested(&self, head: &Parts, body: &impl Body) -> Option<Requested> {
        let headers = &head.headers;
        if self.0.is_empty() || head.version != Version::HTTP_11 || !body.is_end_stream() {
            return None;
        }
        let mut options = list_members(headers, &CONNECTION);
        if !options.any(|option| option.eq_ignore_ascii_case("upgrade")) {
            return None;
        }
        let is_allowed = |asked: &&str| self.0.iter().any(|name| name.eq_ignore_ascii_case(asked));
        let asked: Vec<&str> = list_members(headers, &UPGRADE).filter(is_allowed).collect();
        let value = HeaderValue::from_str(&asked.join(", ")).ok()?;
        (!asked.is_empty()).then_some(Requested(value))
    }
}

/// Checks the name of a protocol, and says what is wrong with it.
fn check_protocol(name: &str) -> Result<(), String> {
    let base = name.split('/').next().unwrap_or_default();
    // A protocol is a token, and may have a version, which is another.
    let is_protocol = name.split('/').count() <= 2
        && name
            .split('/')
            .all(|part| HeaderName::from_bytes(part.as_bytes()).is_ok());
    if !is_protocol {
        return Err(format!("{name:?} is not a valid protocol name"));
    }
    match CARRY_REQUESTS
        .iter()
        .any(|one| base.eq_ignore_ascii_case(one))
    {
        true => Err(format!(
            "requests over `{name}` would go round the limits, so no route may switch to it"
        )),
        false => Ok(()),
    }
}

/// Checks that a protocol is not the usual one in other words: no client would ask for it.
fn check_spelling(name: &str) -> Result<(), InvalidSetting> {
    let name = name.to_ascii_lowercase();
    let is_meant =
        matches!(name.as_str(), "ws" | "wss") || find_meant(&name, &[WEBSOCKET]).is_some();
    match is_meant {
        false => Ok(()),
        true => Err(InvalidSetting::new(
            "",
            format!("no client asks for `{name}`"),
            format!("did you mean `{WEBSOCKET}`?"),
        )),
    }
}

// === impl Requested ===

impl Requested {
    /// Asks an upstream for them.
    pub(crate) fn announce(&self, headers: &mut HeaderMap) {
        announce(self.0.clone(), headers);
    }
}

fn announce(protocols: HeaderValue, headers: &mut HeaderMap) {
    headers.append(CONNECTION, HeaderValue::from_static("Upgrade"));
    headers.insert(UPGRADE, protocols);
}

/// The protocol that a response switches to.
#[derive(Debug)]
pub(crate) struct Switched(HeaderValue);

// === impl Switched ===

impl Switched {
    /// `None` if the response does not switch protocols.
    pub(crate) fn of<B>(response: &Response<B>) -> Option<Switched> {
        let is_switching = response.status() == StatusCode::SWITCHING_PROTOCOLS;
        let protocol = response.headers().get(UPGRADE).filter(|_| is_switching);
        protocol.cloned().map(Switched)
    }

    /// Tells the client.
    pub(crate) fn announce(self, headers: &mut HeaderMap) {
        announce(self.0, headers);
    }
}

/// Whether a response of 101 names one of the protocols in the request's `Upgrade`.
pub(crate) fn is_answer_to<B>(response: &Response<B>, asked: Option<&HeaderValue>) -> bool {
    let asked = asked.and_then(|asked| asked.to_str().ok());
    let mut asked = asked.into_iter().flat_map(|asked| asked.split(", "));
    let mut protocols = list_members(response.headers(), &UPGRADE);
    match (protocols.next(), protocols.next()) {
        (Some(protocol), None) => asked.any(|one| one.eq_ignore_ascii_case(protocol)),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use bytes::Bytes;
    use http::Request;

    use super::*;

    /// A body: its bytes.
    struct Text(&'static str);

    impl Body for Text {
        type Data = Bytes;
        type Error = std::convert::Infallible;

        fn poll_frame(
            self: std::pin::Pin<&mut Self>,
            _cx: &mut std::task::Context<'_>,
        ) -> std::task::Poll<Option<Result<http_body::Frame<Bytes>, Self::Error>>> {
            std::task::Poll::Ready(None)
        }

        fn is_end_stream(&self) -> bool {
            self.0.is_empty()
        }
    }

    fn protocols(names: &[&str]) -> Result<Protocols, InvalidSettings> {
        let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
        Protocols::new(&names)
    }

    fn asked(allowed: &[&str], version: Version, fields: &[(&str, &str)]) -> Option<String> {
        let mut request = Request::get("/").version(version);
        for (name, value) in fields {
            request = request.header(*name, *value);
        }
        let (head, ()) = request.body(()).unwrap().into_parts();
        let requested = protocols(allowed).unwrap().find_requested(&head, &Text(""));
        requested.map(|requested| requested.0.to_str().unwrap().to_owned())
    }

    #[test]
    fn what_may_be_asked_for_is_forwarded_and_nothing_else() {
        let web = &["websocket", "irc/6.9"][..];
        let upgrade = ("connection", "keep-alive, Upgrade");
        let one = Version::HTTP_11;
        for (fields, expected) in [
            (&[upgrade, ("upgrade", "websocket")][..], Some("websocket")),
            (&[upgrade, ("upgrade", "WebSocket")], Some("WebSocket")),
            // Only those that may be.
            (
                &[upgrade, ("upgrade", "h2c, websocket,IRC/6.9")],
                Some("websocket, IRC/6.9"),
            ),
            (
                &[upgrade, ("upgrade", "h2c"), ("upgrade", "websocket")],
                Some("websocket"),
            ),
            (&[upgrade, ("upgrade", "h2c")], None),
            (&[upgrade, ("upgrade", "irc")], None),
            (&[upgrade, ("upgrade", "websocket h2c")], None),
            (&[upgrade], None),
            (&[("upgrade", "websocket")], None),
            (&[("connection", "close"), ("upgrade", "websocket")], None),
        ] {
            assert_eq!(asked(web, one, fields).as_deref(), expected, "{fields:?}");
        }
        let fields = &[upgrade, ("upgrade", "websocket")];
        assert_eq!(asked(&[], one, fields), None);
        assert_eq!(asked(web, Version::HTTP_10, fields), None);
        assert_eq!(asked(web, Version::HTTP_2, fields), None);
    }

    #[test]
    fn a_request_with_a_body_does_not_switch() {
        let request = Request::post("/").header("connection", "upgrade");
        let request = request.header("upgrade", "websocket").body(()).unwrap();
        let (head, ()) = request.into_parts();
        let protocols = protocols(&["websocket"]).unwrap();
        assert!(protocols.find_requested(&head, &Text("")).is_some());
        assert!(protocols.find_requested(&head, &Text("body")).is_none());
    }

    #[test]
    fn only_a_protocol_that_was_asked_for_is_an_answer() {
        let asked = HeaderValue::from_static("websocket, irc/6.9");
        for (protocol, expected) in [
            ("websocket", true),
            ("WebSocket", true),
            ("irc/6.9", true),
            ("irc", false),
            ("h2c", false),
            ("websocket, irc/6.9", false),
            ("", false),
        ] {
            let response = Response::builder().header("upgrade", protocol);
            let response = response.body(()).unwrap();
            assert_eq!(
                is_answer_to(&response, Some(&asked)),
                expected,
                "{protocol}"
            );
            assert!(!is_answer_to(&response, None), "{protocol}");
        }
        assert!(!is_answer_to(&Response::new(()), Some(&asked)));
    }

    #[test]
    fn protocols_that_carry_requests_are_rejected() {
        for name in ["h2c", "H2C", "HTTP/2.0", "TLS/1.0", "h2", "tls"] {
            let problem = protocols(&["websocket", name]).unwrap_err().to_string();
            assert!(problem.starts_with("upgrades[1]: "), "{problem}");
            assert!(problem.contains("round the limits"), "{problem}");
        }
        for name in ["", "a b", "a/b/c", "/", "a,b"] {
            let problem = protocols(&[name]).unwrap_err().to_string();
            assert!(
                problem.contains("is not a valid protocol name"),
                "{problem}"
            );
        }
        for name in [
            "websockets",
            "WebSockets",
            "web-socket",
            "websocet",
            "ws",
            "WSS",
        ] {
            let problem = protocols(&[name]).unwrap_err().to_string();
            assert!(problem.ends_with("did you mean `websocket`?"), "{problem}");
        }
        assert!(protocols(&["WebSocket", "websocket/13", "irc"]).is_ok());
        let many = ["websocket"; PROTOCOLS_MAX + 1];
        assert!(protocols(&many).is_err());
        assert!(protocols(&many[1..]).is_ok());
    }
}
