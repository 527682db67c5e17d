//! Refunds and releases for requests that are not allowed.

use std::sync::Arc;

use tokio::time::Instant;

use super::super::form::{Form, ask};
use super::super::plan::{Counts, Ledger};
use super::{Confirmation, Round};
use crate::join::join_all;
use crate::script_reply::Status;

impl Round<'_, '_> {
    /// For each part, Redis's time when it was charged; `None` if it was not, or that is unknown.
    pub(super) fn charge_times(
        &self,
        confirmed: &[Confirmation],
        ledger: &Ledger,
    ) -> Vec<Option<u64>> {
        let parts = confirmed.iter().enumerate();
        let times = parts.map(|(part, confirmation)| match confirmation {
            Some(Ok(reply)) => (reply.status == Status::Allowed).then_some(reply.now),
            Some(Err(_)) => None,
            None if self.at_once[part] => ledger.reply_time(self.plan, part),
            None => None,
        });
        times.collect()
    }

    /// Refunds these counts, line by line, where they were charged at these times; returns whether
    /// all parts have replied. Units that no longer count, or that may not, stay charged: refunding
    /// them would refund those of other requests.
    pub(super) async fn take_back(&self, back: &Counts, charged_at: &[Option<u64>]) -> bool {
        let parts = charged_at.iter().enumerate();
        let parts = parts.filter_map(|(part, at)| Some((part, (*at)?)));
        let parts = parts.filter(|(part, _)| self.plan.charges(*part, back).0);
        let undo = |(part, at)| async move {
            let request = |_| self.plan.undo(part, at, back);
            self.ask(part, request, Instant::now()).await
        };
        let reply = join_all(parts.map(undo).collect()).await;
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
