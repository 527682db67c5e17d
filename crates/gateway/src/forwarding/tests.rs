#![allow(clippy::unwrap_used)]

use http::Request;

use super::*;

const CLIENT: Sender = Sender {
    peer: Some(IpAddr::V4(std::net::Ipv4Addr::new(192, 0, 2, 7))),
    is_trusted: false,
    client: Some(IpAddr::V4(std::net::Ipv4Addr::new(192, 0, 2, 7))),
    scheme: "http",
};

fn head(uri: &str, version: Version, headers: &[(&str, &str)]) -> Parts {
    let mut request = Request::builder().uri(uri).version(version);
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    request.body(()).unwrap().into_parts().0
}

/// The fields of a request that the upstream sees, sorted, each as `name: value`.
fn forwarded(headers: &[(&str, &str)], sender: Sender) -> Vec<String> {
    let mut head = head("/", Version::HTTP_11, headers);
    rewrite_request(&mut head, sender, "10.0.0.1:80", UpstreamProtocol::Http1);
    let fields = head.headers.iter();
    let mut fields: Vec<String> = fields
        .map(|(name, value)| format!("{name}: {}", value.to_str().unwrap()))
        .collect();
    fields.sort();
    fields
}

#[test]
fn fields_for_one_connection_are_removed() {
    let sent = [
        ("host", "shop.example"),
        ("connection", "keep-alive, X-Hop, host, content-length"),
        ("x-hop", "1"),
        ("keep-alive", "timeout=5"),
        ("proxy-connection", "keep-alive"),
        ("proxy-authorization", "Basic x"),
        ("te", "gzip"),
        ("transfer-encoding", "chunked"),
        ("upgrade", "h2c"),
        ("expect", "100-continue"),
        ("content-length", "4"),
        ("x-end", "1"),
    ];
    assert_eq!(
        forwarded(&sent, CLIENT),
        [
            "content-length: 4",
            "host: shop.example",
            "via: 1.1 tollgate",
            "x-end: 1",
            "x-forwarded-for: 192.0.2.7",
            "x-forwarded-host: shop.example",
            "x-forwarded-proto: http",
            "x-real-ip: 192.0.2.7",
        ]
    );
    let with_trailers = forwarded(&[("host", "h"), ("te", "gzip, Trailers")], CLIENT);
    assert_eq!(with_trailers[0], "connection: te");
    assert_eq!(with_trailers[2], "te: trailers");
}

#[test]
fn only_a_trusted_proxy_says_who_the_client_is() {
    let sent = [
        ("host", "h"),
        ("x-forwarded-for", "10.9.9.9"),
        ("x-forwarded-for", "203.0.113.5"),
        ("x-forwarded-proto", "https"),
        ("x-forwarded-host", "shop.example"),
        ("x-real-ip", "10.9.9.9"),
        ("forwarded", "for=203.0.113.5"),
        ("via", "1.1 cdn"),
    ];
    assert_eq!(
        forwarded(&sent, CLIENT),
        [
            "host: h",
            "via: 1.1 cdn",
            "via: 1.1 tollgate",
            "x-forwarded-for: 192.0.2.7",
            "x-forwarded-host: h",
            "x-forwarded-proto: http",
            "x-real-ip: 192.0.2.7",
        ]
    );
    let proxy = Sender {
        peer: "2001:db8::1".parse().ok(),
        is_trusted: true,
        client: Some("203.0.113.5".parse().unwrap()),
        scheme: "http",
    };
    assert_eq!(
        forwarded(&sent, proxy),
        [
            "forwarded: for=\"[2001:db8::1]\"",
            "forwarded: for=203.0.113.5",
            "host: h",
            "via: 1.1 cdn",
            "via: 1.1 tollgate",
            "x-forwarded-for: 10.9.9.9, 203.0.113.5, 2001:db8::1",
            "x-forwarded-host: shop.example",
            "x-forwarded-proto: https",
            "x-real-ip: 203.0.113.5",
        ]
    );
}

/// A Unix socket has no address: nothing is added to what a trusted proxy says, and a client's own
/// words are removed as ever.
#[test]
fn a_peer_of_a_unix_socket_adds_no_address() {
    let sent = [
        ("host", "h"),
        ("forwarded", "for=203.0.113.5"),
        ("x-forwarded-for", "10.9.9.9, 203.0.113.5"),
        ("x-real-ip", "203.0.113.9"),
    ];
    let own = [
        "host: h",
        "via: 1.1 tollgate",
        "x-forwarded-host: h",
        "x-forwarded-proto: http",
    ];
    let mut peer = Sender {
        peer: None,
        is_trusted: false,
        client: None,
        scheme: "http",
    };
    assert_eq!(forwarded(&sent, peer), own);
    peer.is_trusted = true;
    peer.client = "203.0.113.5".parse().ok();
    let kept = [
        "forwarded: for=203.0.113.5",
        "x-forwarded-for: 10.9.9.9, 203.0.113.5",
        "x-real-ip: 203.0.113.5",
    ];
    let mut expected = [&own[..], &kept].concat();
    expected.sort_unstable();
    assert_eq!(forwarded(&sent, peer), expected);
}

#[test]
fn version_and_target_are_those_of_the_upstream() {
    use UpstreamProtocol::{H2c, Http1};
    for (uri, version, protocol, target, host) in [
        (
            "http://a:81/x?y",
            Version::HTTP_11,
            Http1,
            "/x?y",
            Some("a:81"),
        ),
        ("http://a", Version::HTTP_2, Http1, "/", Some("a")),
        ("*", Version::HTTP_11, Http1, "*", Some("h")),
        // As it was matched.
        (
            "/ai/%2e%2e/b;c/%41/./?d=/../",
            Version::HTTP_11,
            Http1,
            "/b;c/%41/?d=/../",
            Some("h"),
        ),
        ("/ai/..", Version::HTTP_11, H2c, "http://h/", None),
        ("/x", Version::HTTP_11, H2c, "http://h/x", None),
        ("http://a:81/x", Version::HTTP_2, H2c, "http://a:81/x", None),
    ] {
        let sent: &[_] = match version {
            Version::HTTP_2 => &[],
            _ if uri.starts_with("http:") => &[("host", "a:81")],
            _ => &[("host", "h")],
        };
        let mut head = head(uri, version, sent);
        rewrite_request(&mut head, CLIENT, "10.0.0.1:80", protocol);
        assert_eq!(head.uri.to_string(), target, "{uri}");
        let found = head.headers.get(HOST).map(|host| host.to_str().unwrap());
        assert_eq!(found, host, "{uri}");
    }
    // HTTP/1.0 names no host.
    let mut nameless = head("/", Version::HTTP_10, &[]);
    rewrite_request(&mut nameless, CLIENT, "10.0.0.1:80", Http1);
    assert_eq!(nameless.headers[HOST], "10.0.0.1:80");
    assert_eq!(nameless.headers[VIA], "1.0 tollgate");
}

#[test]
fn a_query_without_a_path_is_one_of_the_root() {
    for protocol in [UpstreamProtocol::Http1, UpstreamProtocol::H2c] {
        let mut head = head("/", Version::HTTP_2, &[]);
        let target = http::uri::Builder::new().scheme("http").authority("h");
        head.uri = target.path_and_query("?x=1").build().unwrap();
        rewrite_request(&mut head, CLIENT, "10.0.0.1:80", protocol);
        let target = head.uri.path_and_query().map(PathAndQuery::as_str);
        assert_eq!(target, Some("/?x=1"), "{protocol:?}");
    }
}

/// Clients of HTTP/2 need not say that a body is empty.
#[test]
fn a_request_that_mostly_has_a_body_says_that_it_has_none() {
    use UpstreamProtocol::{H2c, Http1};
    for (method, protocol, length, expected) in [
        (Method::POST, Http1, Some(0), Some("content-length: 0")),
        (Method::PUT, Http1, Some(0), Some("content-length: 0")),
        (Method::PATCH, Http1, Some(0), Some("content-length: 0")),
        (Method::POST, H2c, Some(0), None),
        (Method::GET, Http1, Some(0), None),
        (Method::GET, Http1, None, Some("transfer-encoding: chunked")),
    ] {
        let mut head = head("http://h/", Version::HTTP_2, &[]);
        head.method = method;
        rewrite_request(&mut head, CLIENT, "10.0.0.1:80", protocol);
        announce_length(&mut head, length);
        let found = [CONTENT_LENGTH, TRANSFER_ENCODING]
            .into_iter()
            .find_map(|name| {
                let value = head.headers.get(&name)?.to_str().unwrap();
                Some(format!("{name}: {value}"))
            });
        assert_eq!(found.as_deref(), expected, "{} {protocol:?}", head.method);
    }
}

/// Programs of CGI would get it as `HTTP_PROXY`.
#[test]
fn the_header_proxy_is_not_passed_on() {
    let fields = forwarded(
        &[("proxy", "http://evil.example"), ("proxied", "1")],
        CLIENT,
    );
    let found: Vec<_> = fields
        .iter()
        .filter(|field| field.starts_with("prox"))
        .collect();
    assert_eq!(found, ["proxied: 1"]);
}

#[test]
fn cookies_of_http_2_are_joined() {
    let cookies = [("cookie", "a=1"), ("cookie", "b=2")];
    let mut head = head("http://h/", Version::HTTP_2, &cookies);
    join_cookies(&mut head.headers);
    let found: Vec<_> = head.headers.get_all(COOKIE).iter().collect();
    assert_eq!(found, ["a=1; b=2"]);
}

#[test]
fn a_request_that_comes_again_and_again_is_a_loop() {
    let mut headers = HeaderMap::new();
    headers.append(VIA, HeaderValue::from_static("1.1 other, 1.1 tollgate"));
    for _gateway in 1..GATEWAYS_MAX {
        append_via(&mut headers, Version::HTTP_11);
    }
    assert!(!is_loop(&headers));
    append_via(&mut headers, Version::HTTP_11);
    assert!(is_loop(&headers));
}

#[test]
fn a_response_loses_what_is_for_one_connection() {
    let fields = [
        ("connection", "x-hop"),
        ("x-hop", "1"),
        ("keep-alive", "timeout=5"),
        ("transfer-encoding", "chunked"),
        ("upgrade", "h2c"),
        ("proxy-authenticate", "Basic"),
        ("x-end", "1"),
    ];
    let mut head = head("/", Version::HTTP_11, &fields);
    rewrite_response(&mut head.headers, StatusCode::OK, Version::HTTP_11);
    let names: Vec<&str> = head.headers.keys().map(HeaderName::as_str).collect();
    assert_eq!(names, ["x-end", "via"]);
}

#[test]
fn connection_hides_nothing_about_the_way_of_a_request() {
    let proxy = Sender {
        is_trusted: true,
        ..CLIENT
    };
    let sent = [
        ("host", "h"),
        (
            "connection",
            "x-forwarded-for, X-Forwarded-Proto, forwarded, via, x-forwarded-host",
        ),
        ("x-forwarded-for", "203.0.113.5"),
        ("x-forwarded-proto", "https"),
        ("x-forwarded-host", "shop.example"),
        ("via", "1.1 cdn"),
    ];
    let found = forwarded(&sent, proxy);
    for expected in [
        "via: 1.1 cdn",
        "x-forwarded-for: 203.0.113.5, 192.0.2.7",
        "x-forwarded-host: shop.example",
        "x-forwarded-proto: https",
    ] {
        assert!(
            found.contains(&expected.to_owned()),
            "{expected}: {found:?}"
        );
    }
}

#[test]
fn other_spellings_for_servers_of_cgi_are_removed() {
    let sent = [
        ("host", "h"),
        ("X_Forwarded_For", "10.9.9.9"),
        ("X-Forwarded_For", "10.9.9.9"),
        ("x_real-ip", "10.9.9.9"),
        ("x_real_ip", "10.9.9.9"),
        ("x_forwarded_proto", "https"),
        ("x_forwarded_host", "other"),
        ("X.Forwarded.For", "10.9.9.9"),
        ("x-real~ip", "10.9.9.9"),
    ];
    let found = forwarded(&sent, CLIENT);
    let is_respelled = |field: &String| field.contains(['_', '~']) || field.starts_with("x.");
    assert!(!found.iter().any(is_respelled), "{found:?}");
}

#[test]
fn a_header_that_says_who_the_client_is_stays_although_connection_names_it() {
    let sent = [
        ("connection", "cf-connecting-ip, x-other"),
        ("cf-connecting-ip", "192.0.2.9"),
        ("x-other", "1"),
    ];
    let mut headers = HeaderMap::new();
    for (name, value) in sent {
        headers.insert(name, HeaderValue::from_static(value));
    }
    remove_named(&mut headers);
    assert!(headers.contains_key("cf-connecting-ip") && !headers.contains_key("x-other"));
}

#[test]
fn fields_of_a_head_are_no_trailers() {
    let mut trailers = HeaderMap::new();
    for name in ["proxy", "via", "x_real_ip", "x-sum"] {
        trailers.insert(name, HeaderValue::from_static("http://evil"));
    }
    rewrite_trailers(&mut trailers);
    assert_eq!(trailers.keys().collect::<Vec<_>>(), ["x-sum"]);
}

/// Once, and beside an upgrade.
#[test]
fn trailers_are_requested_as_the_protocol_has_it() {
    let request = Request::get("/").header("connection", "Upgrade").body(());
    let (mut head, ()) = request.unwrap().into_parts();
    for _ in 0..2 {
        request_trailers(&mut head);
        let named: Vec<_> = head.headers.get_all("connection").iter().collect();
        assert_eq!(named, ["Upgrade", "te"]);
        assert_eq!(head.headers["te"], "trailers");
    }
    let (mut head, ()) = Request::new(()).into_parts();
    head.version = Version::HTTP_2;
    request_trailers(&mut head);
    assert_eq!(head.headers["te"], "trailers");
    assert!(!head.headers.contains_key("connection"));
}

#[test]
fn a_response_has_one_length() {
    for (lengths, expected) in [
        (&["5"][..], Some("5")),
        (&["5", "5"], Some("5")),
        (&["5, 5"], Some("5")),
        (&["5", "6"], None),
        (&["5, 6"], None),
        (&["-5"], None),
        (&["+5"], None),
        (&["0x5"], None),
    ] {
        let mut headers = HeaderMap::new();
        for length in lengths {
            headers.append(CONTENT_LENGTH, HeaderValue::from_static(length));
        }
        let is_one = merge_lengths(&mut headers);
        assert_eq!(is_one, expected.is_some(), "{lengths:?}");
        if let Some(expected) = expected {
            let left: Vec<_> = headers.get_all(CONTENT_LENGTH).iter().collect();
            assert_eq!(left, [expected], "{lengths:?}");
        }
    }
}
