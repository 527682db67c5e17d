//! Refunds and releases for requests that are not allowed.

use std::sync::Arc;

use tokio::time::Instant;

use super::super::plan::{Counts, Ledger};
use super::{Confirmation, Round};
use crate::join::join_all;
use crate::router::{Form, Waits};
use crate::script_reply::Status;
use crate::script_request::ScriptRequest;

impl Round<'_, '_> {
    /// Redis's time when a part was charged; `None` if it was not, or that is unknown.
    pub(super) fn charge_time(
        &self,
        part: usize,
        confirmation: &Confirmation,
        ledger: &Ledger,
    ) -> Option<u64> {
        match confirmation {
            Some(Ok(reply)) => (reply.status == Status::Allowed).then_some(reply.now),
            Some(Err(_)) => None,
            None if self.at_once[part] => ledger.reply_time(self.plan, part),
            None => None,
        }
    }

    /// Refunds the counts `back`, of those that were `allowed`, line by line, in the parts that
    /// were charged, at the time of each; returns whether all of these have replied, after which no
    /// denial from before is cached. Units that were not charged, that no longer count, or that may
    /// not, are left alone: refunding them would refund those of other requests.
    pub(super) async fn take_back(
        &self,
        (back, allowed): (&Counts, &Counts),
        confirmed: &[Confirmation],
        charge_time: impl Fn(usize) -> Option<u64>,
    ) -> bool {
        let requests = (0..self.plan.parts.len()).filter_map(|part| {
            let (at, reply) = (charge_time(part)?, confirmed[part].as_ref());
            let reply = reply.and_then(|reply| reply.as_ref().ok());
            let request = self.plan.undo((part, at), (back, allowed), reply)?;
            Some((part, request))
        });
        let undo = |(part, request): (usize, ScriptRequest)| async move {
            self.ask(part, |_| request.clone(), Instant::now()).await
        };
        let reply = join_all(requests.map(undo).collect()).await;
        self.forget(self.plan.keys_of(back));
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
                let _expires = router
                    .ask_in_form(request, Instant::now(), Waits::Yes)
                    .await;
            });
        }
    }
}
