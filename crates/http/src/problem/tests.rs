#![allow(clippy::unwrap_used)]

use std::sync::Arc;

use tollgate_core::{
    Decision, Denial, DenialReason, Enforcement, Limit, Limited, RequestDenial, RuleName, Span,
    Status,
};

use super::*;

fn over(path: &str, enforcement: Enforcement) -> Status {
    Status::Limited(Limited {
        rule: Arc::new(RuleName {
            domain: "d".to_owned(),
            path: path.to_owned(),
            name: None,
        }),
        limit: Limit::fixed_window(1, Span::MINUTE).unwrap(),
        decision: Decision::Deny(Denial::new(Wait::For(Span::SECOND), 0, Span::SECOND)),
        enforcement,
    })
}

fn denial(wait: Wait) -> Problem {
    denied(wait, DenialReason::Exceeded)
}

fn denied(wait: Wait, reason: DenialReason) -> Problem {
    let statuses = vec![
        over("first", Enforcement::Enforce),
        over("dark", Enforcement::Shadow),
        over("second", Enforcement::Enforce),
        over("second", Enforcement::Enforce),
    ];
    let answer = Answer {
        statuses: statuses.into(),
        denial: Some(RequestDenial {
            by: 2,
            wait,
            reason,
        }),
        delay: Span::ZERO,
    };
    Problem::denial(&answer).unwrap()
}

#[test]
fn a_denial_names_its_limits() {
    let expected = json!({
        "type": "https://iana.org/assignments/http-problem-types#quota-exceeded",
        "title": "Request cannot be satisfied as assigned quota has been exceeded",
        "status": 429,
        "detail": "limit \"second\" is exceeded; the same request is allowed in 2 s",
        "violated-policies": ["second", "first"],
    });
    let wait = Wait::For(Span::from_millis(1_500));
    assert_eq!(denial(wait).json(), expected);
}

#[test]
fn a_denial_that_never_fits_has_no_retry_time() {
    let detail = denial(Wait::Never).detail;
    assert_eq!(
        detail,
        "limit \"second\" never allows that much at once; request less"
    );
}

#[test]
fn a_limit_without_units_for_the_request_does_not_ask_for_less() {
    let reserved = Limit::fixed_window(1, Span::MINUTE).unwrap();
    let cases = [
        (
            Limit::fixed_window(0, Span::MINUTE).unwrap(),
            "limit \"banned\" is 0, so it denies everything",
        ),
        (
            reserved.with_priority_share(20).unwrap(),
            "all of limit \"banned\" is kept for requests with priority",
        ),
    ];
    for (limit, expected) in cases {
        assert_eq!(never_fits(limit), expected);
    }
}

/// The detail of a denial by this limit, which never allows the request.
fn never_fits(limit: Limit) -> String {
    let Status::Limited(limited) = over("banned", Enforcement::Enforce) else {
        unreachable!("made so");
    };
    let banned = Limited { limit, ..limited };
    let answer = Answer {
        statuses: vec![Status::Limited(banned)].into(),
        denial: Some(RequestDenial {
            by: 0,
            wait: Wait::Never,
            reason: DenialReason::Exceeded,
        }),
        delay: Span::ZERO,
    };
    Problem::denial(&answer).unwrap().detail
}

#[test]
fn another_problem_is_what_its_status_says() {
    let problem = Problem::new(StatusCode::NOT_FOUND, "no such path");
    let expected = json!({
        "type": "about:blank",
        "title": "Not Found",
        "status": 404,
        "detail": "no such path",
    });
    assert_eq!(problem.json(), expected);
}

#[test]
fn an_allowed_request_is_no_problem() {
    let answer = Answer {
        statuses: Vec::new().into(),
        denial: None,
        delay: Span::ZERO,
    };
    assert_eq!(Problem::denial(&answer), None);
}

#[test]
fn a_store_without_an_answer_is_no_exceeded_limit() {
    let wait = Wait::For(Span::SECOND);
    let expected = json!({
        "type": "https://iana.org/assignments/http-problem-types#temporary-reduced-capacity",
        "title": "Request cannot be satisfied due to temporary server capacity constraints",
        "status": 429,
        "detail": "the rate limit store is unavailable, and the limit denies requests meanwhile; \
                   try again in 1 s",
    });
    assert_eq!(
        denied(wait, DenialReason::StoreUnavailable).json(),
        expected
    );
}
