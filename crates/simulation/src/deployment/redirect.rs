//! Slots of a Cluster: which server has them, and how they move.

use std::sync::Arc;

use super::{Deployment, Topology, address, lies_in};
use crate::locality::Locality;
use crate::resp::Reply;
use crate::slots::{SLOTS, slot_of};

impl Deployment {
    /// The redirection or error of a server of a Cluster for a command on these keys, if there is
    /// one.
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

    /// Which keys a script may access on this server; all, if there is no Cluster.
    pub(super) fn locality(&self, server: usize, is_asking: bool) -> Option<Locality> {
        (self.topology == Topology::Cluster).then(|| Locality {
            slots: Arc::clone(&self.slots),
            moving: self.moving.clone(),
            shard: self.shards.iter().position(|shard| shard.primary == server),
            is_asking,
        })
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

    /// How many nanoseconds the clock of a shard's primary is ahead.
    pub(crate) fn ahead(&self, shard: usize) -> i64 {
        self.servers[self.shards[shard].primary].clock.ahead()
    }

    /// The shard that has a slot, and the one that it is being moved to.
    pub(crate) fn shards_of(&self, slot: u16) -> (usize, Option<usize>) {
        let to = self.moving.get(&slot).copied();
        (self.slots[usize::from(slot)], to)
    }

    /// Begins to move a slot to another shard.
    pub(crate) fn begin_move(&mut self, slot: u16, to: usize) {
        if self.slots[usize::from(slot)] != to {
            self.moving.entry(slot).or_insert(to);
        }
    }

    /// Moves one key of a slot that is being moved; false if there is none left.
    ///
    /// As `MIGRATE` does, it leaves out keys that have expired. The new shard may already have a
    /// later state of such a key: a key that is missing in the old shard is redirected to the
    /// new one.
    pub(crate) fn move_key(&mut self, slot: u16) -> bool {
        let Some(to) = self.moving.get(&slot).copied() else {
            return false;
        };
        let from = self.slots[usize::from(slot)];
        let (source, target) = (self.shards[from].primary, self.shards[to].primary);
        let micros = self.micros();
        let millis = self.servers[source].clock.tell(micros) / 1_000;
        let keyspace = &self.servers[source].keyspace;
        let Some(key) = keyspace.first_live(millis, lies_in(slot)) else {
            return false;
        };
        let moved = self.servers[source].keyspace.split_off(|one| one == key);
        self.servers[target].keyspace.append(moved);
        self.replicate(from);
        self.replicate(to);
        true
    }

    /// Completes the move of a slot, and all servers know it.
    pub(crate) fn finish_move(&mut self, slot: u16) {
        while self.move_key(slot) {}
        if let Some(to) = self.moving.remove(&slot) {
            Arc::make_mut(&mut self.slots)[usize::from(slot)] = to;
            self.has_moved = true;
        }
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;
    use crate::deployment::Session;
    use crate::random::Random;

    /// Its slot is served by the last of the three shards.
    const KEY: &str = "123456789";

    fn execute(deployment: &mut Deployment, server: usize, text: &str) -> Reply {
        let mut session = Session { is_asking: true };
        let words: Vec<Bytes> = text
            .split(' ')
            .map(|word| Bytes::copy_from_slice(word.as_bytes()))
            .collect();
        deployment.execute(server, &mut session, &words)
    }

    #[tokio::test(start_paused = true)]
    async fn an_expired_key_does_not_move() {
        let mut deployment = Deployment::new(Topology::Cluster, 1_000_000, Random::new(1));
        let slot = slot_of(KEY.as_bytes());
        let set = |value: &str, at: u64| format!("SET {KEY} {value} PXAT {at}");
        assert_eq!(execute(&mut deployment, 2, &set("old", 1_500)), Reply::ok());
        deployment.begin_move(slot, 0);
        tokio::time::advance(tokio::time::Duration::from_secs(1)).await;
        assert_eq!(execute(&mut deployment, 0, &set("new", 9_000)), Reply::ok());
        assert!(!deployment.move_key(slot));
        deployment.finish_move(slot);
        let get = format!("GET {KEY}");
        assert_eq!(execute(&mut deployment, 0, &get), Reply::bulk("new"));
    }
}
