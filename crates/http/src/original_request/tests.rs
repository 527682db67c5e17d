#![allow(clippy::unwrap_used)]

use http::Request;

use super::*;

/// The request of a proxy with these headers.
fn asked(headers: &[(&str, &str)]) -> Parts {
    let mut request = Request::builder()
        .uri("/v1/auth")
        .header("host", "tollgate");
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    request.body(()).unwrap().into_parts().0
}

fn flaw(source: OriginalSource, headers: &[(&str, &str)]) -> (String, OriginalFlaw) {
    let invalid = source.restore(&mut asked(headers)).unwrap_err();
    (invalid.header.to_string(), invalid.flaw)
}

#[test]
fn the_configured_headers_name_the_request_and_the_others_do_not() {
    let headers = [
        ("x-original-method", "POST"),
        ("x-original-uri", "/a//%62?q=1"),
        ("x-forwarded-method", "DELETE"),
        ("x-forwarded-uri", "/b"),
        ("x-forwarded-host", "shop.example:8443"),
    ];
    let mut nginx = asked(&headers);
    OriginalSource::XOriginalUri.restore(&mut nginx).unwrap();
    assert_eq!(nginx.method, "POST");
    assert_eq!(nginx.uri, "/a//%62?q=1");
    assert_eq!(nginx.headers["host"], "tollgate");
    let mut traefik = asked(&headers);
    OriginalSource::XForwardedUri.restore(&mut traefik).unwrap();
    assert_eq!(traefik.method, "DELETE");
    assert_eq!(traefik.uri, "/b");
    assert_eq!(traefik.headers["host"], "shop.example:8443");
}

#[test]
fn without_the_original_host_there_is_none() {
    let headers = [("x-forwarded-method", "GET"), ("x-forwarded-uri", "/")];
    let mut request = asked(&headers);
    OriginalSource::XForwardedUri.restore(&mut request).unwrap();
    assert!(!request.headers.contains_key("host"));
}

#[test]
fn a_request_that_is_not_named_once_is_an_error() {
    use OriginalSource::{XForwardedUri, XOriginalUri};
    let cases: [(_, &[(&str, &str)], _, _); 5] = [
        (XOriginalUri, &[], "x-original-uri", OriginalFlaw::Missing),
        (
            XOriginalUri,
            &[("x-original-uri", "/")],
            "x-original-method",
            OriginalFlaw::Missing,
        ),
        (
            XForwardedUri,
            &[("x-original-uri", "/"), ("x-original-method", "GET")],
            "x-forwarded-uri",
            OriginalFlaw::Missing,
        ),
        (
            XForwardedUri,
            &[("x-forwarded-uri", "/a"), ("x-forwarded-uri", "/a")],
            "x-forwarded-uri",
            OriginalFlaw::Repeated,
        ),
        (
            XOriginalUri,
            &[("x-original-uri", "/"), ("x-original-method", "G T")],
            "x-original-method",
            OriginalFlaw::Unreadable,
        ),
    ];
    for (source, headers, header, expected) in cases {
        assert_eq!(flaw(source, headers), (header.to_owned(), expected));
    }
}

#[test]
fn a_target_is_a_path() {
    for good in ["/", "/a?b=c", "*", "/a%20b", "//h/a", "/{a}|b"] {
        let headers = [("x-original-method", "GET"), ("x-original-uri", good)];
        let mut request = asked(&headers);
        OriginalSource::XOriginalUri.restore(&mut request).unwrap();
        assert_eq!(request.uri.path_and_query().unwrap(), good);
    }
    for bad in ["", "a", "http://h/a", "h:80", "?a", "/a b", "**"] {
        let headers = [("x-original-method", "GET"), ("x-original-uri", bad)];
        let found = flaw(OriginalSource::XOriginalUri, &headers);
        assert_eq!(found.1, OriginalFlaw::Unreadable, "{bad:?}");
    }
}
