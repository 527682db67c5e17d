//! Answers of the stream.

use tollgate_core::{Answer, Decision, Limited, Span, Status, Wait};
use tollgate_engine::DescriptorOutcome;
use tollgate_rls::decisions::{CheckResponse, Error, LimitStatus, Outcome};
use tonic::Code;

/// The answer to a request that was decided. `request_id` is that of a denial that is kept.
pub(super) fn response(id: u64, answer: &Answer, request_id: Option<Box<str>>) -> CheckResponse {
    let statuses = answer.statuses.iter().map(|one| status(one, answer));
    CheckResponse {
        id,
        allowed: answer.is_allowed(),
        retry_after_ms: answer.denial.and_then(|denial| wait(denial.wait)),
        delay_ms: match answer.is_allowed() {
            true => millis(answer.delay),
            false => 0,
        },
        denied_by: answer
            .denied_by()
            .map_or_else(String::new, |limited| limited.rule.shown().to_owned()),
        request_id: request_id.map_or_else(String::new, String::from),
        statuses: statuses.collect(),
        store_unavailable: answer.is_store_unavailable(),
        error: None,
    }
}

/// The answer to a request that was not decided.
pub(super) fn error_response(id: u64, code: Code, message: String) -> CheckResponse {
    CheckResponse {
        id,
        error: Some(Error {
            code: code.into(),
            message,
        }),
        ..CheckResponse::default()
    }
}

fn status(status: &Status, answer: &Answer) -> LimitStatus {
    let outcome = DescriptorOutcome::of(status, answer);
    let reported = LimitStatus {
        outcome: outcome_of(outcome).into(),
        over_soft: outcome == DescriptorOutcome::OverSoft,
        ..LimitStatus::default()
    };
    match status {
        Status::NoLimit => reported,
        Status::Unlimited { rule } => LimitStatus {
            rule: rule.path.clone(),
            name: rule.name.clone().unwrap_or_default(),
            ..reported
        },
        Status::Limited(limited) => of_limit(limited, reported),
    }
}

/// What a limit decided, added to what is `reported` of every descriptor.
fn of_limit(limited: &Limited, reported: LimitStatus) -> LimitStatus {
    let Limited {
        rule,
        limit,
        decision,
        ..
    } = limited;
    LimitStatus {
        rule: rule.path.clone(),
        name: rule.name.clone().unwrap_or_default(),
        limit: limit.count(),
        window_ms: millis(limit.window()),
        remaining: limited.remaining(),
        reset_ms: millis(decision.reset()),
        retry_after_ms: match decision {
            Decision::Deny(denial) => wait(denial.wait),
            Decision::Allow(_) => None,
        },
        ..reported
    }
}

const fn outcome_of(outcome: DescriptorOutcome) -> Outcome {
    match outcome {
        DescriptorOutcome::Allowed | DescriptorOutcome::OverSoft | DescriptorOutcome::Uncharged => {
            Outcome::Allowed
        }
        DescriptorOutcome::Denied => Outcome::Denied,
        DescriptorOutcome::StoreUnavailable => Outcome::StoreUnavailable,
        DescriptorOutcome::QuotaOver => Outcome::QuotaOver,
        DescriptorOutcome::ShadowDenied => Outcome::ShadowDenied,
        DescriptorOutcome::Unlimited => Outcome::Unlimited,
        DescriptorOutcome::NoLimit | DescriptorOutcome::UnknownDomain => Outcome::NoLimit,
    }
}

/// Milliseconds, rounded up: a client that waits for them must not come too early.
const fn millis(span: Span) -> u64 {
    span.as_nanos().div_ceil(1_000_000)
}

const fn wait(wait: Wait) -> Option<u64> {
    match wait {
        Wait::For(span) => Some(millis(span)),
        Wait::Never => None,
    }
}
