//! Slots of a Cluster: who serves them, and how they move.

use super::{Deployment, Topology, address, lies_in};
use crate::resp::Reply;
use crate::slots::{SLOTS, slot_of};

impl Deployment {
    /// Where a command on these keys belongs, if not here and now: as a server of a Cluster says.
    pub(super) fn redirect(
        &self,
        server: usize,
        keys: &[Vec<u8>],
        is_asking: bool,
        millis: u64,
    ) -> Option<Reply> {
        if self.topology != Topology::Cluster {
            return None;
        }
        let (first, others) = keys.split_first()?;
        let slot = slot_of(first);
        if others.iter().any(|key| slot_of(key) != slot) {
            return Some(Reply::error(
                "CROSSSLOT Keys in request don't hash to the same slot",
            ));
        }
        if self.is_down {
            return Some(Reply::error("CLUSTERDOWN The cluster is down"));
        }
        let owner = self.shards[self.slots[usize::from(slot)]].primary;
        let target = self
            .moving
            .get(&slot)
            .map(|shard| self.shards[*shard].primary);
        let keyspace = &self.servers[server].keyspace;
        let missing = keys.iter().filter(|key| !keyspace.has(key, millis)).count();
        let try_again = "TRYAGAIN Multiple keys request during rehashing of slot";
        if server == owner {
            let target = target.filter(|_| missing > 0)?;
            return Some(match missing == keys.len() {
                true => Reply::error(format!("ASK {slot} {}", address(target))),
                false => Reply::error(try_again),
            });
        }
        if is_asking && target == Some(server) {
            let has_several = others.iter().any(|key| key != first);
            return (has_several && missing > 0).then(|| Reply::error(try_again));
        }
        Some(Reply::error(format!("MOVED {slot} {}", address(owner))))
    }

    /// `CLUSTER SLOTS`.
    pub(super) fn tell_slots(&self) -> Reply {
        if self.topology != Topology::Cluster {
            return Reply::error("ERR This instance has cluster support disabled");
        }
        let mut ranges = Vec::new();
        let mut from = 0;
        for slot in 0..SLOTS {
            let shard = self.slots[usize::from(slot)];
            let is_last = slot + 1 == SLOTS || self.slots[usize::from(slot + 1)] != shard;
            if !is_last {
                continue;
            }
            let host = |server: usize| {
                let address = address(server);
                let (host, _) = address.split_once(':').unwrap_or_default();
                Reply::Array(vec![
                    Reply::bulk(host),
                    Reply::Integer(6379),
                    Reply::bulk(format!("{server:040x}")),
                    Reply::Array(Vec::new()),
                ])
            };
            ranges.push(Reply::Array(vec![
                Reply::Integer(from),
                Reply::Integer(i64::from(slot)),
                host(self.shards[shard].primary),
                host(self.shards[shard].replica),
            ]));
            from = i64::from(slot) + 1;
        }
        Reply::Array(ranges)
    }

    /// A slot begins to move to another shard.
    pub(crate) fn begin_move(&mut self, slot: u16, to: usize) {
        if self.slots[usize::from(slot)] != to {
            self.moving.entry(slot).or_insert(to);
        }
    }

    /// Moves one key of a slot that is on its way; false if there is none left.
    pub(crate) fn move_key(&mut self, slot: u16) -> bool {
        let Some(to) = self.moving.get(&slot).copied() else {
            return false;
        };
        let from = self.slots[usize::from(slot)];
        let (source, target) = (self.shards[from].primary, self.shards[to].primary);
        let Some(key) = self.servers[source].keyspace.first(lies_in(slot)) else {
            return false;
        };
        let moved = self.servers[source].keyspace.split_off(|one| one == key);
        self.servers[target].keyspace.append(moved);
        self.replicate(from);
        self.replicate(to);
        true
    }

    /// The rest of a slot moves, and everybody knows.
    pub(crate) fn finish_move(&mut self, slot: u16) {
        while self.move_key(slot) {}
        if let Some(to) = self.moving.remove(&slot) {
            self.slots[usize::from(slot)] = to;
        }
    }
}
