//! nginx, which asks by `auth_request`.

use std::path::Path;

use tollgate_testbed::Folder;

use crate::proxy::Proxy;
use crate::site::Site;

#[test]
fn responses_to_allowed_requests_name_the_limit() {
    let site = Site::start(Proxy::Nginx);
    for remaining in ["4", "3", "2", "1", "0"] {
        let reply = site.ask(2, "/", &[]);
        let expected = format!("\"remote_address\";r={remaining};t=");
        let found = reply.header("RateLimit").unwrap();
        assert!(found.starts_with(&expected), "{found}");
        let policy = Some("\"remote_address\";q=5;w=3600");
        assert_eq!(reply.header("RateLimit-Policy"), policy);
    }
    // By which an operator finds out why.
    let denied = site.ask(2, "/", &[]);
    assert_eq!(denied.status, 429);
    assert!(
        denied
            .header("X-Request-ID")
            .is_some_and(|id| id.len() == 32)
    );
}

/// Servers disagree about these, so they are denied, and not with an error of the server.
#[test]
fn paths_that_are_not_clear_are_denied() {
    let site = Site::start(Proxy::Nginx);
    let found = site.statuses(2, &["/a//../login", "/a/..%2flogin", "/x\\..\\login"], &[]);
    assert_eq!(found, [403, 403, 403]);
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

/// Those of HTTP/1.0 need none.
#[test]
fn requests_without_a_host_are_decided() {
    let site = Site::start(Proxy::Nginx);
    let without = ["--http1.0", "--header", "Host:"];
    assert_eq!(site.ask(2, "/", &without).status, 200);
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
