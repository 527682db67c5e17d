//! Refunds and releases for requests that are not allowed.

use std::sync::Arc;

use tokio::time::Instant;

use super::super::form::{Form, ask};
use super::super::plan::Counts;
use super::Round;
use crate::join::join_all;

impl Round<'_, '_> {
    /// Refunds these counts, line by line; returns whether all of it succeeded.
    pub(super) async fn take_back(&self, back: &Counts) -> bool {
        let parts = (0..self.plan.parts.len()).filter(|part| self.plan.charges(*part, back).0);
        let refund = |part| async move {
            let request = |_| self.plan.refund(part, back);
            self.ask(part, request, Instant::now()).await
        };
        let reply = join_all(parts.map(refund).collect()).await;
        reply.iter().all(Result::is_ok)
    }

    /// Releases what these parts may have reserved, in the background, while the next round runs.
    pub(super) fn release_later(&self, parts: Vec<usize>, counts: &Counts) {
        for part in parts {
            let requests = [Form::Short, Form::General]
                .map(|form| self.plan.settle(self.step(), part, counts, form));
            let router = Arc::clone(&self.rounds.router);
            tokio::spawn(async move {
                let request = |form| match form {
                    Form::Short => requests[0].clone(),
                    Form::General => requests[1].clone(),
                };
                let _expires = ask(&router, request, Instant::now()).await;
            });
        }
    }
}
