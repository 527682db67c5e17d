//! What tests of the account say was decided.

use std::sync::Arc;

use tollgate_core::{
    Answer, Decision, Enforcement, Limit, Limited, RequestDenial, RuleName, Span, Status,
};

/// The answer to a request of one descriptor, whose only rule enforces this limit.
pub(super) fn single_answer(limit: Limit, decision: Decision) -> Answer {
    let limited = Limited {
        rule: Arc::new(RuleName {
            domain: String::new(),
            path: String::new(),
            name: None,
        }),
        limit,
        decision,
        enforcement: Enforcement::Enforce,
    };
    Answer {
        denial: decision.wait().map(|wait| RequestDenial {
            by: 0,
            wait,
            reason: Default::default(),
        }),
        statuses: std::iter::once(Status::Limited(limited)).collect(),
        delay: Span::ZERO,
    }
}
