#![allow(clippy::unwrap_used)]

use tollgate_core::Span;
use tollgate_http::{AddressSource, ClientAddressSettings, IdentitySettings};

use super::*;
use crate::active::Active;
use crate::settings::{ByteSize, MatchSettings, UpstreamProtocol, UpstreamSettings};

fn upstream(address: &str) -> UpstreamSettings {
    UpstreamSettings {
        addresses: vec![address.to_owned()],
        protocol: UpstreamProtocol::Http1,
        tls: None,
        requests: 8,
        health_check: None,
        retries: None,
    }
}

fn settings(names: &[&str], routes: Vec<RouteSettings>) -> GatewaySettings {
    let named = names.iter();
    let upstreams = named.map(|name| ((*name).to_owned(), upstream("10.0.0.1:80")));
    GatewaySettings {
        domain: Some("d".to_owned()),
        upstreams: upstreams.collect(),
        routes,
        ..GatewaySettings::default()
    }
}

/// A route for one path.
fn to(path: &str, upstream: &str) -> RouteSettings {
    RouteSettings {
        upstream: Some(upstream.to_owned()),
        matches: MatchSettings {
            paths: vec![path.to_owned()],
            ..MatchSettings::default()
        },
        ..RouteSettings::default()
    }
}

/// The same route, whose clients a PROXY protocol header names.
fn with_proxy_header(mut route: RouteSettings) -> RouteSettings {
    let identity = route.identity.get_or_insert_default();
    identity.client_address = ClientAddressSettings {
        source: AddressSource::ProxyProtocol,
        trusted_hops: Some(1),
        ..ClientAddressSettings::default()
    };
    route
}

fn wrong(settings: &GatewaySettings) -> String {
    let made = RouteTable::new(settings, &Metrics::new(), None);
    made.map(drop).unwrap_err().to_string()
}

#[test]
fn one_upstream_needs_no_routes() {
    let table = RouteTable::new(&settings(&["api"], Vec::new()), &Metrics::new(), None).unwrap();
    let request = http::Request::get("/any/%2e%2e%2f").body(()).unwrap();
    let found = table.find(&request.into_parts().0).unwrap();
    assert_eq!(found.domain, "d");
}

#[test]
fn the_first_route_that_fits_applies_and_ambiguous_paths_fit_none() {
    let routes = vec![to("/login", "a"), to("/{*rest}", "b")];
    let table = RouteTable::new(&settings(&["a", "b"], routes), &Metrics::new(), None).unwrap();
    let name = |path: &str| {
        let request = http::Request::get(path).body(()).unwrap();
        let found = table.find(&request.into_parts().0);
        let named = found.map(|route| route.matcher.first_condition().map(str::to_owned));
        named.map_err(|failure| failure.kind())
    };
    assert_eq!(name("/login"), Ok(Some("/login".to_owned())));
    assert_eq!(name("//login/?x"), Ok(Some("/login".to_owned())));
    assert_eq!(name("/login/x"), Ok(Some("/{*rest}".to_owned())));
    assert_eq!(name("/"), Err("no_route"));
    assert_eq!(name("/x%2f../login"), Err("invalid_path"));
}

#[test]
fn every_error_says_where_it_is_and_what_to_write() {
    let base = settings(&["api"], Vec::new());
    let of = |change: fn(&mut GatewaySettings)| {
        let mut settings = base.clone();
        change(&mut settings);
        wrong(&settings)
    };
    for (found, expected) in [
        (
            of(|one| one.upstreams.clear()),
            "upstreams: 0 upstreams; write 1 to 1024, as in",
        ),
        (
            of(|one| one.domain = None),
            "domain: nothing says whose rules apply; write `domain: NAME`",
        ),
        (
            of(|one| one.domain = Some(String::new())),
            "domain: 0 bytes, and 1 to 1024 are possible;",
        ),
        (
            of(|one| one.timeouts.head = Span::ZERO),
            "timeouts.head: 0s is outside 1ms to 1d; write one such as 10s",
        ),
        (
            of(|one| drop(one.upstreams.insert("b".to_owned(), upstream("x:1")))),
            "upstream: nothing says which upstream requests go to; write routes, each with \
             `upstream:` and one of `api`, `b`",
        ),
        (
            of(|one| drop(one.upstreams.insert("a b".to_owned(), upstream("x:1")))),
            "upstreams: \"a b\" is not a valid upstream name;",
        ),
        (
            of(|one| drop(one.upstreams.insert("api".to_owned(), upstream("10.0.0.1")))),
            "upstreams.api.addresses[0]: \"10.0.0.1\" is not an address with a port; \
             write host:port",
        ),
        (
            of(|one| one.routes = vec![to("/a", "api"), to("/b", "apo")]),
            "routes[1].upstream: there is no upstream \"apo\"; write one of `api`",
        ),
        (
            of(|one| one.routes = vec![to("/{*a}", "api"), to("/b/{c}", "api")]),
            "routes[1].match: no request reaches this route: routes[0] has all of them; put it",
        ),
        (
            of(|one| one.routes = vec![to("b", "api")]),
            "routes[0].match.paths[0]: \"b\" does not begin with a slash; write /b",
        ),
        (
            of(|one| one.routes = vec![with_proxy_header(to("/a", "api"))]),
            "routes[0].identity.client_address.source: the gateway reads no PROXY protocol, which \
             comes before any route is known; write `source: proxy-protocol` in the gateway's own \
             `identity` as well",
        ),
        (
            of(|one| one.identity.client_address.source = AddressSource::ProxyProtocol),
            "identity.client_address.trusted_proxies: nothing says whose word is taken",
        ),
        (
            of(|one| one.responses.status = 200),
            "responses.status: 200 is not an error status;",
        ),
    ] {
        assert!(found.starts_with(expected), "{found}");
    }
    assert_eq!(base.body_bytes, ByteSize(10 << 20));
}

/// The gateway reads the header where its own identity says so, and each route may then name the
/// client by it or otherwise.
#[test]
fn a_route_may_use_the_header_that_the_gateway_reads() {
    let mut settings = settings(
        &["api"],
        vec![with_proxy_header(to("/a", "api")), to("/b", "api")],
    );
    settings.identity = with_proxy_header(RouteSettings::default())
        .identity
        .unwrap();
    settings.routes[1].identity = Some(IdentitySettings::default());
    let active = Active::new(&settings, &Metrics::new(), None).unwrap();
    assert!(active.proxies.is_some());
    // What is wrong is reported also if no route uses it.
    settings.routes.remove(0);
    settings.identity.client_address.trusted_hops = None;
    let error = Active::new(&settings, &Metrics::new(), None).unwrap_err();
    let expected = "identity.client_address.trusted_proxies: nothing says whose word is taken";
    assert!(error.to_string().starts_with(expected), "{error}");
    settings.identity = IdentitySettings::default();
    let active = Active::new(&settings, &Metrics::new(), None).unwrap();
    assert!(active.proxies.is_none());
}

/// Servers take the first or the last of several values.
#[test]
fn different_values_of_a_header_that_routes_compare_fit_none() {
    let with_headers = |headers: &[(&str, &str)]| {
        let headers = headers.iter();
        let headers = headers.map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        let mut route = to("/{*rest}", "a");
        route.matches.headers = headers.collect();
        route
    };
    let versions = with_headers(&[("x-version", "1"), ("x-any", "*")]);
    let settings = settings(&["a"], vec![versions, to("/{*rest}", "a")]);
    let table = RouteTable::new(&settings, &Metrics::new(), None).unwrap();
    for (fields, expected) in [
        (&["x-version: 1"][..], None),
        (&["x-version: 1", "x-version: 1"], None),
        (&["x-version: 1", "x-version: 2"], Some("repeated_header")),
        (&["x-version: 2", "x-version: 3"], Some("repeated_header")),
        (&["x-any: 1", "x-any: 2"], None),
        (&["x-other: 1", "x-other: 2"], None),
    ] {
        let mut request = http::Request::get("/a");
        for field in fields {
            let (name, value) = field.split_once(": ").unwrap();
            request = request.header(name, value);
        }
        let (head, ()) = request.body(()).unwrap().into_parts();
        let failure = table
            .find(&head)
            .map(drop)
            .map_err(|failure| failure.kind());
        assert_eq!(failure.err(), expected, "{fields:?}");
    }
}

#[test]
fn a_header_of_many_routes_is_looked_for_once() {
    let mut routes = [to("/a", "u"), to("/b", "u"), to("/c", "u")];
    for route in &mut routes {
        let headers = &mut route.matches.headers;
        headers.insert("x-tier".to_owned(), "gold".to_owned());
    }
    let table = RouteTable::new(&settings(&["u"], routes.into()), &Metrics::new(), None);
    assert_eq!(table.unwrap().headers, ["x-tier"]);
}

#[test]
fn an_address_with_a_password_is_not_shown() {
    let mut settings = settings(&["api"], Vec::new());
    let url = upstream("http://u:p@h:1");
    settings.upstreams.insert("api".to_owned(), url);
    let expected = "upstreams.api.addresses[0]: this text (not shown: it may be a password) is \
        not an address with a port; write host:port";
    let found = wrong(&settings);
    assert!(found.starts_with(expected), "{found}");
}

#[test]
fn an_address_with_a_scheme_has_its_address_as_the_remedy() {
    for (address, expected) in [
        (
            "http://127.0.0.1:3000",
            "leave out `http://`: write `127.0.0.1:3000`",
        ),
        (
            "http://a.example/b",
            "leave out `http://`: write `a.example:80`",
        ),
        (
            "https://a.example:8443",
            "leave out `https://`: write `a.example:8443`, and for TLS, `tls: {}`",
        ),
        (
            "https://[::1]",
            "leave out `https://`: write `[::1]:443`, and for TLS, `tls: {}`",
        ),
        ("http://", "write host:port, such as 127.0.0.1:3000"),
        ("127.0.0.1:80800", "write host:port, such as 127.0.0.1:3000"),
        ("ftp://a:1", "write host:port, such as 127.0.0.1:3000"),
    ] {
        let mut settings = settings(&["api"], Vec::new());
        settings
            .upstreams
            .insert("api".to_owned(), upstream(address));
        let found = wrong(&settings);
        let expected = format!("\"{address}\" is not an address with a port; {expected}");
        assert!(found.ends_with(&expected), "{found}");
    }
}

#[test]
fn every_error_of_an_upstream_and_of_a_route_is_reported() {
    let mut settings = settings(&["api"], vec![to("b", "apo")]);
    let broken = UpstreamSettings {
        addresses: vec!["10.0.0.1".to_owned(), "10.0.0.2".to_owned()],
        requests: 0,
        ..upstream("")
    };
    settings.upstreams.insert("broken".to_owned(), broken);
    settings.routes[0].matches.methods = vec!["get".to_owned()];
    settings.routes[0].name = Some("a b".to_owned());
    settings.domain = None;
    let found = wrong(&settings);
    let places: Vec<&str> = found
        .lines()
        .map(|line| line.split_once(": ").unwrap().0)
        .collect();
    let expected = [
        "upstreams.broken.addresses[0]",
        "upstreams.broken.addresses[1]",
        "upstreams.broken.requests",
        "routes[0].match.paths[0]",
        "routes[0].match.methods[0]",
        "routes[0].name",
        "routes[0].domain",
        "routes[0].upstream",
    ];
    assert_eq!(places, expected, "{found}");
}

#[test]
fn upgrades_that_cannot_be_are_errors() {
    let base = settings(&["api"], Vec::new());
    let of = |change: fn(&mut GatewaySettings)| {
        let mut settings = base.clone();
        change(&mut settings);
        wrong(&settings)
    };
    for (found, expected) in [
        (
            of(|one| one.upgrades = vec!["websocket".to_owned(), "h2c".to_owned()]),
            "upgrades[1]: requests over `h2c` would go round the limits",
        ),
        (
            of(|one| {
                one.upgrades = vec!["websocket".to_owned()];
                let api = one.upstreams.get_mut("api").unwrap();
                api.protocol = UpstreamProtocol::H2c;
            }),
            "upgrades: its upstream speaks HTTP/2, which has no upgrades; remove it, or write",
        ),
        (
            of(|one| one.timeouts.tunnel = Span::ZERO),
            "timeouts.tunnel: 0s is outside 1ms to 1d;",
        ),
    ] {
        assert!(found.starts_with(expected), "{found}");
    }
    // A route to a server of HTTP/2 inherits none, and has none of its own.
    let mut settings = settings(&["api"], vec![RouteSettings::default()]);
    settings.upgrades = vec!["websocket".to_owned()];
    settings.upstreams.get_mut("api").unwrap().protocol = UpstreamProtocol::H2c;
    assert!(RouteTable::new(&settings, &Metrics::new(), None).is_ok());
    settings.routes[0].upgrades = Some(settings.upgrades.clone());
    assert!(wrong(&settings).starts_with("routes[0].upgrades: its upstream speaks HTTP/2"));
}

#[test]
fn an_upstream_stays_what_it_is_unless_its_settings_change() {
    let metrics = Metrics::new();
    let former = settings(&["kept", "changed", "gone"], vec![to("/{*rest}", "kept")]);
    let before = RouteTable::new(&former, &metrics, None).unwrap();
    let mut next = settings(&["kept", "changed", "new"], vec![to("/{*rest}", "kept")]);
    next.upstreams.get_mut("changed").unwrap().requests += 1;
    let after = RouteTable::new(&next, &metrics, Some(&before)).unwrap();
    let is_same = |name: &str| Arc::ptr_eq(&before.upstreams[name], &after.upstreams[name]);
    assert!(is_same("kept"));
    assert!(!is_same("changed"));
    assert!(!after.upstreams.contains_key("gone"));
    // A timeout belongs to all upstreams.
    next.timeouts.connect = Span::from_secs(1);
    let later = RouteTable::new(&next, &metrics, Some(&after)).unwrap();
    assert!(!Arc::ptr_eq(
        &after.upstreams["kept"],
        &later.upstreams["kept"]
    ));
}

#[test]
fn tls_to_an_upstream_that_cannot_be_is_an_error() {
    let of = |protocol, tls: &str| {
        let mut settings = settings(&["api"], Vec::new());
        let api = settings.upstreams.get_mut("api").unwrap();
        api.protocol = protocol;
        api.tls = serde_json::from_str(tls).unwrap();
        wrong(&settings)
    };
    use UpstreamProtocol::{H2, H2c, Http1};
    for (found, expected) in [
        (
            of(H2, "null"),
            "upstreams.api.protocol: `h2` is HTTP/2 over TLS, and there is no `tls`; add",
        ),
        (
            of(H2c, "{}"),
            "upstreams.api.protocol: `h2c` is HTTP/2 without TLS, and there is `tls`; write",
        ),
        (
            of(Http1, r#"{"cert": "a.pem"}"#),
            "upstreams.api.tls.cert: a certificate without its key; add `key: FILE` (PEM)",
        ),
        (
            of(Http1, r#"{"key": "a.pem"}"#),
            "upstreams.api.tls.key: a key without its certificate; add `cert: FILE` (PEM)",
        ),
        (
            of(Http1, r#"{"server_name": "a b"}"#),
            "upstreams.api.tls.server_name: \"a b\" is not a valid server name; write one such as",
        ),
        (
            of(Http1, r#"{"ca": "/nowhere/ca.pem"}"#),
            "upstreams.api.tls.ca: /nowhere/ca.pem: the file cannot be read: No such file",
        ),
    ] {
        assert!(found.starts_with(expected), "{found}");
    }
}

#[test]
fn bodies_have_a_least_rate_unless_the_upstream_speaks_http2() {
    use UpstreamProtocol::{H2, H2c, Http1};
    for (of_gateway, of_route, protocol, expected) in [
        (None, None, Http1, 240),
        (None, None, H2c, 0),
        (None, None, H2, 0),
        (Some(7), None, Http1, 7),
        (Some(7), None, H2c, 7),
        (Some(7), Some(0), Http1, 0),
        (Some(0), Some(9), H2, 9),
        (Some(0), None, Http1, 0),
    ] {
        let gateway = GatewaySettings {
            body_rate: of_gateway.map(ByteSize),
            ..GatewaySettings::default()
        };
        let route = RouteSettings {
            body_rate: of_route.map(ByteSize),
            ..RouteSettings::default()
        };
        let rate = Bounds::of(&gateway, &route, protocol).body_rate;
        assert_eq!(rate, expected, "{of_gateway:?} {of_route:?} {protocol:?}");
    }
}

#[test]
fn every_section_reports_what_is_wrong_with_it() {
    let mut settings = settings(
        &["a", "b", "c"],
        vec![to("/1", "a"), to("/2", "d"), to("3", "b")],
    );
    settings.timeouts.connect = Span::ZERO;
    settings.timeouts.body = Span::ZERO;
    for name in ["a", "c"] {
        settings.upstreams.get_mut(name).unwrap().requests = 0;
    }
    let errors = wrong(&settings);
    let places: Vec<&str> = errors
        .lines()
        .filter_map(|line| line.split(": ").next())
        .collect();
    // The first route has an upstream that cannot be used, which is not an error of its own.
    let expected = [
        "timeouts.connect",
        "timeouts.body",
        "upstreams.a.requests",
        "upstreams.c.requests",
        "routes[1].upstream",
        "routes[2].match.paths[0]",
    ];
    assert_eq!(places, expected, "{errors}");
}

/// A route with an error reaches nothing and hides nothing, and is not named in errors of others.
#[test]
fn the_route_that_has_all_requests_of_another_is_named_by_its_place() {
    let paths = ["x", "/a", "/{*x}", "y", "/b/{c}"];
    let routes = paths.map(|path| to(path, "api")).to_vec();
    let errors = wrong(&settings(&["api"], routes));
    let lines: Vec<&str> = errors.lines().collect();
    assert_eq!(lines.len(), 3, "{errors}");
    let expected = "routes[4].match: no request reaches this route: routes[2] has all of them;";
    assert!(lines[2].starts_with(expected), "{errors}");
}
