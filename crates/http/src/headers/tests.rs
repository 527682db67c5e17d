#![allow(clippy::unwrap_used)]

use std::sync::Arc;

use tollgate_core::{
    Decision, Denial, DenialReason, Enforcement, Grant, Limit, Limited, RequestDenial, RuleName,
    Span, Status, Wait,
};

use super::*;

pub(crate) fn limited(name: &str, limit: Limit, decision: Decision) -> Status {
    let rule = RuleName {
        domain: "d".to_owned(),
        path: "path".to_owned(),
        name: Some(name.to_owned()),
    };
    Status::Limited(Limited {
        rule: Arc::new(rule),
        limit,
        decision,
        enforcement: Enforcement::Enforce,
    })
}

pub(crate) fn grant(remaining: u32, reset_ms: u64) -> Decision {
    Decision::Allow(Grant::new(remaining, Span::from_millis(reset_ms)))
}

pub(crate) fn denied(wait: Wait, reset_ms: u64) -> Decision {
    Decision::Deny(Denial::new(wait, 0, Span::from_millis(reset_ms)))
}

pub(crate) fn allowed_answer(statuses: Vec<Status>) -> Answer {
    Answer {
        statuses: statuses.into(),
        denial: None,
        delay: Span::ZERO,
    }
}

pub(crate) fn denied_answer(statuses: Vec<Status>, by: usize, wait: Wait) -> Answer {
    Answer {
        denial: Some(RequestDenial {
            by,
            wait,
            reason: DenialReason::Exceeded,
        }),
        ..allowed_answer(statuses)
    }
}

fn headers_of(answer: &Answer) -> HeaderMap {
    let mut map = HeaderMap::new();
    headers(answer, &mut map);
    map
}

pub(crate) fn minute(count: u32) -> Limit {
    Limit::fixed_window(count, Span::MINUTE).unwrap()
}

#[test]
fn a_grant_names_every_limit() {
    let burst = Limit::token_bucket(5, Span::SECOND).unwrap();
    let map = headers_of(&allowed_answer(vec![
        limited("minutely", minute(10), grant(9, 59_001)),
        Status::NoLimit,
        limited("burst", burst.with_burst(20).unwrap(), grant(19, 200)),
    ]));
    assert_eq!(map[RATE_LIMIT], r#""minutely";r=9;t=60, "burst";r=19;t=1"#);
    assert_eq!(
        map[RATE_LIMIT_POLICY],
        r#""minutely";q=10;w=60, "burst";q=5;w=1;tollgate-burst=20"#
    );
    assert_eq!(map.len(), 2);
}

#[test]
fn a_denial_comes_first_and_says_when_to_ask_again() {
    let wait = Wait::For(Span::from_millis(19_001));
    let statuses = vec![
        limited("a", minute(10), grant(9, 1)),
        limited("b", minute(3), denied(wait, 50_000)),
    ];
    let map = headers_of(&denied_answer(statuses, 1, wait));
    assert_eq!(map[RATE_LIMIT], r#""b";r=0;t=20, "a";r=9;t=1"#);
    assert_eq!(map[header::RETRY_AFTER], "20");
}

/// One rule that counts two keys: the first denies, and less remains of the other.
pub(crate) fn denied_by_the_first_key() -> Answer {
    let wait = Wait::For(Span::MINUTE);
    let denial = Denial::new(wait, 3, Span::MINUTE);
    let statuses = vec![
        limited("account", minute(10), Decision::Deny(denial)),
        limited("account", minute(10), grant(1, 40_000)),
    ];
    denied_answer(statuses, 0, wait)
}

#[test]
fn a_denial_is_described_by_the_key_that_denied() {
    let map = headers_of(&denied_by_the_first_key());
    assert_eq!(map[RATE_LIMIT], r#""account";r=3;t=60"#);
    assert_eq!(map[header::RETRY_AFTER], "60");
}

#[test]
fn retry_after_is_never_zero_and_absent_when_waiting_never_helps() {
    let after = |wait| {
        let statuses = vec![limited("a", minute(1), denied(wait, 0))];
        denied_answer(statuses, 0, wait).retry_after_secs()
    };
    assert_eq!(after(Wait::For(Span::ZERO)), Some(1));
    assert_eq!(after(Wait::For(Span::NANOSECOND)), Some(1));
    assert_eq!(after(Wait::For(Span::SECOND)), Some(1));
    assert_eq!(after(Wait::For(Span::from_millis(1_001))), Some(2));
    assert_eq!(after(Wait::Never), None);
    assert_eq!(allowed_answer(Vec::new()).retry_after_secs(), None);
    let never = denied_answer(
        vec![limited("a", minute(1), denied(Wait::Never, 7_000))],
        0,
        Wait::Never,
    );
    let map = headers_of(&never);
    assert!(!map.contains_key(header::RETRY_AFTER));
    assert_eq!(map[RATE_LIMIT], r#""a";r=0;t=7"#);
}

#[test]
fn odd_windows_round_up_to_whole_seconds() {
    for (millis, secs) in [(1, 1), (999, 1), (1_000, 1), (1_001, 2), (90_500, 91)] {
        let limit = Limit::sliding_log(2, Span::from_millis(millis)).unwrap();
        let map = headers_of(&allowed_answer(vec![limited("w", limit, grant(1, 0))]));
        assert_eq!(map[RATE_LIMIT_POLICY], format!("\"w\";q=2;w={secs}"));
    }
}

#[test]
fn names_are_strings_of_structured_fields_and_cannot_break_out() {
    let name = |text: &str| {
        let map = headers_of(&allowed_answer(vec![limited(text, minute(1), grant(1, 0))]));
        map[RATE_LIMIT].to_str().unwrap().to_owned()
    };
    assert_eq!(name(r#"a"b\c"#), r#""a\"b\\c";r=1;t=0"#);
    assert_eq!(name("é\r\nx: y"), r#""%c3%a9%0d%0ax: y";r=1;t=0"#);
    let long = "é".repeat(300);
    assert_eq!(name(&long), format!("\"{}\";r=1;t=0", "%c3%a9".repeat(64)));
}

#[test]
fn headers_and_problems_name_a_rule_alike_and_no_two_rules_share_a_name() {
    let names = |rule: &str| {
        let wait = Wait::For(Span::SECOND);
        let answer = denied_answer(vec![limited(rule, minute(1), denied(wait, 0))], 0, wait);
        let problem = crate::Problem::denial(&answer).unwrap();
        let policy = headers_of(&answer)[RATE_LIMIT_POLICY]
            .to_str()
            .unwrap()
            .to_owned();
        let (name, _) = policy.rsplit_once(";q=").unwrap();
        assert!(problem.detail.contains(rule), "{}", problem.detail);
        (name.trim_matches('"').to_owned(), problem.violated_policies)
    };
    let mut known: Vec<String> = Vec::new();
    let rules = [
        "plain",
        "50% off",
        "ü",
        "%c3%bc",
        "%25c3%25bc",
        "ü%",
        "x~y",
        "a\u{7f}b",
    ];
    for rule in rules {
        let (in_header, in_problem) = names(rule);
        assert_eq!(in_problem, std::slice::from_ref(&in_header), "{rule}");
        assert!(!known.contains(&in_header), "{rule}: {in_header} is taken");
        known.push(in_header);
    }
    assert_eq!(known[..4], ["plain", "50%25 off", "%c3%bc", "%25c3%25bc"]);
}

#[test]
fn shadow_limits_are_not_in_the_headers() {
    let mut status = limited("s", minute(1), denied(Wait::Never, 0));
    if let Status::Limited(limited) = &mut status {
        limited.enforcement = Enforcement::Shadow;
    }
    assert!(headers_of(&allowed_answer(vec![status])).is_empty());
}

#[test]
fn one_rule_is_one_policy_and_its_scarcest_key_speaks() {
    let statuses = [5, 2, 4].map(|remaining| limited("a", minute(9), grant(remaining, 1_000)));
    let map = headers_of(&allowed_answer(statuses.to_vec()));
    assert_eq!(map[RATE_LIMIT], r#""a";r=2;t=1"#);
    assert_eq!(map[RATE_LIMIT_POLICY], r#""a";q=9;w=60"#);
}

#[test]
fn the_number_of_policies_is_bounded_and_the_denial_is_among_them() {
    let wait = Wait::For(Span::SECOND);
    let mut statuses: Vec<Status> = (0..100)
        .map(|index| limited(&format!("l{index}"), minute(9), grant(1, 0)))
        .collect();
    statuses[99] = limited("last", minute(9), denied(wait, 0));
    let map = headers_of(&denied_answer(statuses, 99, wait));
    let text = map[RATE_LIMIT].to_str().unwrap();
    assert!(text.starts_with("\"last\";r=0;t=1, \"l0\""), "{text}");
    assert_eq!(text.split(", ").count(), crate::POLICIES_MAX);
}

#[test]
fn a_delay_is_in_milliseconds_rounded_up() {
    let mut answer = allowed_answer(Vec::new());
    assert!(headers_of(&answer).is_empty());
    answer.delay = Span::from_nanos(500_000_001);
    assert_eq!(headers_of(&answer)[DELAY_MS], "501");
    answer.denial = Some(RequestDenial {
        by: 0,
        reason: DenialReason::Exceeded,
        wait: Wait::Never,
    });
    assert!(headers_of(&answer).is_empty());
}
