//! Effects of faults, as the replies of servers show them.

use super::{Deployment, address};
use crate::fault_kind::FaultKind;
use crate::resp::Reply;

impl Deployment {
    /// Counts the effect of a fault if this reply of a server shows one.
    pub(super) fn note_effect(&mut self, server: usize, reply: &Reply) {
        if let Reply::Error(text) = reply
            && let Some(kind) = self.kind_of(server, text)
        {
            self.faults.see_effect(kind);
        }
    }

    /// The kind of fault that explains an error.
    fn kind_of(&self, server: usize, text: &str) -> Option<FaultKind> {
        let mut words = text.split(' ');
        match words.next()? {
            "OOM" => Some(FaultKind::Full),
            "READONLY" => Some(FaultKind::Switch),
            "CLUSTERDOWN" => Some(FaultKind::Down),
            "ASK" | "TRYAGAIN" => Some(FaultKind::Move),
            // Otherwise, it is a failover that made another server of the shard its primary; or the
            // caller does not know yet which shard has which slots.
            "MOVED" => {
                let target = words.nth(1)?;
                let is_elsewhere = !self.is_in_shard_of(server, target);
                (is_elsewhere && self.has_moved).then_some(FaultKind::Move)
            }
            // A server that was just started has no scripts either.
            "NOSCRIPT" => {
                let has_lost = self.servers[server].has_lost_scripts;
                has_lost.then_some(FaultKind::Flush)
            }
            _ => None,
        }
    }

    /// Whether the server at an address belongs to the same shard as `server`.
    fn is_in_shard_of(&self, server: usize, target: &str) -> bool {
        self.shards.iter().any(|shard| {
            let both = [shard.primary, shard.replica];
            both.contains(&server) && both.iter().any(|one| address(*one) == target)
        })
    }
}
