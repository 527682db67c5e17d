#![allow(clippy::unwrap_used)]

use std::sync::Arc;

use prost::Message;
use serde_json::{Value, json};
use tollgate_core::{
    Decision, Denial, DenialReason, Enforcement, Grant, RequestDenial, RuleName, Wait,
};

use super::*;

fn rule(name: Option<&str>) -> Arc<RuleName> {
    Arc::new(RuleName {
        domain: "d".to_owned(),
        path: "k_v".to_owned(),
        name: name.map(str::to_owned),
    })
}

fn limited(limit: Limit, decision: Decision, enforcement: Enforcement) -> Status {
    Status::Limited(Limited {
        rule: rule(Some("n")),
        limit,
        decision,
        enforcement,
    })
}

fn denied(wait: Span) -> Decision {
    Decision::Deny(Denial::new(Wait::For(wait), 2, Span::from_nanos(1)))
}

fn to_json(answer: &Answer) -> Value {
    serde_json::from_slice(&json(answer, None)).unwrap()
}

#[test]
fn every_status_is_in_the_response() {
    let grant = Grant::new(7, Span::from_millis(800));
    let minute = Limit::fixed_window(9, Span::MINUTE).unwrap();
    let odd = Limit::token_bucket(10, Span::MINUTE.times(15)).unwrap();
    let answer = Answer {
        statuses: vec![
            Status::NoLimit,
            Status::Unlimited { rule: rule(None) },
            limited(minute, Decision::Allow(grant), Enforcement::Enforce),
            limited(odd, denied(Span::SECOND), Enforcement::Enforce),
            limited(minute, denied(Span::SECOND), Enforcement::Shadow),
        ]
        .into(),
        denial: Some(RequestDenial {
            by: 3,
            wait: Wait::For(Span::SECOND),
            reason: DenialReason::Exceeded,
        }),
        delay: Span::ZERO,
    };
    let expected = json!({
        "overallCode": "OVER_LIMIT",
        "statuses": [
            {"code": "OK"},
            {"code": "OK", "limitRemaining": 4_294_967_295_u32},
            {"code": "OK", "limitRemaining": 7, "durationUntilReset": "1s",
             "currentLimit": {"requestsPerUnit": 9, "unit": "MINUTE", "name": "n"}},
            {"code": "OVER_LIMIT", "limitRemaining": 2, "durationUntilReset": "1s",
             "currentLimit": {"requestsPerUnit": 10, "name": "n"}},
            {"code": "OK", "limitRemaining": 0, "durationUntilReset": "1s",
             "currentLimit": {"requestsPerUnit": 9, "unit": "MINUTE", "name": "n"}},
        ]
    });
    assert_eq!(to_json(&answer), expected);
}

#[test]
fn a_ban_is_not_taken_for_no_limit() {
    let ban = Limit::fixed_window(0, Span::DAY.times(7)).unwrap();
    let deny = Decision::Deny(Denial::new(Wait::Never, 0, Span::ZERO));
    let answer = Answer {
        statuses: vec![limited(ban, deny, Enforcement::Enforce)].into(),
        denial: Some(RequestDenial {
            by: 0,
            wait: Wait::Never,
            reason: DenialReason::Exceeded,
        }),
        delay: Span::ZERO,
    };
    let expected = json!({
        "overallCode": "OVER_LIMIT",
        "statuses": [
            {"code": "OVER_LIMIT", "limitRemaining": 0, "durationUntilReset": "0s",
             "currentLimit": {"requestsPerUnit": 0, "unit": "WEEK", "name": "n"}},
        ]
    });
    assert_eq!(to_json(&answer), expected);
}

#[test]
fn a_response_comes_back_from_both_its_forms() {
    let reset = Span::from_nanos(u64::MAX);
    let grant = Grant::new(0, reset);
    let year = Limit::fixed_window(u32::MAX, Span::DAY.times(365)).unwrap();
    let answer = Answer {
        statuses: vec![limited(year, Decision::Allow(grant), Enforcement::Quota)].into(),
        denial: None,
        delay: Span::ZERO,
    };
    let message = response(&answer);
    let decoded = RateLimitResponse::decode(message.encode_to_vec().as_slice()).unwrap();
    assert_eq!(decoded, message);
    let from_json = serde_json::from_value::<RateLimitResponse>(to_json(&answer)).unwrap();
    assert_eq!(from_json, message);
}

#[test]
fn envoy_gets_whole_seconds_that_are_never_too_few() {
    for (nanos, seconds) in [
        (0, 0),
        (1, 1),
        (999_999_999, 1),
        (1_000_000_000, 1),
        (10_280_000_000, 11),
        (u64::MAX, 18_446_744_074),
    ] {
        let seconds_only = whole(Span::from_nanos(nanos));
        assert_eq!(
            (seconds_only.seconds, seconds_only.nanos),
            (seconds, 0),
            "{nanos}"
        );
    }
}

#[test]
fn every_window_of_the_protocol_has_its_unit() {
    let units = [
        (1, Unit::Second),
        (60, Unit::Minute),
        (3_600, Unit::Hour),
        (86_400, Unit::Day),
        (604_800, Unit::Week),
        (2_592_000, Unit::Month),
        (31_536_000, Unit::Year),
        (2, Unit::Unknown),
    ];
    for (seconds, expected) in units {
        let limit = Limit::sliding_log(1, Span::from_secs(seconds)).unwrap();
        assert_eq!(unit(&limit), expected, "{seconds}");
    }
}

#[test]
fn spans_are_written_as_the_messages_write_them() {
    for nanos in [
        0,
        1,
        999,
        1_000,
        999_000,
        1_000_000,
        800_000_000,
        1_000_000_000,
        60_000_000_000,
        60_000_000_001,
        u64::MAX,
    ] {
        let span = Span::from_nanos(nanos);
        let seconds = i64::try_from(nanos / NANOS_PER_SECOND).unwrap();
        let nanos = i32::try_from(nanos % NANOS_PER_SECOND).unwrap();
        let message = serde_json::to_value(Duration { seconds, nanos }).unwrap();
        assert_eq!(Value::from(duration(span)), message, "{nanos}");
        let mut written = Vec::new();
        DurationText(span).write(&mut written);
        assert_eq!(written, duration(span).into_bytes(), "{nanos}");
    }
    assert_eq!(duration(Span::from_millis(800)), "0.800s");
}
