#![allow(clippy::unwrap_used)]

use std::sync::Arc;

use serde_json::{Map, Value, json as value};
use tollgate_behaviour::{Random, check};
use tollgate_core::{
    Algorithm, Decision, Denial, DenialReason, Enforcement, Grant, RequestDenial, RuleName, Span,
    Wait,
};

use super::*;

/// The same text by way of the message and its generated JSON.
fn by_message(answer: &Answer, dynamic_metadata: Option<&Struct>) -> String {
    let mut message = crate::response(answer);
    message.dynamic_metadata = dynamic_metadata.cloned();
    let mut json = serde_json::to_value(message).unwrap();
    let statuses = json.get_mut("statuses").and_then(Value::as_array_mut);
    for status in statuses.into_iter().flatten() {
        if status.get("currentLimit").is_some() {
            keep(&mut status["currentLimit"], "requestsPerUnit");
            keep(status, "limitRemaining");
        }
    }
    json.to_string()
}

/// Puts in a number that is 0, which proto3 leaves out.
fn keep(object: &mut Value, name: &str) {
    let members = object.as_object_mut().unwrap();
    members.entry(name).or_insert(Value::from(0));
}

#[test]
fn the_text_is_that_of_the_message() {
    check("the text is that of the message", 2_000, |random| {
        let answer = answer(random);
        let metadata = random.chance(20).then(|| {
            let metadata = value!({"z": null, "a": {"é\n": [1, true, "\u{7f}"]}, "m": 0.5});
            serde_json::from_value::<Struct>(metadata).unwrap()
        });
        let text = String::from_utf8(json(&answer, metadata.as_ref())).unwrap();
        assert_eq!(text, by_message(&answer, metadata.as_ref()), "{answer:?}");
        serde_json::from_str::<Map<String, Value>>(&text).unwrap();
    });
}

fn answer(random: &mut Random) -> Answer {
    let count = random.between(0, 4);
    let statuses: Vec<Status> = (0..count).map(|_| status(random)).collect();
    let denial = random.chance(40).then_some(RequestDenial {
        by: 0,
        wait: Wait::For(Span::SECOND),
        reason: DenialReason::Exceeded,
    });
    Answer {
        statuses: statuses.into(),
        denial,
        delay: Span::ZERO,
    }
}

fn status(random: &mut Random) -> Status {
    let names = [
        "",
        "n",
        "per-client",
        "quote \" and \\",
        "\u{0}\u{1f}\n\u{7f}",
        "日本 \u{2028}",
    ];
    let name = random.chance(80).then(|| random.pick(&names).to_owned());
    let rule = Arc::new(RuleName {
        domain: "d".to_owned(),
        path: "p".to_owned(),
        name,
    });
    match random.between(0, 9) {
        0 => Status::NoLimit,
        1 => Status::Unlimited { rule },
        _ => Status::Limited(Limited {
            rule,
            limit: limit(random),
            decision: decision(random),
            enforcement: random.pick(&[
                Enforcement::Enforce,
                Enforcement::Shadow,
                Enforcement::Quota,
            ]),
        }),
    }
}

fn limit(random: &mut Random) -> Limit {
    let count = number(random);
    let days = [1, 7, 30, 365].map(|days| Span::DAY.times(days));
    let short = [Span::SECOND, Span::MINUTE, Span::HOUR, Span::from_secs(7)];
    let window = random.pick(&[days, short].concat());
    Limit::new(Algorithm::SlidingLog, count, window).unwrap()
}

fn decision(random: &mut Random) -> Decision {
    let remaining = number(random);
    let unit = random.pick(&[1, 1_000, 1_000_000, 1_000_000_000]);
    let reset = Span::from_nanos(random.any_size(u64::MAX / unit)).times(unit);
    if random.chance(50) {
        return Decision::Allow(Grant::new(remaining, reset));
    }
    Decision::Deny(Denial::new(Wait::Never, remaining, reset))
}

fn number(random: &mut Random) -> u32 {
    u32::try_from(random.any_size(u64::from(u32::MAX))).unwrap()
}
