#![allow(clippy::unwrap_used)]

use http::Request;
use serde_json::{Value, json};
use tollgate_behaviour::check;

use super::*;
use crate::client_address::ClientAddress;
use crate::head::Head;
use crate::path::PathSettings;
use crate::peer::Peer;
use crate::route::Routes;

fn source(settings: Value) -> Result<Source, String> {
    let settings: SourceSettings =
        serde_json::from_value(settings).map_err(|error| error.to_string())?;
    Source::new(&settings, &Prefix::default(), false).map_err(|error| error.to_string())
}

/// What a source finds in a request.
fn read(settings: Value, request: http::request::Builder) -> Result<Option<String>, Flaw> {
    let source = source(settings).unwrap();
    let (parts, ()) = request.body(()).unwrap().into_parts();
    let (addresses, paths) = (ClientAddress::default(), PathSettings::default());
    let routes = Routes::default();
    let head = Head::of(&parts, Peer::default());
    let facts = Facts::new(head, &addresses, &paths, &routes);
    let value = source.read(&facts)?;
    Ok(value.map(|value| tollgate_core::Escaped(&value).to_string()))
}

fn found(text: &str) -> Result<Option<String>, Flaw> {
    Ok(Some(text.to_owned()))
}

#[test]
fn headers_have_one_value() {
    let key = || json!({"header": "X-Api-Key"});
    let get = |values: &[&str]| {
        let mut request = Request::get("/");
        for value in values {
            request = request.header("x-api-key", value.as_bytes());
        }
        read(key(), request)
    };
    assert_eq!(get(&["abc"]), found("abc"));
    assert_eq!(get(&[" abc\t"]), found("abc"));
    assert_eq!(get(&["\u{a0}abc\u{2003}"]), found("abc"));
    assert_eq!(get(&["abc", "abc"]), found("abc"));
    assert_eq!(get(&["abc", "abd"]), Err(Flaw::Repeated));
    assert_eq!(get(&["", "abc"]), Err(Flaw::Repeated));
    assert_eq!(get(&["a\tb"]), Err(Flaw::ControlCharacter));
    assert_eq!(get(&["a\u{85}b"]), Err(Flaw::ControlCharacter));
    assert_eq!(get(&["  "]), Ok(None));
    assert_eq!(get(&[]), Ok(None));
    assert_eq!(get(&[&"a".repeat(VALUE_BYTES_MAX + 1)]), Err(Flaw::TooLong));
    let latin = Request::get("/").header("x-api-key", &b"caf\xe9"[..]);
    assert_eq!(read(key(), latin), found("caf\\xe9"));
}

#[test]
fn cookies_have_one_spelling() {
    let get = |lines: &[&str]| {
        let mut request = Request::get("/");
        for line in lines {
            request = request.header("cookie", *line);
        }
        read(json!({"cookie": "sid"}), request)
    };
    for line in [
        "sid=abc",
        "a=b; sid=abc;c",
        "sid = \"abc\"",
        "sid=%61bc",
        "sid=abc; sid=%61%62c",
        "a=\"b, sid=1\"; sid=abc",
    ] {
        assert_eq!(get(&[line]), found("abc"), "{line}");
    }
    assert_eq!(get(&["a=b", "sid=abc"]), found("abc"));
    assert_eq!(get(&["sid=abc", "sid=abd"]), Err(Flaw::Repeated));
    assert_eq!(get(&["sid=a%00"]), Err(Flaw::ControlCharacter));
    assert_eq!(get(&["sid=", "xsid=a; SID=b; sidx=c"]), Ok(None));
    assert_eq!(get(&["sid=100%"]), found("100%"));
    // Django, Starlette and others read both as `abc`.
    assert_eq!(get(&[r#"sid="\141bc""#]), Err(Flaw::Escaped));
    assert_eq!(get(&[r#"sid="a\bc""#]), Err(Flaw::Escaped));
    assert_eq!(get(&[r#"sid="a\bc"#]), Err(Flaw::Escaped));
    assert_eq!(get(&[r#"sid=a; other="a\bc""#]), found("a"));
    assert_eq!(get(&[r"sid=a\bc"]), found(r"a\bc"));
    // Between cookies that other servers also separate there, the value stays one.
    assert_eq!(get(&["a=hello world; sid=abc"]), found("abc"));
    assert_eq!(get(&["a=xsid=b, c; sid=abc"]), found("abc"));
    assert_eq!(get(&["sid=\"a, b c\""]), found("a, b c"));
    assert_eq!(get(&["sid=a%20b%2Cc"]), found("a b,c"));
    let many = "a=b;".repeat(PAIRS_MAX + 1);
    assert_eq!(get(&[&many]), Err(Flaw::ManyPairs));
}

#[test]
fn parameters_are_decoded_and_have_one_value() {
    let get = |uri: &str| read(json!({"query": "key"}), Request::get(uri));
    assert_eq!(get("/?key=abc"), found("abc"));
    assert_eq!(get("/?x=1&k%65y=%61bc&y"), found("abc"));
    assert_eq!(get("/?key=a+b"), found("a b"));
    assert_eq!(get("/?key=+a%20"), found("a"));
    assert_eq!(get("/?key=a&key=b"), Err(Flaw::Repeated));
    assert_eq!(get("/?key=a%0ab"), Err(Flaw::ControlCharacter));
    // Bytes that are not UTF-8 stay apart, and are not a character.
    assert_eq!(get("/?key=%ff"), found(r"\xff"));
    assert_eq!(get("/?key=+%F6"), found(r"\xf6"));
    assert_eq!(get("/?key=%ff&key=%fe"), Err(Flaw::Repeated));
    for uri in ["/", "/?", "/?key", "/?key=", "/?Key=a", "/?keys=a"] {
        assert_eq!(get(uri), Ok(None), "{uri}");
    }
    let many = format!("/?{}key=a", "a&".repeat(PAIRS_MAX));
    assert_eq!(get(&many), Err(Flaw::ManyPairs));
}

#[test]
fn a_host_has_one_spelling() {
    let get = |uri: &str, host: &str| read(json!("host"), Request::get(uri).header("host", host));
    for host in [
        "api.example",
        "API.Example",
        "api.example:8080",
        "api.example.",
        "api.example.:1",
    ] {
        assert_eq!(get("/", host), found("api.example"), "{host}");
    }
    assert_eq!(
        get("http://Api.example:80/", "api.example."),
        found("api.example")
    );
    assert_eq!(get("http://Api.example:80/", ""), found("api.example"));
    assert_eq!(
        read(json!("host"), Request::get("http://Api.example:80/")),
        found("api.example")
    );
    // The application may read the header.
    assert_eq!(get("http://other/", "api.example"), Err(Flaw::Repeated));
    assert_eq!(get("/", "[2001:DB8::1]:80"), found("[2001:db8::1]"));
    assert_eq!(get("/", ""), Ok(None));
    assert_eq!(get("/", "a b"), Err(Flaw::BadHost));
    let twice = Request::get("/").header("host", "a").header("host", "b");
    assert_eq!(read(json!("host"), twice), Err(Flaw::Repeated));
}

#[test]
fn methods_are_a_closed_set() {
    let get = |method: &str| read(json!("method"), Request::builder().method(method).uri("/"));
    let table = [
        ("GET", "GET"),
        ("get", "GET"),
        ("PATCH", "PATCH"),
        ("PROPFIND", "OTHER"),
    ];
    for (method, expected) in table {
        assert_eq!(get(method), found(expected));
    }
    let overridden = Request::post("/").header("x-http-method-override", "GET");
    assert_eq!(read(json!("method"), overridden), found("POST"));
}

#[test]
fn user_agents_have_the_value_of_the_first_pattern() {
    let patterns = json!({"user_agent_match": [
        {"regex": "(?i)bot|crawler", "value": "bot"},
        {"regex": "^$", "value": "none"},
    ]});
    let get = |agent: &str| {
        read(
            patterns.clone(),
            Request::get("/").header("user-agent", agent),
        )
    };
    assert_eq!(get("Some-Bot/1.0"), found("bot"));
    assert_eq!(get("curl/8"), Ok(None));
    assert_eq!(read(patterns.clone(), Request::get("/")), found("none"));
    assert_eq!(
        get(&format!("{}bot", "a".repeat(VALUE_BYTES_MAX))),
        Err(Flaw::TooLong)
    );
    assert_eq!(
        read(
            json!("user_agent"),
            Request::get("/").header("user-agent", "curl/8")
        ),
        found("curl/8")
    );
}

#[test]
fn a_client_without_an_address_has_a_value() {
    assert_eq!(
        read(json!("client_address"), Request::get("/")),
        found("unix")
    );
    assert_eq!(
        read(json!({"constant": "all"}), Request::get("/")),
        found("all")
    );
    assert_eq!(
        read(json!("path"), Request::get("/a//b?c=d")),
        found("/a/b")
    );
    let invalid = read(json!("path"), Request::get("/a%00"));
    assert!(matches!(invalid, Err(Flaw::Path(_))));
}

#[test]
fn errors_say_what_and_where() {
    let table = [
        (
            json!({"header": "x api"}),
            "header: \"x api\" is not a valid header name",
        ),
        (
            json!({"cookie": ""}),
            "cookie: an empty name; write its name",
        ),
        (
            json!({"cookie": "sid="}),
            "cookie: \"sid=\" is not a valid cookie name; write one such as sid",
        ),
        (
            json!({"cookie": " sid"}),
            "cookie: \" sid\" is not a valid cookie name",
        ),
        (
            json!({"cookie": "a;b"}),
            "cookie: \"a;b\" is not a valid cookie name",
        ),
        (
            json!({"header": "Host"}),
            "header: HTTP/2 has no header host; write `from: host`",
        ),
        (json!({"constant": ""}), "constant: an empty name"),
        (json!("route"), "route: there are no routes"),
        (
            json!({"user_agent_match": []}),
            "user_agent_match: 0 patterns; write 1 to 64",
        ),
        (
            json!({"user_agent_match": [{"regex": "(", "value": "a"}]}),
            "user_agent_match[0].regex:",
        ),
        (
            json!({"user_agent_match": [{"regex": "(a{999}){999}", "value": "a"}]}),
            "size limit",
        ),
        (
            json!({"user_agent_match": [{"regex": "a", "value": " "}]}),
            "user_agent_match[0].value: an empty value; write one such as bot",
        ),
        (
            json!({"client_network": {"ipv6_prefix": 200}}),
            "client_network.ipv6_prefix: a prefix",
        ),
        (
            json!({"client_network": {"ipv8_prefix": 2}}),
            "unknown field `ipv8_prefix`",
        ),
        (json!({"headers": "a"}), "unknown variant `headers`"),
    ];
    for (settings, expected) in table {
        let error = source(settings).unwrap_err();
        assert!(error.contains(expected), "{error}");
    }
}

/// Bytes that are not text are values like all others, or flaws.
#[test]
fn any_bytes_have_a_value_or_a_flaw() {
    const PIECES: [&[u8]; 10] = [
        b"sid=", b";", b"%", b"\"", b"=", b"\xff", b"\xc3", b" ", b"\t", b"a",
    ];
    check("values", 5_000, |random| {
        let mut bytes = Vec::new();
        for _ in 0..random.between(0, 12) {
            bytes.extend(PIECES[usize::try_from(random.between(0, 9)).unwrap()]);
        }
        for settings in [
            json!({"cookie": "sid"}),
            json!({"header": "cookie"}),
            json!("host"),
        ] {
            let request = Request::get("/")
                .header("cookie", &bytes[..])
                .header("host", &bytes[..]);
            if let Ok(Some(value)) = read(settings, request) {
                assert!(!value.is_empty() && value.trim() == value, "{bytes:?}");
            }
        }
    });
}

/// Servers of CGI would take one for the other.
#[test]
fn headers_are_not_taken_for_others_by_the_server_alone() {
    for (key, sent) in [
        ("x-api-key", "x_api_key"),
        ("x-api-key", "X-Api_Key"),
        ("x_api_key", "x-api-key"),
        // lighttpd has `_` for all that is no letter and no digit.
        ("x-api-key", "x.api.key"),
        ("x-api-key", "X~Api~Key"),
        ("x-api-key", "x+api-key"),
        ("x.api.key", "x-api-key"),
    ] {
        let request = || Request::get("/").header(sent, "b");
        let key = || json!({"header": key});
        assert_eq!(read(key(), request()), Err(Flaw::Respelled), "{sent}");
        let both = request().header("x-api-key", "a").header("x_api_key", "a");
        assert_eq!(read(key(), both), Err(Flaw::Respelled), "{sent}");
    }
    let other = Request::get("/")
        .header("x_api_keys", "b")
        .header("x_apikey", "b")
        .header("xapikey", "b");
    assert_eq!(read(json!({"header": "x-api-key"}), other), Ok(None));
}

/// Python's `http.cookies` ends a cookie at white space, and servers of RFC 2965 at a comma.
#[test]
fn cookies_are_not_separated_by_the_server_alone() {
    let get = |line: &str| {
        let request = Request::get("/").header("cookie", line);
        read(json!({"cookie": "sid"}), request)
    };
    for line in [
        "a=1 sid=x",
        "a=1\tsid=x",
        "a=1,sid=x",
        "a=1 sid = x",
        ",sid=x",
        "sid=r sid=x",
        "sid=r, sid=x",
        "sid=x; a=1 sid=x",
        // Of these, the server's value is `x`, whatever follows.
        "sid=x r",
        "sid=x r=1",
        "sid=x\tr",
        "sid=x,r",
        "sid=\"x\" r=1",
        "sid=\"x\" r=\"1\"",
        "sid=\"x r",
    ] {
        assert_eq!(get(line), Err(Flaw::Respelled), "{line}");
    }
}

/// Rack before version 3, Perl's CGI and older versions of Python's urllib separate parameters by
/// `;`, too.
#[test]
fn parameters_are_not_separated_by_the_server_alone() {
    let get = |query: &str| {
        let uri = format!("/?{query}");
        read(json!({"query": "account"}), Request::get(uri))
    };
    for query in [
        "x=1;account=bob",
        "x;account=bob",
        ";account=bob",
        "x=1;+account=bob",
        "x=1;a%63count=bob",
        "x=1;account",
        "account=r;account=bob",
        "account=bob&x=1;account=bob",
        // Of these, the server's value is `bob`, whatever follows.
        "account=bob;r",
        "account=bob;r=1",
        "account=bob;",
    ] {
        assert_eq!(get(query), Err(Flaw::Respelled), "{query}");
    }
    assert_eq!(get("account=a%3Baccount=b"), found("a;account=b"));
    assert_eq!(get("x=a;b&account=bob"), found("bob"));
    assert_eq!(get("account=bob&x=a;b;;"), found("bob"));
    assert_eq!(get("x=a;b"), Ok(None));
    // Such as the points of a line.
    let many = format!("x={}&account=a", "1,2;".repeat(PAIRS_MAX));
    assert_eq!(get(&many), found("a"));
}

/// PHP would: the last parameter of a name counts there, and the first cookie.
#[test]
fn names_are_not_taken_for_others_by_the_server_alone() {
    let respelled = Err(Flaw::Respelled);
    let query = |name: &str, sent: &str| {
        let uri = format!("/?user_id=a&{sent}=b");
        read(json!({"query": name}), Request::get(uri))
    };
    for sent in [
        "%20user_id",
        "+user_id",
        "++user.id",
        "user.id",
        "user+id",
        "user%5bid",
        "user[id",
        "user_id%00",
        "user.id%00x]",
    ] {
        assert_eq!(query("user_id", sent), respelled, "{sent}");
    }
    assert_eq!(query("user.id", "user.id"), respelled);
    for other in ["user-id", "user[id]", "user_id_", "_user_id", "%00user_id"] {
        assert_eq!(query("user_id", other), found("a"), "{other}");
    }
    let cookie = |name: &str, sent: &str| {
        let request = Request::get("/").header("cookie", format!("{sent}=b; s_id=a"));
        read(json!({"cookie": name}), request)
    };
    for sent in ["s.id", "s id", "s[id", "s%5Fid", "%20s_id", "s_id%00"] {
        assert_eq!(cookie("s_id", sent), respelled, "{sent}");
    }
    assert_eq!(cookie("s.id", "x"), respelled);
    for other in ["s-id", "s[id]", "x", "s_id_", "s"] {
        assert_eq!(cookie("s_id", other), found("a"), "{other}");
    }
    // Without a value, it is no cookie of that name.
    let request = Request::get("/").header("cookie", "s_id; s_id =a");
    assert_eq!(read(json!({"cookie": "s_id"}), request), found("a"));
}
