//! A rules file over Redis.

use std::sync::Arc;

use tollgate_core::{Cost, Request};

use super::hold;
use crate::redis::RuleLimiter;
use crate::tower::descriptors::Descriptors;
use crate::tower::gate::{Decided, Outcome};
use crate::tower::ruled::{RuleLimits, problem};

impl RuleLimits for RuleLimiter {
    fn gate(self: &Arc<Self>, request: &Request<'_>) -> Outcome {
        let (limiter, asked) = (Arc::clone(self), Descriptors::of(request));
        Outcome::Delayed(Box::pin(async move {
            let request = asked.request(Cost::ONE);
            let answer = limiter.decide(&request).await;
            let answer = answer.map_err(|error| problem(&error))?;
            if answer.is_allowed() && !answer.delay.is_zero() {
                let charged = Descriptors::of_charged(&request, &answer);
                let limiter = Arc::clone(&limiter);
                let refund = async move {
                    // If it fails, the units stay charged until they decay.
                    let refund = charged.request(Cost::Refund(1));
                    let _refunded = limiter.decide(&refund).await;
                };
                hold(answer.delay, refund).await;
            }
            Ok(Decided::new(answer, limiter.redis().clock()))
        }))
    }
}
