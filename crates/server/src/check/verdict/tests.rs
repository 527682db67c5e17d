use std::sync::Arc;

use tollgate_core::{
    ChargeDenied, Cost, Descriptor, Enforcement, Entry, Grant, Limit, RequestDenial, Span,
};

use super::*;

fn request() -> Request<'static> {
    let entry = Entry {
        key: b"user",
        value: b"ann",
    };
    Request {
        domain: b"a\"b\xff",
        descriptors: vec![Descriptor {
            entries: vec![entry].into(),
            ..Descriptor::default()
        }]
        .into(),
        cost: Cost::ONE,
        charge_denied: ChargeDenied::Never,
    }
}

fn rule(name: Option<&str>) -> Arc<RuleName> {
    Arc::new(RuleName {
        domain: "d".to_owned(),
        path: "user.\u{e9}\n".to_owned(),
        name: name.map(str::to_owned),
    })
}

fn limited(limit: &str, decision: Decision, name: Option<&str>) -> Status {
    Status::Limited(Limited {
        rule: rule(name),
        limit: limit.parse::<Limit>().expect("a limit"),
        decision,
        enforcement: Enforcement::Enforce,
    })
}

fn allow(delay: Span, over_soft: bool) -> Decision {
    let mut grant = Grant::new(7, Span::from_millis(61_500));
    (grant.delay, grant.over_soft) = (delay, over_soft);
    Decision::Allow(grant)
}

fn deny(wait: Wait) -> Decision {
    Decision::Deny(Denial::new(wait, 0, Span::from_nanos(1_000_000_001)))
}

/// The text of an answer, whose members are in the order of their names.
fn text(answer: &Answer, extra: Extra<'_>) -> String {
    let mut out = b"before".to_vec();
    write_verdict(&request(), answer, extra, &mut out);
    let text = String::from_utf8(out.split_off("before".len())).expect("JSON is text");
    let value: serde_json::Value = serde_json::from_str(&text).expect("it is JSON");
    assert_eq!(value.to_string(), text, "sorted, and escaped as always");
    text
}

#[test]
fn an_allowed_answer_has_every_member_that_applies() {
    let answer = Answer {
        statuses: vec![
            Status::NoLimit,
            Status::Unlimited { rule: rule(None) },
            limited(
                "10/minute leaky_bucket queue 5",
                allow(Span::from_nanos(1_500_000), true),
                Some("q\\"),
            ),
            limited("5 per 90m", allow(Span::ZERO, false), None),
        ]
        .into(),
        denial: None,
        delay: Span::from_nanos(1_500_000),
    };
    let body = concat!(
        r#"{"allowed":true,"delay":"0.001500s","domain":"a\"b\\xff","limits":[{"outcome":"#,
        r#""no_limit"},{"outcome":"unlimited","rule":"user.é\n"},{"algorithm":"leaky_bucket","#,
        r#""delay":"0.001500s","limit":10,"name":"q\\","outcome":"allowed","overSoft":true,"#,
        r#""remaining":7,"reset":"61.500s","rule":"user.é\n","window":"1m"},{"algorithm":"#,
        r#""token_bucket","limit":5,"outcome":"allowed","remaining":7,"reset":"61.500s","rule":"#,
        r#""user.é\n","window":"1h30m"}],"matched":true,"overSoft":true"#,
    );
    assert_eq!(text(&answer, Extra::default()), format!("{body}}}"));
    let listed = Extra {
        is_in_list: true,
        ..Extra::default()
    };
    assert_eq!(text(&answer, listed), format!("{body},\"status\":200}}"));
}

#[test]
fn a_denied_answer_is_a_problem_document() {
    let denial = |wait| {
        Some(RequestDenial {
            by: 0,
            wait,
            reason: tollgate_core::DenialReason::Exceeded,
        })
    };
    let mut answer = Answer {
        statuses: vec![limited("1/second", deny(Wait::Never), Some("one"))].into(),
        denial: denial(Wait::Never),
        delay: Span::ZERO,
    };
    let limits = concat!(
        r#""domain":"a\"b\\xff","limits":[{"algorithm":"token_bucket","limit":1,"name":"one","#,
        r#""outcome":"denied","remaining":0,"reset":"1.000000001s","rule":"user.é\n","#,
    );
    let kind = concat!(
        r#""status":429,"title":"Request cannot be satisfied as assigned quota has been "#,
        r#"exceeded","type":"https://iana.org/assignments/http-problem-types#quota-exceeded","#,
        r#""violated-policies":["one"]}"#,
    );
    let expected = format!(
        r#"{{"allowed":false,"deniedBy":"one",{}{limits}"wait":"never","window":"1s"}}],{}{kind}"#,
        r#""detail":"limit \"one\" never allows that much at once; request less","#,
        r#""matched":true,"retryAfter":"never","#,
    );
    assert_eq!(text(&answer, Extra::default()), expected);
    let wait = Wait::For(Span::from_secs(3));
    answer.statuses = vec![limited("1/second", deny(wait), Some("one"))].into();
    answer.denial = denial(wait);
    let extra = Extra {
        is_in_list: true,
        request_id: Some("abc"),
        ..Extra::default()
    };
    let expected = format!(
        r#"{{"allowed":false,"deniedBy":"one",{}{limits}"wait":"3s","window":"1s"}}],{}{kind}"#,
        r#""detail":"limit \"one\" is exceeded; the same request is allowed in 3 s","#,
        r#""matched":true,"requestId":"abc","retryAfter":"3s","#,
    );
    assert_eq!(text(&answer, extra), expected);
}

#[test]
fn a_denial_without_a_limit_names_none() {
    let answer = Answer {
        statuses: vec![Status::NoLimit].into(),
        denial: Some(RequestDenial {
            by: 0,
            wait: Wait::For(Span::SECOND),
            reason: tollgate_core::DenialReason::StoreUnavailable,
        }),
        delay: Span::ZERO,
    };
    let text = text(&answer, Extra::default());
    assert!(text.starts_with(r#"{"allowed":false,"deniedBy":null,"detail":"the rate"#));
    assert!(!text.contains("violated-policies"), "{text}");
}
