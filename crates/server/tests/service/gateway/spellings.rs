//! One host and one method in many spellings: none is a way round a limit, or to another route.

use http::Request;
use http_body_util::Full;

use super::http2::connect;
use super::upstream::Echo;
use super::{gateway_with, section};
use crate::house::House;
use crate::http_client::Client;

const BY_HOST: &str = "
domain: api
descriptors: [{key: host, rate_limit: 3/hour}]
";

const BY_METHOD: &str = "
domain: api
descriptors:
  - {key: method, value: GET, rate_limit: 1000/hour}
  - {key: method, value: POST, rate_limit: 1/hour}
  - {key: method, rate_limit: 2/hour}
---
domain: overridden
descriptors: [{key: remote_address, rate_limit: 1/hour}]
";

const METHOD: &str = "identity: {descriptors: [{entries: [{key: method, from: method}]}]}";

/// The status of a request with this head, on a connection of its own.
async fn ask(house: &House, head: &str) -> u16 {
    let mut client = Client::to(house.gateway()).await;
    client.send(format!("{head}\r\n\r\n").as_bytes()).await;
    let reply = client.reply().await;
    reply
        .unwrap_or_else(|| panic!("no reply to {head:?}"))
        .status
}

#[tokio::test]
async fn spellings_of_a_host_share_its_route_and_its_limit() {
    let upstream = Echo::start().await;
    let identity =
        "identity: {descriptors: [{entries: [{key: host, from: host, if_missing: deny}]}]}";
    let routes = "routes: [{match: {hosts: [shop.example]}}]";
    let settings = section(upstream.address, &format!("{identity}, {routes}"));
    let house = gateway_with(BY_HOST, settings, |_| ()).await;
    for (head, expected) in [
        ("GET / HTTP/1.1\r\nhost: shop.example", 200),
        ("GET / HTTP/1.1\r\nhost: SHOP.Example.:80", 200),
        (
            "GET http://Shop.example./ HTTP/1.1\r\nhost: shop.example.",
            200,
        ),
        ("GET / HTTP/1.1\r\nhost: shop.example.", 429),
        ("GET / HTTP/1.1\r\nhost: shop.example:8443", 429),
        ("GET / HTTP/1.1\r\nhost: shop.example:", 429),
        ("GET / HTTP/1.1\r\nHOST:\tSHOP.EXAMPLE \t", 429),
        (
            "GET http://shop.EXAMPLE.:1/ HTTP/1.1\r\nhost: shop.example.:1",
            429,
        ),
    ] {
        assert_eq!(ask(&house, head).await, expected, "{head}");
    }
    for target in ["http://SHOP.Example.:80/", "https://shop.example:8443/"] {
        let request = Request::get(target).body(Full::default()).unwrap();
        let response = connect(&house).await.send_request(request).await.unwrap();
        assert_eq!(response.status(), 429, "{target}");
    }
    assert_eq!(upstream.requests().len(), 3);
}

#[tokio::test]
async fn what_only_resembles_a_host_has_not_its_route() {
    let upstream = Echo::start().await;
    let routes = "routes: [{match: {hosts: [shop.example, '*.shop.example']}}]";
    let house = gateway_with(BY_HOST, section(upstream.address, routes), |_| ()).await;
    for (host, expected) in [
        ("shop.example..", 404),
        (".shop.example", 404),
        ("shop%2eexample", 400),
        ("shop.example,other.example", 404),
        ("a.shop.example.other", 404),
        ("", 404),
        ("other.example@shop.example", 400),
        ("shop.example@other.example", 400),
        ("shop.example/", 400),
        ("shop.example:80:80", 400),
        ("shop.example other.example", 400),
    ] {
        let status = ask(&house, &format!("GET / HTTP/1.1\r\nhost: {host}")).await;
        assert_eq!(status, expected, "{host:?}");
    }
    // Nor has a target another host than the header.
    let head = "GET http://shop.example/ HTTP/1.1\r\nhost: other.example";
    assert_eq!(ask(&house, head).await, 400);
    assert!(upstream.requests().is_empty(), "{:?}", upstream.requests());
}

#[tokio::test]
async fn limits_and_routes_go_by_the_method_of_the_request_line() {
    let upstream = Echo::start().await;
    let settings = section(upstream.address, METHOD);
    let house = gateway_with(BY_METHOD, settings, |_| ()).await;
    let post = "POST / HTTP/1.1\r\nhost: h\r\ncontent-length: 0";
    assert_eq!(ask(&house, post).await, 200);
    for name in [
        "X-HTTP-Method-Override",
        "X-HTTP-Method",
        "X-Method-Override",
    ] {
        for method in ["GET", "get", "", "DELETE"] {
            let head = format!("{post}\r\n{name}: {method}");
            assert_eq!(ask(&house, &head).await, 429, "{name}: {method}");
        }
    }
    // In another case it has the same limit; those that no rule names share one.
    for method in ["post", "Post"] {
        let head = format!("{method} / HTTP/1.1\r\nhost: h\r\ncontent-length: 0");
        assert_eq!(ask(&house, &head).await, 429, "{method}");
    }
    for (method, expected) in [("BREW", 200), ("PROPFIND", 200), ("brew", 429), ("X", 429)] {
        let status = ask(&house, &format!("{method} / HTTP/1.1\r\nhost: h")).await;
        assert_eq!(status, expected, "{method}");
    }
    assert_eq!(upstream.requests().len(), 3);
}

/// A server that takes `head` for HEAD sends no body, and one that takes `connect` for CONNECT
/// opens a tunnel, which nobody else expects.
#[tokio::test]
async fn methods_that_end_in_another_way_are_written_in_capitals() {
    let upstream = Echo::start().await;
    let house = gateway_with(BY_METHOD, section(upstream.address, METHOD), |_| ()).await;
    for method in ["connect", "Connect", "head", "HEAd"] {
        let head = format!("{method} / HTTP/1.1\r\nhost: h");
        assert_eq!(ask(&house, &head).await, 501, "{method}");
        let request = Request::builder().method(method).uri("http://h/");
        let request = request.body(Full::default()).unwrap();
        let response = connect(&house).await.send_request(request).await.unwrap();
        assert_eq!(response.status(), 501, "{method}");
    }
    assert!(upstream.requests().is_empty(), "{:?}", upstream.requests());
    let metrics = Client::to(house.admin()).await.get("/metrics").await.body;
    for kind in ["connect_method", "respelled_method"] {
        let counted = format!(r#"tollgate_gateway_requests_total{{route="",outcome="{kind}"}} 4"#);
        assert!(metrics.contains(&counted), "{metrics}");
    }
}

/// The routes of docs/gateway.md, "What to watch".
#[tokio::test]
async fn a_route_limits_requests_that_name_another_method_in_a_header() {
    let upstream = Echo::start().await;
    let route = "{match: {headers: {x-http-method-override: '*'}}, domain: overridden, \
        identity: {descriptors: [{entries: [{key: remote_address, from: client_address}]}]}}";
    let settings = section(
        upstream.address,
        &format!("{METHOD}, routes: [{route}, {{}}]"),
    );
    let house = gateway_with(BY_METHOD, settings, |_| ()).await;
    let overridden = "GET / HTTP/1.1\r\nhost: h\r\nX-HTTP-METHOD-Override: POST";
    // It arrives as it was sent: an upstream may read it.
    assert_eq!(ask(&house, overridden).await, 200);
    let field = "x-http-method-override: POST".to_owned();
    let seen = upstream.requests();
    assert!(seen[0].fields.contains(&field), "{seen:?}");
    for more in ["", "\r\nx-http-method-override: GET", "\r\naccept: */*"] {
        assert_eq!(
            ask(&house, &format!("{overridden}{more}")).await,
            429,
            "{more}"
        );
    }
    let empty = "GET / HTTP/1.1\r\nhost: h\r\nx-http-method-override:";
    assert_eq!(ask(&house, empty).await, 429);
    // Many servers take this for the same header.
    for name in ["X_HTTP_Method_Override", "x-http-method_override"] {
        let respelled = format!("GET / HTTP/1.1\r\nhost: h\r\n{name}: DELETE");
        assert_eq!(ask(&house, &respelled).await, 400, "{name}");
    }
    // Removed before routes are compared, and not passed on either.
    let hidden = format!("{overridden}\r\nconnection: x-http-method-override");
    assert_eq!(ask(&house, &hidden).await, 200);
    assert_eq!(ask(&house, "GET / HTTP/1.1\r\nhost: h").await, 200);
    let seen = upstream.requests();
    assert_eq!(seen.len(), 3);
    for request in &seen[1..] {
        assert!(!request.fields.contains(&field), "{request:?}");
    }
}
