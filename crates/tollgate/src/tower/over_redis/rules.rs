//! A rules file over Redis.

use std::sync::Arc;

use tollgate_core::{OwnedRequest, Request};

use super::hold;
use crate::redis::RuleLimiter;
use crate::tower::gate::{Decided, Outcome, time_of};
use crate::tower::ruled::{RuleLimits, problem};

impl RuleLimits for RuleLimiter {
    fn gate(self: &Arc<Self>, request: &Request<'_>) -> Outcome {
        let (limiter, asked) = (Arc::clone(self), OwnedRequest::of(request));
        Outcome::Delayed(Box::pin(async move {
            let request = asked.request();
            let decided = limiter.decide_held(&request).await;
            let (answer, places) = decided.map_err(|error| problem(&error))?;
            let at = time_of(limiter.redis().clock());
            if answer.is_allowed() && !answer.delay.is_zero() {
                let limiter = Arc::clone(&limiter);
                hold(answer.delay, async move |held| {
                    limiter.give_up(&places, held).await;
                })
                .await;
            }
            Ok(Decided::new(answer, at))
        }))
    }
}
