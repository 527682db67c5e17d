#![allow(clippy::unwrap_used)]

use http::Request;

use super::*;

/// Conditions: lists of words, separated by a bar: hosts, paths, methods, headers as `name=value`.
fn matcher(text: &str) -> Result<Matcher, InvalidSettings> {
    let lists: Vec<Vec<String>> = text
        .split('|')
        .map(|list| list.split_whitespace().map(str::to_owned).collect())
        .collect();
    let headers = lists[3].iter().map(|header| {
        let (name, value) = header.split_once('=').unwrap();
        (name.to_owned(), value.to_owned())
    });
    let settings = MatchSettings {
        hosts: lists[0].clone(),
        paths: lists[1].clone(),
        methods: lists[2].clone(),
        headers: headers.collect(),
    };
    Matcher::new(&settings, PathSettings::default())
}

fn is_match(conditions: &str, uri: &str) -> bool {
    let request = Request::post(uri).header("x-a", "1").header("x-a", "2");
    let (head, ()) = request.body(()).unwrap().into_parts();
    let path = PathSettings::default().normalize(head.uri.path().as_bytes());
    matcher(conditions).unwrap().matches(&Target {
        host: host(&head),
        path: path.as_ref().ok(),
        method: &head.method,
        headers: &head.headers,
    })
}

/// Many servers take any spelling of a method for the one that they know.
#[test]
fn a_method_is_one_in_all_its_spellings() {
    for (method, expected) in [
        ("POST", true),
        ("post", true),
        ("Post", true),
        ("POSTS", false),
    ] {
        let request = Request::builder().method(method).uri("http://h/");
        let (head, ()) = request.body(()).unwrap().into_parts();
        let target = Target {
            host: None,
            path: None,
            method: &head.method,
            headers: &head.headers,
        };
        let matches = matcher("||GET POST|").unwrap().matches(&target);
        assert_eq!(matches, expected, "{method}");
    }
}

#[test]
fn a_request_fits_every_list_that_is_not_empty() {
    for (conditions, uri, expected) in [
        ("|||", "http://h/", true),
        ("shop.example|||", "http://SHOP.example.:80/", true),
        ("shop.example|||", "http://www.shop.example/", false),
        ("*.shop.example|||", "http://www.shop.example/", true),
        ("*.shop.example|||", "http://shop.example/", false),
        ("*.shop.example|||", "http://.shop.example/", false),
        ("[::1]|||", "http://[::1]:80/", true),
        ("|/login||", "http://h//%6cogin/?x", true),
        ("|/login||", "http://h/login/x", false),
        ("|/users/{id}||", "http://h/users/7", true),
        ("|/files/{*rest}||", "http://h/files/a/b", true),
        ("||GET POST|", "http://h/", true),
        ("||GET|", "http://h/", false),
        ("|||x-a=2", "http://h/", true),
        ("|||x-a=3", "http://h/", false),
        ("|||x-a=*", "http://h/", true),
        ("|||x-b=*", "http://h/", false),
        ("h|/a|POST|x-a=1", "http://h/a", true),
        ("h|/b|POST|x-a=1", "http://h/a", false),
    ] {
        assert_eq!(is_match(conditions, uri), expected, "{conditions} {uri}");
    }
}

#[test]
fn what_a_route_covers_never_reaches_a_later_one() {
    for (one, other, expected) in [
        ("|||", "h|/a|GET|x=1", true),
        ("h|||", "|||", false),
        ("h|||", "h|/a||", true),
        ("*.b|||", "a.b *.c.b|||", true),
        ("*.b|||", "b|||", false),
        ("|/{a}||", "|/login||", true),
        ("|/{a}||", "|/{b}||", true),
        ("|/login||", "|/{b}||", false),
        ("|/{a}||", "|/{*b}||", false),
        ("|/{*a}||", "|/x/{b} /{*c}||", true),
        ("|/a/{x} /a/{x}/{y} /a/{x}/{y}/{z}||", "|/a/{*r}||", false),
        ("|/a/{x} /a/{x}/{y} /a/{x}/{y}/{*r}||", "|/a/{*r}||", true),
        (
            "|/{x} /{x}/{y} /{x}/{y}/{z} /{x}/{y}/{z}/{u}/{*r}||",
            "|/{*r}||",
            false,
        ),
        ("||GET POST|", "||GET|", true),
        ("||GET|", "||GET POST|", false),
        ("|||x=*", "|||x=1", true),
        ("|||x=1", "|||x=*", false),
        ("|||x=1", "|||x=1 y=2", true),
    ] {
        let covers = matcher(one).unwrap().covers(&matcher(other).unwrap());
        assert_eq!(covers, expected, "{one} {other}");
    }
}

#[test]
fn an_invalid_condition_is_named() {
    for (conditions, expected) in [
        (
            "a:80|||",
            "hosts[0]: \"a:80\" is not a valid host; write a name without a port",
        ),
        (
            "a *|||",
            "hosts[1]: \"*\" is not a valid host; leave out `hosts`, for all hosts",
        ),
        ("*a|||", "hosts[0]: \"*a\" is not a valid host"),
        (
            "|login||",
            "paths[0]: \"login\" does not begin with a slash; write /login",
        ),
        (
            "|/{a} /{b}||",
            "paths[1]: /{b} matches the same paths as /{a}",
        ),
        (
            "||post|",
            "methods[0]: \"post\" is not a valid method; write `POST`",
        ),
        (
            "|||host=h",
            "headers.host: HTTP/2 has no header host; write `hosts: [...]`",
        ),
        ("|||é=h", "headers.é: \"é\" is not a valid header name"),
        ("|||x=é\u{7f}", "headers.x: the value has characters"),
    ] {
        let found = matcher(conditions).unwrap_err().to_string();
        assert!(found.starts_with(expected), "{found}");
    }
}

#[test]
fn a_method_that_is_a_known_one_misspelt_is_an_error() {
    for (method, instead) in [
        ("POTS", "did you mean `POST`?"),
        ("GETT", "did you mean `GET`?"),
        ("PROFIND", "did you mean `PROPFIND`?"),
        ("*", "leave out `methods`, for all methods"),
        ("GET,POST", "write one such as POST, in capital letters"),
    ] {
        let found = matcher(&format!("||GET {method}|")).unwrap_err();
        let found: Vec<InvalidSetting> = found.into_iter().collect();
        assert_eq!(found.len(), 1, "{method}");
        let places = (found[0].at.as_str(), found[0].instead.as_str());
        assert_eq!(places, ("methods[1]", instead), "{method}");
    }
    let others = "PROPFIND PURGE LIST BATCH SET QUERY MKCOL UNLINK X-MY_METHOD";
    assert!(matcher(&format!("||{others}|")).is_ok());
}

#[test]
fn a_header_that_would_have_to_fit_a_pattern_is_an_error() {
    for (header, is_error) in [
        ("x-tier=gold*", true),
        ("x-tier=*gold", true),
        ("x-tier=/re.*/", true),
        ("x-tier=/gol+d/", true),
        ("x-tier=^gold$", true),
        ("user-agent=curl/*", true),
        ("x-tier=*", false),
        ("x-tier=a*b", false),
        ("x-forwarded-prefix=/api/", false),
        ("accept=*/*", false),
        ("accept=text/*", false),
        ("accept-language=*", false),
        ("x-price=$5", false),
    ] {
        let found = matcher(&format!("|||{header}"));
        let errors = found.map(drop).map_err(|errors| errors.to_string());
        assert_eq!(errors.is_err(), is_error, "{header}: {errors:?}");
        let expected = "the value looks like a pattern, and is compared as it is; write the whole";
        assert!(errors.err().is_none_or(|text| text.contains(expected)));
    }
}
