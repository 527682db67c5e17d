//! The first phase of a round: reservations.

use tokio::time::sleep;

use super::super::request::Caller;
use super::{Round, pause};
use crate::join::join_all;
use crate::router::{NodeFailure, Waits};
use crate::script_reply::General;
use crate::script_request::Step;

impl Round<'_, '_> {
    /// Reserves in all slots that reserve, concurrently.
    pub(super) async fn reserve(&self, reserve: Step) -> Vec<Result<General, NodeFailure>> {
        let ask = |part| self.reserve_part(reserve, part);
        join_all(self.parts(false).map(ask).collect()).await
    }

    /// Reserves in one slot after the other, in ascending order, and retries a slot that is
    /// blocked; stops as soon as no caller waits.
    pub(super) async fn reserve_one_by_one(
        &self,
        reserve: Step,
        callers: &[Caller],
    ) -> Vec<Result<General, NodeFailure>> {
        let reply_timeout = self.rounds.router.reply_timeout();
        let mut all = Vec::with_capacity(self.plan.parts.len());
        for part in 0..self.plan.parts.len() {
            let mut pauses = 0;
            loop {
                if !callers.iter().any(Caller::is_waiting) {
                    return all;
                }
                let reply = self.reserve_part(reserve, part).await;
                let is_blocked = |reply: &General| self.plan.is_blocked(part, reply);
                if !reply.as_ref().is_ok_and(is_blocked) || self.since.elapsed() >= reply_timeout {
                    all.push(reply);
                    break;
                }
                sleep(pause(pauses)).await;
                pauses += 1;
            }
        }
        all
    }

    /// Does not wait for the keys of a slot that migrates: the next round has a part for each.
    async fn reserve_part(&self, reserve: Step, part: usize) -> Result<General, NodeFailure> {
        let router = &self.rounds.router;
        let request = |form| self.plan.reserve(reserve, part, form);
        let reply = router.ask_in_form(request, self.since, Waits::No).await?;
        self.general(part, reply)
    }
}
