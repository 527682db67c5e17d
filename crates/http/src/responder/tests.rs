#![allow(clippy::unwrap_used)]

use http::header::{
    ACCEPT, ACCESS_CONTROL_ALLOW_ORIGIN, ACCESS_CONTROL_EXPOSE_HEADERS, CONTENT_LENGTH, ORIGIN,
    VARY,
};
use serde_json::{Value, json};
use tollgate_core::{Span, Wait};

use super::*;
use crate::grpc::{GRPC_MESSAGE, GRPC_RETRY_PUSHBACK_MS, GRPC_STATUS};
use crate::headers::tests::{
    allowed_answer, denied, denied_answer, denied_by_the_first_key, grant, limited, minute,
};

/// A wall clock that is not at a whole second.
const NOW: Duration = Duration::from_millis(1_700_000_000_400);

fn responder(settings: Value) -> Result<Responder, String> {
    let settings: ResponseSettings =
        serde_json::from_value(settings).map_err(|error| error.to_string())?;
    Responder::new(&settings).map_err(|error| error.to_string())
}

fn denial(wait: Wait) -> Answer {
    let statuses = vec![
        limited("other", minute(10), grant(0, 1_000)),
        limited("minutely", minute(3), denied(wait, 50_000)),
    ];
    denied_answer(statuses, 1, wait)
}

fn wait() -> Wait {
    Wait::For(Span::from_millis(19_001))
}

fn request(headers: &[(HeaderName, &str)]) -> HeaderMap {
    let headers = headers
        .iter()
        .map(|(name, value)| (name.clone(), value.parse().unwrap()));
    headers.collect()
}

#[test]
fn a_denial_is_a_problem_document_by_default() {
    let response = Responder::default().deny(&denial(wait()), NOW, &Method::GET, &HeaderMap::new());
    let response = response.unwrap();
    assert_eq!(response.status(), StatusCode::TOO_MANY_REQUESTS);
    let headers = response.headers();
    assert_eq!(headers[RETRY_AFTER], "20");
    assert_eq!(headers[CONTENT_TYPE], MEDIA_TYPE);
    assert_eq!(headers[CACHE_CONTROL], "no-store");
    assert_eq!(
        headers["ratelimit"],
        r#""minutely";r=0;t=20, "other";r=0;t=1"#
    );
    let body: Value = serde_json::from_str(response.body()).unwrap();
    assert_eq!(body["violated-policies"], json!(["minutely"]));
    assert_eq!(body["status"], 429);
    assert_eq!(headers.len(), 5);
    let allowed = allowed_answer(Vec::new());
    assert!(
        Responder::default()
            .deny(&allowed, NOW, &Method::GET, &HeaderMap::new())
            .is_none()
    );
}

#[test]
fn dialects_name_the_tightest_limit_and_round_up() {
    let table = [
        ("ratelimit_draft_06", "ratelimit", "2", "20"),
        ("x_ratelimit_seconds", "x-ratelimit", "2", "20"),
        // 400 ms past the second and 19.001 s are less than 20 s; rounded up, both are 20.
        (
            "x_ratelimit_epoch",
            "x-ratelimit",
            "1700000002",
            "1700000020",
        ),
        (
            "x_rate_limit_epoch",
            "x-rate-limit",
            "1700000002",
            "1700000020",
        ),
    ];
    for (dialect, prefix, reset, retry) in table {
        let responder = responder(json!({"headers": [dialect]})).unwrap();
        let values = |headers: &HeaderMap| {
            ["limit", "remaining", "reset"].map(|field| {
                headers[format!("{prefix}-{field}")]
                    .to_str()
                    .unwrap()
                    .to_owned()
            })
        };
        let mut headers = HeaderMap::new();
        let allowed = allowed_answer(vec![
            limited("wide", minute(100), grant(7, 60_000)),
            limited("tight", minute(10), grant(3, 1_500)),
        ]);
        responder.decorate(&allowed, NOW, &mut headers);
        assert_eq!(values(&headers), ["10", "3", reset]);
        assert_eq!(headers.len(), 3, "{headers:?}");
        let response = responder
            .deny(&denial(wait()), NOW, &Method::GET, &HeaderMap::new())
            .unwrap();
        assert_eq!(values(response.headers()), ["3", "0", retry]);
        assert_eq!(response.headers()[RETRY_AFTER], "20");
        let mut none = HeaderMap::new();
        responder.decorate(&allowed_answer(Vec::new()), NOW, &mut none);
        assert!(none.is_empty());
    }
}

/// A client that obeys the reset would be denied again before its retry time.
#[test]
fn the_reset_of_a_denial_is_its_retry_time() {
    let responder = responder(json!({"headers": ["x_ratelimit_seconds"]})).unwrap();
    let answer = denied_by_the_first_key();
    let response = responder.deny(&answer, NOW, &Method::GET, &HeaderMap::new());
    let headers = response.unwrap().into_parts().0.headers;
    assert_eq!(headers["x-ratelimit-remaining"], "3");
    assert_eq!(headers["x-ratelimit-reset"], "60");
    assert_eq!(headers[RETRY_AFTER], "60");
}

/// Adds the headers of an outer limit of 100, with so many remaining, to those of a response that
/// has passed an inner limiter already.
fn decorate_as_outer(dialect: &str, headers: &mut HeaderMap, remaining: u32) {
    let responder = responder(json!({"headers": [dialect]})).unwrap();
    let outer = limited("outer", minute(100), grant(remaining, 60_000));
    responder.decorate(&allowed_answer(vec![outer]), NOW, headers);
}

#[test]
fn lists_name_the_limits_of_all_layers() {
    let inner = limited("inner", minute(10), grant(3, 1_500));
    let mut headers = HeaderMap::new();
    Responder::default().decorate(&allowed_answer(vec![inner]), NOW, &mut headers);
    decorate_as_outer("ratelimit", &mut headers, 99);
    let all = |name: &str| -> Vec<&str> {
        let values = headers.get_all(name).iter();
        values.map(|value| value.to_str().unwrap()).collect()
    };
    let left = [r#""inner";r=3;t=2"#, r#""outer";r=99;t=60"#];
    assert_eq!(all("ratelimit"), left);
    let policies = [r#""inner";q=10;w=60"#, r#""outer";q=100;w=60"#];
    assert_eq!(all("ratelimit-policy"), policies);
    // What is no list of the draft would make ours unreadable.
    let name = HeaderName::from_static("ratelimit");
    let mut other = request(&[(name, "limit=10, remaining=9")]);
    decorate_as_outer("ratelimit", &mut other, 99);
    let values: Vec<_> = other.get_all("ratelimit").iter().collect();
    assert_eq!(values, [r#""outer";r=99;t=60"#]);
}

#[test]
fn headers_of_one_limit_never_hide_that_less_remains() {
    for (dialect, prefix) in [
        ("ratelimit_draft_06", "ratelimit"),
        ("x_ratelimit_seconds", "x-ratelimit"),
        ("x_rate_limit_epoch", "x-rate-limit"),
    ] {
        for (remaining, has_retry_after, own, is_kept, why) in [
            (
                Some("3"),
                false,
                99,
                true,
                "less remains of the inner limit",
            ),
            (Some("3"), false, 3, true, "as much"),
            (Some("3"), false, 2, false, "more"),
            (Some("3"), true, 2, true, "it denied a larger cost"),
            (None, true, 2, true, "its store does not answer"),
            (Some("many"), false, 2, false, "it says nothing"),
            (None, false, 2, false, "it says nothing"),
        ] {
            let name = |field: &str| HeaderName::try_from(format!("{prefix}-{field}")).unwrap();
            let mut inner = request(&[(name("limit"), "10")]);
            if let Some(remaining) = remaining {
                inner.insert(name("remaining"), remaining.parse().unwrap());
                inner.insert(name("reset"), "7".parse().unwrap());
            }
            if has_retry_after {
                inner.insert(RETRY_AFTER, "7".parse().unwrap());
            }
            let before = inner.clone();
            decorate_as_outer(dialect, &mut inner, own);
            assert_eq!(inner == before, is_kept, "{dialect}: {why}");
            if !is_kept {
                assert_eq!(inner[name("limit")], "100", "{dialect}: {why}");
                assert_eq!(
                    inner[name("remaining")],
                    own.to_string(),
                    "{dialect}: {why}"
                );
                assert_eq!(inner.len(), 3, "{dialect}: {why}");
            }
        }
    }
}

#[test]
fn allowed_responses_may_be_left_alone() {
    let responder = responder(json!({"headers_on": "denied"})).unwrap();
    let mut headers = HeaderMap::new();
    let allowed = allowed_answer(vec![limited("a", minute(9), grant(3, 1_500))]);
    responder.decorate(&allowed, NOW, &mut headers);
    assert!(headers.is_empty());
    Responder::default().decorate(&allowed, NOW, &mut headers);
    assert_eq!(headers["ratelimit"], r#""a";r=3;t=2"#);
}

#[test]
fn clients_choose_among_bodies() {
    let responder = responder(json!({
        "status": 503,
        "bodies": [
            {"media_type": "text/html; charset=utf-8", "text": "<p>{status}: wait {retry_after} s"},
            {"media_type": "text/plain", "text": "Too many requests"},
        ],
    }))
    .unwrap();
    let body = |accept: &str, wait: Wait| {
        let response = responder
            .deny(
                &denial(wait),
                NOW,
                &Method::GET,
                &request(&[(ACCEPT, accept)]),
            )
            .unwrap();
        assert_eq!(response.status(), StatusCode::SERVICE_UNAVAILABLE);
        let content_type = response.headers()[CONTENT_TYPE]
            .to_str()
            .unwrap()
            .to_owned();
        (content_type, response.into_body())
    };
    let html = (
        "text/html; charset=utf-8".to_owned(),
        "<p>503: wait 20 s".to_owned(),
    );
    assert_eq!(body("text/html", wait()), html);
    assert_eq!(body("text/plain", wait()).1, "Too many requests");
    assert!(body("*/*", wait()).1.contains("\"status\":503"));
    // Without a retry time, the text that names it does not fit.
    assert_eq!(body("text/html", Wait::Never).0, MEDIA_TYPE);
    assert_eq!(body("text/plain", Wait::Never).1, "Too many requests");
}

#[test]
fn the_problem_document_may_be_replaced() {
    let responder = responder(json!({
        "bodies": [{"media_type": "application/problem+json", "text": "{\"error\": {status}}"}],
    }))
    .unwrap();
    let response = responder
        .deny(&denial(wait()), NOW, &Method::GET, &HeaderMap::new())
        .unwrap();
    assert_eq!(response.body(), "{\"error\": 429}");
}

#[test]
fn other_origins_read_what_they_may() {
    let responder = responder(json!({"cors": {"allow_origins": ["https://app.example"]}})).unwrap();
    let deny = |origin: &str| {
        let request = request(&[(ORIGIN, origin)]);
        let response = responder
            .deny(&denial(wait()), NOW, &Method::GET, &request)
            .unwrap();
        assert_eq!(response.headers()[VARY], "origin");
        response.headers().clone()
    };
    let headers = deny("https://app.example");
    assert_eq!(headers[ACCESS_CONTROL_ALLOW_ORIGIN], "https://app.example");
    assert_eq!(
        headers[ACCESS_CONTROL_EXPOSE_HEADERS],
        "retry-after, x-tollgate-delay-ms, ratelimit, ratelimit-policy"
    );
    let headers = deny("https://evil.example");
    assert!(!headers.contains_key(ACCESS_CONTROL_ALLOW_ORIGIN));
    assert!(!headers.contains_key(ACCESS_CONTROL_EXPOSE_HEADERS));

    let allowed = allowed_answer(vec![limited("a", minute(9), grant(3, 1_500))]);
    let mut upstream = request(&[
        (ACCESS_CONTROL_ALLOW_ORIGIN, "*"),
        (ACCESS_CONTROL_EXPOSE_HEADERS, "etag"),
    ]);
    responder.decorate(&allowed, NOW, &mut upstream);
    assert_eq!(
        upstream
            .get_all(ACCESS_CONTROL_EXPOSE_HEADERS)
            .iter()
            .count(),
        2
    );
    let mut same_origin = HeaderMap::new();
    responder.decorate(&allowed, NOW, &mut same_origin);
    assert!(!same_origin.contains_key(ACCESS_CONTROL_EXPOSE_HEADERS));
}

#[test]
fn a_rejection_is_a_problem_document() {
    let rejection = Rejection {
        key: "api_key".to_owned(),
        flaw: crate::rejection::Flaw::Missing,
    };
    let response = Responder::default().reject(&rejection, &Method::GET, &HeaderMap::new());
    assert_eq!(response.status(), StatusCode::FORBIDDEN);
    assert!(response.body().contains("api_key"));
    assert!(!response.headers().contains_key(RETRY_AFTER));
}

#[test]
fn errors_say_what_to_write() {
    let table = [
        (
            json!({"status": 200}),
            "status: 200 is not an error status; write 429",
        ),
        (json!({"status": 999}), "status: 999 is not an error status"),
        (
            json!({"headers": ["x_ratelimit_epoch", "x_ratelimit_seconds"]}),
            "headers[1]: another dialect has the header x-ratelimit-limit too",
        ),
        (json!({"headers": ["github"]}), "unknown variant `github`"),
        (
            json!({"bodies": [{"media_type": "html", "text": ""}]}),
            "bodies[0].media_type: \"html\"",
        ),
        (
            json!({"bodies": [{"media_type": "text/*", "text": ""}]}),
            "\"text/*\" is not a valid media type",
        ),
        (
            json!({"bodies": [{"media_type": "a/b", "text": "x".repeat(BODY_BYTES_MAX + 1)}]}),
            "bodies[0].text: 65537 bytes; 65536 is the most",
        ),
        (
            json!({"cors": {"allow_origins": ["app.example"]}}),
            "cors.allow_origins[0]:",
        ),
        (
            json!({"cors": {"allow_origins": ["https://a/"]}}),
            "without a path",
        ),
        (
            json!({"cors": {"allow_origins": ["*"], "allow_credentials": true}}),
            "cors.allow_credentials: browsers allow no credentials",
        ),
        (json!({"body": []}), "unknown field `body`"),
    ];
    for (settings, expected) in table {
        let error = responder(settings).unwrap_err();
        assert!(error.contains(expected), "{error}");
    }
}

#[test]
fn an_origin_is_written_as_browsers_send_it() {
    let allow = |origin| responder(json!({"cors": {"allow_origins": [origin]}}));
    for origin in [
        "https://app.example",
        "https://app.example:8443",
        "http://app.example:8080",
        "http://localhost:443",
        "http://[::1]:3000",
        "https://xn--bcher-kva.example",
        "chrome-extension://abcdef",
        "safari-web-extension://0DA0A8E2-5BF5-4C2B-9C4C-8B6B4A9C6A5B",
    ] {
        allow(origin).unwrap();
    }
    for origin in [
        "https://App.example",
        "HTTPS://app.example",
        "https://app.example:443",
        "http://app.example:80",
        "https://app.example:",
        "https://:8080",
        "https://app.example?",
        "https://app.example#top",
        "https://user@app.example",
        "https://*.example",
        "https://b\u{fc}cher.example",
        "https://",
        " https://app.example",
        "null",
    ] {
        let error = allow(origin).unwrap_err();
        assert!(
            error.contains("not an origin that a browser sends"),
            "{origin}: {error}"
        );
    }
}

#[test]
fn a_grpc_request_gets_the_status_of_grpc() {
    let request = request(&[(CONTENT_TYPE, "application/grpc")]);
    let responder = responder(json!({"status": 503})).unwrap();
    let waits = [
        (Wait::For(Span::from_nanos(1_000_000_001)), "1001"),
        (Wait::For(Span::DAY * 366), "2147483647"),
        (Wait::Never, "-1"),
    ];
    for (wait, pushback) in waits {
        let response = responder
            .deny(&denial(wait), NOW, &Method::POST, &request)
            .unwrap();
        let headers = response.headers();
        assert_eq!(
            (response.status(), response.body().as_str()),
            (StatusCode::OK, "")
        );
        assert_eq!(headers[CONTENT_TYPE], "application/grpc");
        assert_eq!(headers[GRPC_STATUS], "8");
        assert_eq!(headers[GRPC_RETRY_PUSHBACK_MS], pushback);
        assert!(headers.contains_key("ratelimit"));
    }
    let problem = Problem::new(StatusCode::INTERNAL_SERVER_ERROR, "no");
    let response = responder.fail(&problem, &Method::POST, &request);
    assert_eq!(response.headers()[GRPC_STATUS], "13");
    assert_eq!(response.headers()[GRPC_MESSAGE], "no");
}

/// A cache that keeps a 200 would serve it to every client.
#[test]
fn no_response_of_our_own_may_be_stored_and_only_a_post_is_grpc() {
    let request = request(&[(CONTENT_TYPE, "application/grpc")]);
    let responder = Responder::default();
    let rejection = Rejection {
        key: "api_key".to_owned(),
        flaw: crate::rejection::Flaw::Missing,
    };
    let responses_to = |method: &Method| {
        let problem = Problem::in_flight("per_client", 1);
        [
            responder
                .deny(&denial(wait()), NOW, method, &request)
                .unwrap(),
            responder.deny_with(problem.clone(), method, &request),
            responder.reject(&rejection, method, &request),
            responder.fail(&problem, method, &request),
        ]
    };
    for (method, statuses) in [
        (Method::GET, [429, 429, 403, 429]),
        (Method::HEAD, [429, 429, 403, 429]),
        (Method::POST, [200, 200, 200, 200]),
    ] {
        for (response, status) in responses_to(&method).iter().zip(statuses) {
            assert_eq!(response.status().as_u16(), status, "{method}");
            assert_eq!(response.headers()[CACHE_CONTROL], "no-store", "{method}");
            let is_grpc = response.headers().contains_key(GRPC_STATUS);
            assert_eq!(is_grpc, method == Method::POST);
        }
    }
}

/// HTTP/2 libraries would send it (RFC 9110, section 9.3.2).
#[test]
fn a_response_to_head_has_the_head_of_that_to_get_and_no_body() {
    let responder = Responder::default();
    let request = HeaderMap::new();
    let rejection = Rejection {
        key: "api_key".to_owned(),
        flaw: crate::rejection::Flaw::Missing,
    };
    let responses_to = |method: &Method| {
        let problem = Problem::in_flight("per_client", 1);
        let denied = responder.deny(&denial(wait()), NOW, method, &request);
        [
            denied.unwrap(),
            responder.deny_with(problem.clone(), method, &request),
            responder.reject(&rejection, method, &request),
            responder.fail(&problem, method, &request),
        ]
    };
    let heads = responses_to(&Method::HEAD);
    for (get, head) in responses_to(&Method::GET).into_iter().zip(heads) {
        let (mut get, body) = get.into_parts();
        let (head, none) = head.into_parts();
        assert_eq!((head.status, none.as_str()), (get.status, ""));
        get.headers.insert(CONTENT_LENGTH, body.len().into());
        assert_eq!(head.headers, get.headers);
    }
}

#[test]
fn a_denial_without_an_answer_has_no_retry_time() {
    let settings = json!({"status": 503, "bodies": [
        {"media_type": "text/plain", "text": "in {retry_after} s"},
        {"media_type": "text/html", "text": "<p>{status}"},
    ]});
    let responder = responder(settings).unwrap();
    let deny = |accept: &str| {
        let request = request(&[(ACCEPT, accept)]);
        responder.deny_with(Problem::in_flight("per_client", 1), &Method::GET, &request)
    };
    let response = deny("*/*");
    assert_eq!(response.status(), StatusCode::SERVICE_UNAVAILABLE);
    assert_eq!(response.headers().get(RETRY_AFTER), None);
    assert_eq!(response.headers().get("ratelimit"), None);
    let body: Value = serde_json::from_str(response.body()).unwrap();
    assert_eq!(body["status"], 503);
    assert_eq!(body["violated-policies"], json!(["per_client"]));
    let detail = "concurrency limit \"per_client\" is reached: 1 request is in flight; send the \
                  same request again when one has ended";
    assert_eq!(body["detail"], detail);
    assert_eq!(deny("text/html").body(), "<p>503");
    // That text needs a retry time.
    assert_eq!(deny("text/plain").headers()[CONTENT_TYPE], MEDIA_TYPE);
    let grpc = request(&[(CONTENT_TYPE, "application/grpc")]);
    let response = responder.deny_with(Problem::in_flight("per_client", 2), &Method::POST, &grpc);
    assert_eq!(response.headers()[GRPC_STATUS], "8");
    assert_eq!(response.headers().get(GRPC_RETRY_PUSHBACK_MS), None);
}

#[test]
fn a_word_in_braces_that_is_no_placeholder_is_an_error() {
    for (text, instead) in [
        ("{retry_after_seconds}", Some("write `{retry_after}` or")),
        ("in {retry-after} s", Some("write `{retry_after}` or")),
        ("{\"in\": {retryAfter}}", Some("write `{retry_after}` or")),
        ("{{retry_after}}", Some("write `{retry_after}`")),
        ("{{ retry_after }}", None),
        ("{\"in\": {retry_after}, \"status\":{status}}", None),
        ("{\"a\":{}, \"b\": {\"c\": [1]}}", None),
        ("<style>p{color:red}</style>{status}", None),
        ("<script>if(a){ b }else{c()}</script>", None),
        ("{0} { {", None),
    ] {
        let found = responder(json!({"bodies": [{"media_type": "a/b", "text": text}]}));
        match instead {
            None => assert!(found.is_ok(), "{text}: {found:?}"),
            Some(instead) => {
                let error = found.unwrap_err();
                let (problem, found) = error.split_once("; ").unwrap();
                assert!(problem.starts_with("bodies[0].text: "), "{error}");
                assert!(found.starts_with(instead), "{error}");
            }
        }
    }
}
