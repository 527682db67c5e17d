//! nginx, which asks by `auth_request`.

use std::fs;
use std::path::Path;

use tollgate_testbed::Folder;

use crate::proxy::Proxy;
use crate::site::Site;

#[test]
fn clients_see_the_site_and_then_429_with_the_time_to_retry() {
    let site = Site::start(Proxy::Nginx);
    for remaining in ["4", "3", "2", "1", "0"] {
        let reply = site.ask(2, "/", &[]);
        assert_eq!(
            (reply.status, reply.body.as_str()),
            (200, "hello\n"),
            "{reply:?}"
        );
        let expected = format!("\"remote_address\";r={remaining};t=");
        let found = reply.header("RateLimit").unwrap();
        assert!(found.starts_with(&expected), "{found}");
        let policy = Some("\"remote_address\";q=5;w=3600");
        assert_eq!(reply.header("RateLimit-Policy"), policy);
        assert_eq!(reply.header("Retry-After"), None);
    }
    let denied = site.ask(2, "/", &[]);
    assert_eq!(denied.status, 429, "{denied:?}");
    let retry_after: u64 = denied.header("Retry-After").unwrap().parse().unwrap();
    assert!((1..=3600).contains(&retry_after), "{denied:?}");
    let found = denied.header("RateLimit").unwrap();
    assert!(found.starts_with("\"remote_address\";r=0;t="), "{found}");
    // Another client has units of its own.
    assert_eq!(site.ask(3, "/", &[]).status, 200);
}

/// Rows 1 to 4 and 20 of the list of known ways round a rate limiter, and those of an
/// `auth_request`.
#[test]
fn no_header_of_a_client_is_believed() {
    let forged = [
        "X-Forwarded-For: 10.0.0.N",
        "X-Forwarded-For:\nX-Forwarded-For: 10.0.0.N",
        "X-Real-IP: 10.0.0.N",
        "X-Real-IP: <script>N",
        "CF-Connecting-IP: 10.0.0.N",
        "Forwarded: for=10.0.0.N",
        "X-Original-URI: /N",
        "X-Original-Method: PUT",
        "X-Forwarded-Uri: /N",
        "X-HTTP-Method-Override: PUT",
        "Connection: X-Real-IP, X-Original-URI",
        "Content-Type: application/grpc",
        "Content-Encoding: gzip",
    ];
    let site = Site::start(Proxy::Nginx);
    for (index, headers) in forged.iter().enumerate() {
        let client = u8::try_from(index).unwrap() + 10;
        let statuses = site.forge(client, headers);
        assert_eq!(statuses, [200, 200, 200, 200, 200, 429], "{headers}");
    }
}

/// Row 14 of the same list.
#[test]
fn a_path_is_the_same_however_it_is_written() {
    let site = Site::start(Proxy::Nginx);
    let variants = [
        "//login",
        "/./login",
        "/a/../login",
        "/%6cogin",
        "/login/",
        "/login?x=1",
        "/login;x=1",
    ];
    for (index, variant) in variants.iter().enumerate() {
        let client = u8::try_from(index).unwrap() + 10;
        let header = ["--header", "X-Original-URI: /free"];
        let found = site.statuses(client, &["/login", variant, "/login", variant], &header);
        assert_eq!(found, [200, 200, 429, 429], "{variant}");
    }
    // Servers disagree about these, so they are denied, and not with an error of the server.
    let found = site.statuses(2, &["/a//../login", "/a/..%2flogin", "/x\\..\\login"], &[]);
    assert_eq!(found, [403, 403, 403]);
}

#[test]
fn methods_and_bodies_reach_the_site_and_not_tollgate() {
    let site = Site::start(Proxy::Nginx);
    let body = "x".repeat(300_000);
    let folder = Folder::new();
    let file = folder.file("body");
    fs::write(&file, body).unwrap();
    let file = format!("@{file}");
    for method in ["POST", "PUT", "PATCH"] {
        let upload = ["--request", method, "--data-binary", &file];
        assert_eq!(site.ask(2, "/upload", &upload).body, "hello\n", "{method}");
    }
    let chunked = [
        "--header",
        "Transfer-Encoding: chunked",
        "--data-binary",
        &file,
    ];
    assert_eq!(site.ask(2, "/upload", &chunked).status, 200);
    assert_eq!(site.ask(2, "/", &["--head"]).status, 200);
    assert_eq!(
        site.ask(2, "/upload", &["--data-binary", &file]).status,
        429
    );
}

#[test]
fn headers_that_nginx_accepts_are_accepted() {
    let site = Site::start(Proxy::Nginx);
    let long = format!("X-Long: {}", "x".repeat(8000));
    let headers: Vec<&str> = [long.as_str(); 3]
        .iter()
        .flat_map(|line| ["--header", *line])
        .collect();
    assert_eq!(site.ask(2, "/", &headers).status, 200);
}

/// Tollgate trusts what comes over its Unix socket, as it trusts proxies on this host.
#[test]
fn nginx_asks_over_a_unix_socket() {
    let site = Site::with(Proxy::Nginx, |text, folder| {
        let socket = folder.file("tollgate.sock");
        text.replace("server 127.0.0.1:8080;", &format!("server unix:{socket};"))
            .replace("http: '127.0.0.1:8080'", &format!("http: 'unix:{socket}'"))
    });
    assert_eq!(
        site.statuses(2, &["/"; 6], &[]),
        [200, 200, 200, 200, 200, 429]
    );
    let forged = ["--header", "X-Real-IP: 127.0.0.2"];
    assert_eq!(site.ask(3, "/", &forged).status, 200);
    assert!(Path::new(&site.folder.file("tollgate.sock")).exists());
}

#[test]
fn without_tollgate_requests_fail_unless_nginx_allows_them() {
    let allow = |conf: String, _: &Folder| {
        let lines = conf.lines().map(|line| {
            let setting = line.trim_start().strip_prefix('#');
            let setting = setting.filter(|rest| !rest.starts_with(' '));
            format!("{}\n", setting.unwrap_or(line))
        });
        lines.collect()
    };
    let (closed, open) = (Site::start(Proxy::Nginx), Site::with(Proxy::Nginx, allow));
    for site in [&closed, &open] {
        assert_eq!(
            site.statuses(2, &["/"; 6], &[]),
            [200, 200, 200, 200, 200, 429]
        );
        site.tollgate.signal("KILL");
    }
    let statuses = |site: &Site| site.statuses(3, &["/", "/login"], &[]);
    assert_eq!(statuses(&closed), [500, 500]);
    assert_eq!(statuses(&open), [200, 200]);
}
