//! Known ways round a rate limiter, as far as they are about who asks for what: a test for each.
//!
//! The name of a test says the trick. All requests go through a whole configuration, so what is
//! compared are the keys that would be counted.

#![allow(clippy::unwrap_used)]

use std::net::IpAddr;

use http::Request;
use http::request::Builder;
use serde_json::{Value, json};
use tollgate_core::Escaped;
use tollgate_http::{Classifier, Flaw, Head, IdentitySettings, Peer};

const PROXY: &str = "10.0.0.1";

fn classifier(settings: Value) -> Classifier {
    let settings: IdentitySettings = serde_json::from_value(settings).unwrap();
    Classifier::new(&settings).unwrap()
}

/// Clients by address, behind a proxy in 10.0.0.0/8.
fn behind_a_proxy() -> Classifier {
    classifier(json!({
        "client_address": {"source": "x-forwarded-for", "trusted_proxies": ["10.0.0.0/8"]},
    }))
}

/// One entry, from this source.
fn one(from: Value, if_missing: Value) -> Classifier {
    let entry = match if_missing.is_null() {
        true => json!({"key": "k", "from": from}),
        false => json!({"key": "k", "from": from, "if_missing": if_missing}),
    };
    classifier(json!({"descriptors": [{"entries": [entry]}]}))
}

/// The keys of a request: all values of all descriptors.
fn keys(classifier: &Classifier, peer: &str, request: Builder) -> Result<Vec<String>, Flaw> {
    let (parts, ()) = request.body(()).unwrap().into_parts();
    let peer = Peer::from(peer.parse::<IpAddr>().unwrap());
    let identity = classifier.identify(Head::of(&parts, peer));
    let identity = identity.map_err(|rejection| rejection.flaw)?;
    let entries = identity.descriptors.iter().flat_map(|one| &one.entries);
    Ok(entries
        .map(|entry| Escaped(&entry.value).to_string())
        .collect())
}

fn key(classifier: &Classifier, peer: &str, request: Builder) -> String {
    keys(classifier, peer, request).unwrap().join("|")
}

fn forwarded(values: &[&str]) -> Builder {
    let get = Request::get("/");
    values
        .iter()
        .fold(get, |get, value| get.header("x-forwarded-for", *value))
}

#[test]
fn bypass_01_random_x_forwarded_for() {
    let direct = classifier(json!({}));
    let hop = classifier(json!({
        "client_address": {"source": "x-forwarded-for", "trusted_hops": 1},
    }));
    for forged in ["1.1.1.1", "2.2.2.2, 3.3.3.3"] {
        assert_eq!(
            key(&direct, "203.0.113.5", forwarded(&[forged])),
            "203.0.113.5"
        );
        let appended = format!("{forged}, 203.0.113.5");
        assert_eq!(key(&hop, PROXY, forwarded(&[&appended])), "203.0.113.5");
        assert_eq!(
            key(&behind_a_proxy(), PROXY, forwarded(&[&appended])),
            "203.0.113.5"
        );
    }
}

#[test]
fn bypass_02_two_lines_of_x_forwarded_for() {
    for first in ["", "6.6.6.6", "\"", "6.6.6.6, "] {
        let request = forwarded(&[first, "203.0.113.5"]);
        assert_eq!(
            key(&behind_a_proxy(), PROXY, request),
            "203.0.113.5",
            "{first}"
        );
    }
}

#[test]
fn bypass_03_other_headers_with_an_address() {
    let names = [
        "x-real-ip",
        "x-client-ip",
        "true-client-ip",
        "cf-connecting-ip",
        "x-originating-ip",
        "x-remote-addr",
        "x-host",
        "forwarded",
        "x-forwarded-host",
        "client-ip",
    ];
    let request = names
        .into_iter()
        .fold(forwarded(&["203.0.113.5"]), |request, name| {
            request.header(name, "for=6.6.6.6").header(name, "6.6.6.6")
        });
    assert_eq!(key(&behind_a_proxy(), PROXY, request), "203.0.113.5");
}

#[test]
fn bypass_04_garbage_where_our_proxy_writes() {
    let long = "1".repeat(10_000);
    for garbage in ["unknown", "<script>", "-", &long, "1.2.3.4.5", "%00"] {
        let request = forwarded(&[&format!("6.6.6.6, {garbage}")]);
        assert_eq!(key(&behind_a_proxy(), PROXY, request), PROXY);
    }
}

#[test]
fn bypass_05_ports_brackets_zones_and_spaces() {
    for address in [
        "[2001:DB8::7]:443",
        " 2001:db8:0::7 ",
        "2001:db8::7%eth0",
        "[2001:db8::7]",
    ] {
        let request = forwarded(&[address]);
        assert_eq!(
            key(&behind_a_proxy(), PROXY, request),
            "2001:db8::/64",
            "{address}"
        );
    }
}

#[test]
fn bypass_06_fewer_entries_than_hops() {
    let hops = classifier(json!({
        "client_address": {"source": "x-forwarded-for", "trusted_hops": 2},
    }));
    assert_eq!(
        key(&hops, "203.0.113.5", forwarded(&["6.6.6.6"])),
        "203.0.113.5"
    );
    assert_eq!(key(&hops, "203.0.113.5", forwarded(&[])), "203.0.113.5");
}

#[test]
fn bypass_08_rotation_inside_a_network() {
    let stacked = classifier(json!({"descriptors": [
        {"entries": [{"key": "host", "from": "client_address"}]},
        {"entries": [{"key": "site", "from": {"client_network": {"ipv6_prefix": 48}}}]},
    ]}));
    let expected = "2001:db8:1:2::/64|2001:db8:1::/48";
    assert_eq!(key(&stacked, "2001:db8:1:2::1", forwarded(&[])), expected);
    assert_eq!(
        key(&stacked, "2001:db8:1:2:ffff::9", forwarded(&[])),
        expected
    );
}

#[test]
fn bypass_09_10_11_ipv4_in_ipv6() {
    let direct = classifier(json!({}));
    for mapped in ["::ffff:192.0.2.7", "::ffff:c000:207", "192.0.2.7"] {
        assert_eq!(key(&direct, mapped, forwarded(&[])), "192.0.2.7");
    }
    assert_eq!(
        key(&direct, "::ffff:192.0.2.8", forwarded(&[])),
        "192.0.2.8"
    );
    assert_eq!(
        key(&direct, "2001:db8::192.0.2.7", forwarded(&[])),
        "2001:db8::/64"
    );
}

#[test]
fn bypass_12_nat64_6to4_and_teredo() {
    let direct = classifier(json!({}));
    let table = [
        ("64:ff9b::192.0.2.7", "192.0.2.7"),
        ("2002:c000:207::1", "192.0.2.7"),
        ("2002:c000:207:ffff::1", "192.0.2.7"),
        ("2001:0:5ef5:79fb::1", "2001:0:5ef5:79fb::/64"),
    ];
    for (address, expected) in table {
        assert_eq!(key(&direct, address, forwarded(&[])), expected);
    }
}

#[test]
fn bypass_13_octal_hexadecimal_and_short_addresses() {
    for address in ["198.051.100.007", "0x7f.1", "127.1", "3405803781"] {
        assert_eq!(key(&behind_a_proxy(), PROXY, forwarded(&[address])), PROXY);
    }
}

#[test]
fn bypass_14_variants_of_a_path() {
    let path = classifier(json!({
        "path": {"fold_case": true},
        "descriptors": [{"entries": [{"key": "path", "from": "path"}]}],
    }));
    let variants = [
        "/login",
        "/login/",
        "//login",
        "/./login",
        "/a/../login",
        "/login;x=1",
        "/%2flogin",
        "/\\login",
        "/%6cogin",
        "/LOGIN",
        "/login%20",
        "/login?x=1",
        "/login?",
        "http://h/login",
        "/login#a",
    ];
    for variant in variants {
        assert_eq!(
            key(&path, PROXY, Request::get(variant)),
            "/login",
            "{variant}"
        );
    }
    assert_eq!(key(&path, PROXY, Request::get("/%256cogin")), "/%256cogin");
    for invalid in [
        "/login%00",
        "/login%",
        "/login%zz",
        "/login%0d%0a",
        "/x/..;/login",
        "/login;x%2f1",
    ] {
        let rejected = keys(&path, PROXY, Request::get(invalid));
        assert!(matches!(rejected, Err(Flaw::Path(_))), "{invalid}");
    }
}

#[test]
fn bypass_15_similar_endpoints() {
    let routes = classifier(json!({
        "routes": ["/api/{version}/login"],
        "descriptors": [{"entries": [{"key": "route", "from": "route", "if_missing":
            {"use": {"key": "other", "from": {"constant": "all"}}}}]}],
    }));
    for path in ["/api/v1/login", "/api/v2/login", "/api/mobile/login"] {
        assert_eq!(
            key(&routes, PROXY, Request::get(path)),
            "/api/{version}/login"
        );
    }
    assert_eq!(key(&routes, PROXY, Request::get("/v3/login")), "all");
}

#[test]
fn bypass_16_meaningless_parameters_and_headers() {
    let direct = classifier(json!({}));
    for variant in 0..9 {
        let request = Request::get(format!("/reset?x={variant}"))
            .header("user-agent", variant)
            .header("cookie", format!("a={variant}"));
        assert_eq!(key(&direct, "203.0.113.5", request), "203.0.113.5");
    }
}

#[test]
fn bypass_17_blank_and_control_characters_in_a_value() {
    let user = classifier(json!({"descriptors": [{"entries": [{
        "key": "user", "from": {"query": "user"}, "fold_case": true, "if_missing": "deny",
    }]}]}));
    for user_text in ["alice", "Alice", "%20alice+", "alice%C2%A0", "%41lice"] {
        let request = Request::get(format!("/?user={user_text}"));
        assert_eq!(key(&user, PROXY, request), "alice", "{user_text}");
    }
    for control in ["alice%0a.", "ali%00ce", "%7falice"] {
        let request = Request::get(format!("/?user={control}"));
        assert_eq!(keys(&user, PROXY, request), Err(Flaw::ControlCharacter));
    }
}

#[test]
fn bypass_18_no_value() {
    let header = json!({"header": "x-api-key"});
    let settings: IdentitySettings = serde_json::from_value(json!({
        "descriptors": [{"entries": [{"key": "k", "from": header}]}],
    }))
    .unwrap();
    let error = Classifier::new(&settings).unwrap_err();
    let error = error.to_string();
    assert!(
        error.starts_with("descriptors[0].entries[0].if_missing: "),
        "{error}"
    );
    let deny = one(header.clone(), json!("deny"));
    let other = json!({"use": {"key": "address", "from": "client_address"}});
    let other = one(header, other);
    for request in [
        || Request::get("/"),
        || Request::get("/").header("x-api-key", " "),
    ] {
        assert_eq!(keys(&deny, PROXY, request()), Err(Flaw::Missing));
        assert_eq!(key(&other, "203.0.113.5", request()), "203.0.113.5");
    }
}

#[test]
fn bypass_19_colliding_keys() {
    let both = classifier(json!({"descriptors": [{"entries": [
        {"key": "a", "from": {"query": "a"}, "if_missing": "deny"},
        {"key": "b", "from": {"query": "b"}, "if_missing": "deny"},
    ]}]}));
    let first = keys(&both, PROXY, Request::get("/?a=x%7Cy&b=z")).unwrap();
    let second = keys(&both, PROXY, Request::get("/?a=x&b=y%7Cz")).unwrap();
    assert_eq!(first, ["x|y", "z"]);
    assert_eq!(second, ["x", "y|z"]);
    // A fallback with the same key would let a client name another client's address.
    let settings: IdentitySettings = serde_json::from_value(json!({
        "descriptors": [{"entries": [{"key": "k", "from": {"header": "x-api-key"},
            "if_missing": {"use": {"key": "k", "from": "client_address"}}}]}],
    }))
    .unwrap();
    assert!(Classifier::new(&settings).is_err());
}

#[test]
fn bypass_20_other_methods() {
    let method = one(json!("method"), Value::Null);
    let table = [
        ("GET", "GET"),
        ("gEt", "GET"),
        ("PROPFIND", "OTHER"),
        ("X1", "OTHER"),
    ];
    for (name, expected) in table {
        let request = Request::builder().method(name).uri("/");
        let request = request.header("x-http-method-override", "DELETE");
        assert_eq!(key(&method, PROXY, request), expected);
    }
}

#[test]
fn bypass_21_header_names_duplicates_and_connection() {
    let api_key = one(json!({"header": "X-Api-Key"}), json!("deny"));
    let get = || Request::get("/").header("X-API-KEY", "abc");
    assert_eq!(key(&api_key, PROXY, get()), "abc");
    assert_eq!(
        key(&api_key, PROXY, get().header("connection", "x-api-key")),
        "abc"
    );
    let twice = get().header("x-api-key", "def");
    assert_eq!(keys(&api_key, PROXY, twice), Err(Flaw::Repeated));
}

#[test]
fn bypass_41_very_long_values() {
    let header = one(json!({"header": "x-api-key"}), json!("skip"));
    let request = Request::get("/").header("x-api-key", "a".repeat(9_000));
    assert_eq!(keys(&header, PROXY, request), Err(Flaw::TooLong));
    // In small letters, this one has 3 bytes.
    let folded = classifier(json!({"descriptors": [{"entries": [{
        "key": "k", "from": {"header": "x-api-key"}, "if_missing": "skip", "fold_case": true,
    }]}]}));
    let request = Request::get("/").header("x-api-key", "\u{130}".repeat(4_000).as_bytes());
    assert_eq!(keys(&folded, PROXY, request), Err(Flaw::TooLong));
}
