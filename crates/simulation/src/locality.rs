//! Which keys a server of a Cluster lets a script access, declared or not.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::keyspace::Keyspace;
use crate::slots::slot_of;

/// What Redis answers to a script's command on any other key.
pub(crate) const NON_LOCAL: &str =
    "ERR Script attempted to access a non local key in a cluster node";

/// The slots that a server has during one script call.
#[derive(Clone, Debug)]
pub(crate) struct Locality {
    /// The shard of each slot.
    pub(crate) slots: Arc<Vec<usize>>,
    /// Slots that are being moved, and to which shard.
    pub(crate) moving: BTreeMap<u16, usize>,
    /// The shard of which this server is the primary; a replica serves no slot.
    pub(crate) shard: Option<usize>,
    /// Whether `ASKING` precedes the call.
    pub(crate) is_asking: bool,
}

/// The keys among the arguments of a command.
pub(crate) fn keys_of<'w>(name: &str, words: &'w [Vec<u8>]) -> &'w [Vec<u8>] {
    match name {
        "TIME" | "PING" => &[],
        "MGET" | "DEL" => words,
        _ => &words[..words.len().min(1)],
    }
}

// === impl Locality ===

impl Locality {
    /// Whether a script may access this key: its slot is here, and if it is being moved, the key
    /// still exists; or the slot is being moved to this server, and the caller was redirected here.
    pub(crate) fn has(&self, key: &[u8], keyspace: &Keyspace, millis: u64) -> bool {
        let slot = slot_of(key);
        let target = self.moving.get(&slot).copied();
        if Some(self.slots[usize::from(slot)]) == self.shard {
            return target.is_none() || keyspace.has(key, millis);
        }
        self.is_asking && target.is_some() && target == self.shard
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_accessed_where_its_slot_is() {
        let key = b"123456789";
        let mut keyspace = Keyspace::default();
        let mut locality = Locality {
            slots: Arc::new(vec![1; usize::from(crate::slots::SLOTS)]),
            moving: BTreeMap::new(),
            shard: Some(1),
            is_asking: false,
        };
        assert!(locality.has(key, &keyspace, 0));
        locality.moving.insert(slot_of(key), 2);
        assert!(!locality.has(key, &keyspace, 0), "it may have moved");
        let set = [key.to_vec(), b"value".to_vec()];
        keyspace.execute("SET", &set, 0);
        assert!(locality.has(key, &keyspace, 0));
        locality.shard = Some(2);
        assert!(!locality.has(key, &keyspace, 0));
        locality.is_asking = true;
        assert!(locality.has(key, &keyspace, 0));
        locality.shard = None;
        assert!(!locality.has(key, &keyspace, 0));
    }
}
