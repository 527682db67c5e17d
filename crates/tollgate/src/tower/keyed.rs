//! One limit, and a key for each request.

use std::sync::Arc;

use http::request::Parts;
use tollgate_core::{
    Algorithm, Answer, Clock, Decision, DenialReason, Enforcement, Key, Limited, RequestDenial,
    RuleName, Span, Status,
};
use tollgate_http::Problem;

use super::gate::{Decided, Gate, Outcome};
use crate::limiter::Limiter;

/// Decides by one limit.
pub(super) struct Keyed<C, F> {
    limiter: Arc<Limiter<C>>,
    key_of: F,
    /// The limit's name, as answers have it.
    rule: Arc<RuleName>,
}

// === impl Keyed ===

impl<C: Clock, F> Keyed<C, F> {
    pub(super) fn new(limiter: Arc<Limiter<C>>, key_of: F) -> Keyed<C, F> {
        let rule = RuleName {
            domain: String::new(),
            path: limiter.name().to_owned(),
            name: None,
        };
        Keyed {
            limiter,
            key_of,
            rule: Arc::new(rule),
        }
    }
}

impl<C, F> Gate for Keyed<C, F>
where
    C: Clock + 'static,
    F: Fn(&Limiter<C>, &Parts) -> Result<Key, Problem> + Send + Sync + 'static,
{
    fn decide(&self, head: &Parts) -> Outcome {
        let key = match (self.key_of)(&self.limiter, head) {
            Ok(key) => key,
            Err(problem) => return Outcome::Failed(problem),
        };
        let rule = Arc::clone(&self.rule);
        if self.limiter.limit().algorithm() != Algorithm::LeakyBucket {
            let decision = self.limiter.check_key(key);
            return Outcome::Decided(to_answer(&self.limiter, rule, decision));
        }
        let limiter = Arc::clone(&self.limiter);
        Outcome::Delayed(Box::pin(async move {
            let decision = limiter.check_in_turn(key, tokio::time::sleep).await;
            to_answer(&limiter, rule, decision)
        }))
    }
}

/// The decision of one limit as an answer.
fn to_answer<C: Clock>(limiter: &Limiter<C>, rule: Arc<RuleName>, decision: Decision) -> Decided {
    let denial = decision.wait().map(|wait| RequestDenial {
        by: 0,
        wait,
        reason: DenialReason::Exceeded,
    });
    let limited = Limited {
        rule,
        limit: limiter.limit(),
        decision,
        enforcement: Enforcement::Enforce,
    };
    let answer = Answer {
        statuses: vec![Status::Limited(limited)],
        denial,
        delay: Span::ZERO,
    };
    Decided::new(answer, limiter.clock())
}
