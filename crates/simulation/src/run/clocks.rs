//! Which clocks decide which counters, and when they are set.

use super::Runner;
use crate::account::{Jump, MILLI};
use crate::slots::slot_of;

/// The longest move of a slot, in nanoseconds.
const MOVE_MAX: u64 = 1_500 * MILLI;

impl Runner {
    /// Sets the clock of a shard's primary.
    pub(super) fn set_clock(&mut self, shard: usize, micros: i64) {
        let primary = self.world.redis().shards[shard].primary;
        self.world.redis().servers[primary].clock.jump(micros);
        self.clocks_set += (micros * 1_000).unsigned_abs();
        self.clock_changed(shard, micros * 1_000);
    }

    /// Sets the wall clock of an instance, if it is up.
    pub(super) fn set_wall(&self, place: usize, nanos: i64) {
        if let Some(Some(instance)) = self.instances.get(place) {
            instance.set_wall(nanos);
            let jump = Jump::at(self.world.now(), nanos);
            self.world.account().wall_set(instance.number, jump);
        }
    }

    /// Records that a shard decides by another time from now on.
    pub(super) fn clock_changed(&self, shard: usize, nanos: i64) {
        let now = self.world.now();
        for (counter, name) in self.names.iter().enumerate() {
            let shards = self.world.redis().shards_of(slot_of(name.as_bytes()));
            let mut account = self.world.account();
            match shards {
                (of, None) if of == shard => account.clock_set(counter, Jump::at(now, nanos)),
                // It applies to the counter, or to the difference between both clocks when it
                // comes to the other.
                (of, Some(to)) if of == shard || to == shard => {
                    for nanos in [nanos, -nanos] {
                        let (from, to) = (now, now + MOVE_MAX);
                        account.clock_set(counter, Jump { from, to, nanos });
                    }
                }
                _ => continue,
            }
            if self.promoted.contains(&shard) {
                account.former_clock_differs(counter);
            }
        }
    }

    /// Records that a slot begins to move, to a shard that may have another time.
    pub(super) fn clock_moves(&self, slot: u16, to: usize, lasts: u64) {
        let now = self.world.now();
        let redis = self.world.redis();
        let (from, moving) = redis.shards_of(slot);
        let nanos = redis.ahead(to) - redis.ahead(from);
        drop(redis);
        if moving.is_some() || nanos == 0 {
            return;
        }
        let is_moved = |name: &&String| slot_of(name.as_bytes()) == slot;
        for (counter, _) in self
            .names
            .iter()
            .enumerate()
            .filter(|(_, name)| is_moved(name))
        {
            let (from, to) = (now, now + lasts * MILLI);
            let mut account = self.world.account();
            account.clock_set(counter, Jump { from, to, nanos });
        }
    }
}
