//! Charges the parts of a round that need no reservation.

use super::super::outcome::Commitment;
use super::super::plan::Ledger;
use super::super::request::Caller;
use super::Round;
use crate::join::join_all;
use crate::router::NodeFailure;
use crate::script_reply::General;

impl Round<'_, '_> {
    /// Charges the immediate parts, after all others have reserved, and returns which requests they
    /// are charged for.
    pub(super) async fn charge_at_once(
        &self,
        ledger: &mut Ledger,
        callers: &[Caller],
    ) -> Vec<Commitment> {
        let parts: Vec<usize> = self.parts(true).collect();
        if parts.is_empty() {
            return vec![Commitment::Open; callers.len()];
        }
        let commit = |index: usize| callers[index].commit();
        let commitments = ledger.commit(self.plan, &self.at_once, commit);
        let times = self.plan.count_committed(&commitments);
        let charge = |part: usize| self.charge_part(part, times[part]);
        let reply = join_all(parts.iter().copied().map(charge).collect()).await;
        let charged = parts.iter().filter(|part| times[**part] > 0);
        self.forget(charged.flat_map(|part| self.plan.keys_in(*part)));
        ledger.read(self.plan, parts.into_iter().zip(reply));
        commitments
    }

    async fn charge_part(&self, part: usize, times: u32) -> Result<General, NodeFailure> {
        let request = || self.plan.charge_at_once(part, times);
        let reply = self.rounds.router.ask(request, self.since).await;
        self.general(part, reply?)
    }
}
