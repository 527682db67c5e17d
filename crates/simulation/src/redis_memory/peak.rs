//! The most keys and bytes that a simulated Redis had at any moment.
//!
//! Between two commands, keys can only expire. So the most is found by looking at each command:
//! first the keys that have expired by then are subtracted, then those that it wrote are added.

use std::collections::{BTreeMap, HashMap};

use super::{RedisMemory, one_key};
use crate::keyspace::{Entry, Keyspace};

/// Follows the keys of a primary.
#[derive(Clone, Debug, Default)]
pub(crate) struct MemoryPeak {
    /// What each string takes, and the last millisecond in which it exists.
    strings: HashMap<Vec<u8>, (RedisMemory, Option<u64>)>,
    /// The strings that exist, without hash tables.
    live: RedisMemory,
    /// Those of them that will expire, by their last millisecond.
    expiring: BTreeMap<u64, RedisMemory>,
    peak: RedisMemory,
}

// === impl MemoryPeak ===

impl MemoryPeak {
    /// Begins with the keys of this server.
    pub(crate) fn of(keyspace: &Keyspace, millis: u64) -> MemoryPeak {
        let mut peak = MemoryPeak::default();
        peak.replace(keyspace, millis);
        peak
    }

    /// Goes on with the keys of this server: another one is the primary now.
    pub(crate) fn replace(&mut self, keyspace: &Keyspace, millis: u64) {
        let peak = self.peak;
        *self = MemoryPeak::default();
        for (name, entry) in keyspace.entries() {
            self.put(name, entry);
        }
        self.expire(millis);
        self.peak = peak.or_more(self.live.with_tables());
    }

    /// Notes the keys that a command has changed, each with its present value.
    pub(crate) fn note(&mut self, changes: &[(Vec<u8>, Option<Entry>)], millis: u64) {
        self.expire(millis);
        for (name, entry) in changes {
            self.remove(name);
            if let Some(entry) = entry {
                self.put(name, entry);
            }
        }
        // A command can write what has expired already.
        self.expire(millis);
        self.peak = self.peak.or_more(self.live.with_tables());
    }

    /// What exists now.
    pub(crate) fn now(&mut self, millis: u64) -> RedisMemory {
        self.expire(millis);
        self.live.with_tables()
    }

    /// The most at any moment so far.
    pub(crate) const fn most(&self) -> RedisMemory {
        self.peak
    }

    fn put(&mut self, name: &[u8], entry: &Entry) {
        let Some(length) = entry.text_length() else {
            return;
        };
        let (memory, expires) = (one_key(name.len(), length), entry.expires());
        self.live.add(memory);
        if let Some(expires) = expires {
            self.expiring.entry(expires).or_default().add(memory);
        }
        self.strings.insert(name.to_vec(), (memory, expires));
    }

    /// Subtracts a string, unless it has expired and was subtracted then.
    fn remove(&mut self, name: &[u8]) {
        let Some((memory, expires)) = self.strings.remove(name) else {
            return;
        };
        if let Some(expires) = expires {
            let Some(together) = self.expiring.get_mut(&expires) else {
                return;
            };
            *together = together.beyond(memory);
            if together.keys == 0 {
                self.expiring.remove(&expires);
            }
        }
        self.live = self.live.beyond(memory);
    }

    /// Subtracts what has expired. As in Redis, a key still exists in the millisecond of its
    /// expiry.
    fn expire(&mut self, millis: u64) {
        while let Some(first) = self.expiring.first_entry()
            && *first.key() < millis
        {
            self.live = self.live.beyond(first.remove());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::PLACE_BYTES;
    use super::*;

    /// Executes commands at their times, and returns the most and what is left.
    fn follow(commands: &[(u64, &str)]) -> (RedisMemory, RedisMemory) {
        let mut keyspace = Keyspace::default();
        let mut peak = MemoryPeak::of(&keyspace, 0);
        let mut end = 0;
        for (millis, command) in commands {
            let words = command.split(' ').map(|word| word.as_bytes().to_vec());
            let words: Vec<_> = words.collect();
            let name = String::from_utf8_lossy(&words[0]).into_owned();
            keyspace.execute(&name, &words[1..], millis * 1_000);
            peak.note(&keyspace.take_changes(), *millis);
            end = *millis;
        }
        // What is left is what a new look at all keys finds.
        let now = peak.now(end);
        assert_eq!(now, MemoryPeak::of(&keyspace, end).most());
        (peak.most(), now)
    }

    #[test]
    fn the_most_is_that_of_keys_at_the_same_moment() {
        let (most, now) = follow(&[
            (0, "SET a 1 PXAT 10"),
            (0, "SET b 1 PXAT 10"),
            (10, "SET c 1 PXAT 30"),
            (11, "SET d 1 PXAT 30"),
            (20, "DEL d"),
            (20, "DEL d"),
        ]);
        assert_eq!((most.keys, now.keys), (3, 1));
        assert_eq!(most.bytes, 3 * one_key(1, 1).bytes + 4 * PLACE_BYTES);
    }

    #[test]
    fn a_key_that_is_written_again_is_counted_once() {
        let (most, now) = follow(&[
            (0, "SET a 1 PXAT 10"),
            (5, "SET a 1 PXAT 40"),
            (20, "SET a 22 PXAT 40"),
            // It has expired, and comes again.
            (50, "SET a 1 PXAT 60"),
            (50, "SET b 1 PXAT 10"),
            (51, "PEXPIREAT a 90"),
            (70, "ZADD sorted 1 member"),
        ]);
        assert_eq!((most.keys, now.keys), (1, 1));
    }

    #[test]
    fn the_most_keys_and_the_most_bytes_may_be_at_different_moments() {
        let long = "x".repeat(4_000);
        let (most, _) = follow(&[
            (0, "SET a 1 PXAT 10"),
            (0, "SET b 1 PXAT 10"),
            (20, &format!("SET c {long} PXAT 30")),
        ]);
        assert_eq!(most.keys, 2);
        assert!(most.bytes > 4_000);
    }
}
