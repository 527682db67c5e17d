use std::sync::Arc;

use tollgate_behaviour::Random;
use tollgate_core::{Denial, DenialReason, Enforcement, Grant, Limit, RequestDenial};
use tollgate_rls::decisions::LimitStatus;

use super::*;

fn span(random: &mut Random) -> Span {
    let most = 1 << random.between(0, 62);
    Span::from_nanos(random.between(0, 2) * random.between(0, most))
}

fn wait(random: &mut Random) -> Wait {
    match random.chance(20) {
        true => Wait::Never,
        false => Wait::For(span(random)),
    }
}

fn rule(random: &mut Random) -> Arc<RuleName> {
    // Long enough for lengths of one, two and three bytes.
    let length = random.pick(&[0, 1, 40, 127, 128, 300, 20_000]);
    Arc::new(RuleName {
        domain: "d".to_owned(),
        path: "p".repeat(length),
        name: random.chance(50).then(|| "n".repeat(length / 2)),
    })
}

fn status_of(random: &mut Random) -> Status {
    let decision = match random.chance(50) {
        true => {
            let mut grant = Grant::new(7, span(random));
            (grant.delay, grant.over_soft) = (span(random), random.chance(30));
            Decision::Allow(grant)
        }
        false => Decision::Deny(Denial::new(wait(random), 3, span(random))),
    };
    match random.between(0, 4) {
        0 => Status::NoLimit,
        1 => Status::Unlimited { rule: rule(random) },
        _ => Status::Limited(Limited {
            rule: rule(random),
            limit: random
                .pick(&["1/second", "100/minute", "4000000000/day"])
                .parse::<Limit>()
                .expect("a limit"),
            decision,
            enforcement: random.pick(&[
                Enforcement::Enforce,
                Enforcement::Shadow,
                Enforcement::Quota,
            ]),
        }),
    }
}

fn answer(random: &mut Random) -> Answer {
    let count = random.between(0, 4);
    let statuses: Vec<Status> = (0..count).map(|_| status_of(random)).collect();
    let denial = (count > 0 && random.chance(50)).then(|| RequestDenial {
        by: usize::try_from(random.between(0, count - 1)).expect("small"),
        wait: wait(random),
        reason: random.pick(&[DenialReason::Exceeded, DenialReason::StoreUnavailable]),
    });
    Answer {
        statuses: statuses.into(),
        denial,
        delay: span(random),
    }
}

/// The message of an answer, member by member.
fn message(id: u64, answer: &Answer, request_id: Option<&str>) -> CheckResponse {
    let for_how_long = |wait: Wait| match wait {
        Wait::For(span) => Some(millis(span)),
        Wait::Never => None,
    };
    let statuses = answer.statuses.iter().map(|status| {
        let outcome = DescriptorOutcome::of(status, answer);
        let reported = LimitStatus {
            outcome: outcome_of(outcome).into(),
            over_soft: outcome == DescriptorOutcome::OverSoft,
            ..LimitStatus::default()
        };
        let (rule, name) = match status {
            Status::NoLimit => return reported,
            Status::Unlimited { rule } | Status::Limited(Limited { rule, .. }) => {
                (rule.path.clone(), rule.name.clone().unwrap_or_default())
            }
        };
        let reported = LimitStatus {
            rule,
            name,
            ..reported
        };
        let Status::Limited(limited) = status else {
            return reported;
        };
        LimitStatus {
            limit: limited.limit.count(),
            window_ms: millis(limited.limit.window()),
            remaining: limited.remaining(),
            reset_ms: millis(limited.decision.reset()),
            retry_after_ms: match limited.decision {
                Decision::Deny(denial) => for_how_long(denial.wait),
                Decision::Allow(_) => None,
            },
            ..reported
        }
    });
    CheckResponse {
        id,
        allowed: answer.is_allowed(),
        retry_after_ms: answer.denial.and_then(|denial| for_how_long(denial.wait)),
        delay_ms: match answer.is_allowed() {
            true => millis(answer.delay),
            false => 0,
        },
        denied_by: answer
            .denied_by()
            .map_or_else(String::new, |limited| limited.rule.shown().to_owned()),
        request_id: request_id.unwrap_or_default().to_owned(),
        statuses: statuses.collect(),
        store_unavailable: answer.is_store_unavailable(),
        error: None,
    }
}

#[test]
fn an_answer_is_written_as_the_library_writes_its_message() {
    tollgate_behaviour::check("answers", 5_000, |random| {
        let id = random.between(0, 2) * random.between(0, u64::MAX / 2);
        let answer = answer(random);
        let request_id = random.chance(50).then_some("0123456789abcdef");
        let mut out = b"before".to_vec();
        write_response(id, &answer, request_id, &mut out);
        let expected = message(id, &answer, request_id).encode_to_vec();
        assert_eq!(out.split_off("before".len()), expected);
    });
}

#[test]
fn a_request_that_was_not_decided_has_an_error() {
    let mut out = Vec::new();
    write_error(7, Code::Unavailable, "no store".to_owned(), &mut out);
    let response = CheckResponse::decode(&out[..]).expect("a message");
    let error = Error {
        code: 14,
        message: "no store".to_owned(),
    };
    assert_eq!((response.id, response.error), (7, Some(error)));
}
