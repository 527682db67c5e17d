//! What every proxy does.

use std::fs;

use tollgate_testbed::Folder;

use crate::proxy::Proxy;
use crate::site::Site;

const PROXIES: [Proxy; 3] = [Proxy::Nginx, Proxy::Caddy, Proxy::Traefik];

#[test]
fn clients_see_the_site_and_then_429_with_the_time_to_retry() {
    for proxy in PROXIES {
        let site = Site::start(proxy);
        for _ in 0..5 {
            let reply = site.ask(2, "/", &[]);
            let seen = (reply.status, reply.body.as_str());
            assert_eq!(seen, (200, "hello\n"), "{proxy:?}: {reply:?}");
            assert_eq!(reply.header("Retry-After"), None);
        }
        let denied = site.ask(2, "/", &[]);
        assert_eq!(denied.status, 429, "{proxy:?}: {denied:?}");
        let retry_after: u64 = denied.header("Retry-After").unwrap().parse().unwrap();
        assert!((1..=3600).contains(&retry_after), "{denied:?}");
        let found = denied.header("RateLimit").unwrap();
        assert!(found.starts_with("\"remote_address\";r=0;t="), "{found}");
        // Another client has units of its own.
        assert_eq!(site.ask(3, "/", &[]).status, 200);
    }
}

/// Rows 1 to 4 and 20 of the list of known ways round a rate limiter, and those of a proxy that
/// asks.
#[test]
fn no_header_of_a_client_is_believed() {
    let forged = [
        "X-Forwarded-For: 10.0.0.N",
        "X-Forwarded-For:\nX-Forwarded-For: 10.0.0.N",
        "X-Forwarded-For: 10.0.0.N, 10.0.1.N",
        "X_Forwarded_For: 10.0.0.N",
        "X-Real-IP: 10.0.0.N",
        "X-Real-IP: <script>N",
        "CF-Connecting-IP: 10.0.0.N",
        "Forwarded: for=10.0.0.N",
        "X-Original-URI: /N",
        "X-Original-Method: PUT",
        "X-Forwarded-Uri: /N",
        "X-Forwarded-Method: PUT",
        "X-Forwarded-Host: N.example",
        "X-HTTP-Method-Override: PUT",
        "Connection: X-Real-IP, X-Original-URI",
        "Connection: X-Forwarded-For, X-Forwarded-Uri",
        "Content-Type: application/grpc",
        "Content-Encoding: gzip",
    ];
    for proxy in PROXIES {
        let site = Site::start(proxy);
        for (client, headers) in (10..).zip(forged) {
            let statuses = site.forge(client, headers);
            let expected = [200, 200, 200, 200, 200, 429];
            assert_eq!(statuses, expected, "{proxy:?}: {headers}");
        }
    }
}

/// Row 14 of the same list.
#[test]
fn a_path_is_the_same_however_it_is_written() {
    let variants = [
        "//login",
        "/./login",
        "/a/../login",
        "/%6cogin",
        "/login/",
        "/login?x=1",
        "/login;x=1",
    ];
    let headers = ["X-Original-URI: /free", "X-Forwarded-Uri: /free"];
    let headers = headers.map(|line| ["--header", line]).concat();
    for proxy in PROXIES {
        let site = Site::start(proxy);
        for (client, variant) in (10..).zip(variants) {
            let targets = ["/login", variant, "/login", variant];
            let found = site.statuses(client, &targets, &headers);
            assert_eq!(found, [200, 200, 429, 429], "{proxy:?} {variant}");
        }
    }
}

#[test]
fn methods_and_bodies_reach_the_site_and_not_tollgate() {
    let folder = Folder::new();
    let file = folder.file("body");
    fs::write(&file, "x".repeat(300_000)).unwrap();
    let file = format!("@{file}");
    for proxy in PROXIES {
        let site = Site::start(proxy);
        for method in ["POST", "PUT", "PATCH"] {
            let upload = ["--request", method, "--data-binary", &file];
            let reply = site.ask(2, "/upload", &upload);
            assert_eq!(reply.body, "hello\n", "{proxy:?} {method}: {reply:?}");
        }
        let chunked = ["--header", "Transfer-Encoding: chunked"];
        let chunked = [&chunked[..], &["--data-binary", &file]].concat();
        assert_eq!(site.ask(2, "/upload", &chunked).status, 200);
        assert_eq!(site.ask(2, "/", &["--head"]).status, 200);
        let denied = site.ask(2, "/upload", &["--data-binary", &file]);
        assert_eq!(denied.status, 429, "{proxy:?}: {denied:?}");
    }
}
