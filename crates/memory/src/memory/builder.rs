//! How large a store is to be.

use std::sync::atomic::AtomicUsize;

use tollgate_core::{Clock, Limit};

use super::{BYTES_PER_KEY, Memory};
use crate::arena::{Arena, BLOCK_BYTES, BLOCKS_MAX};
use crate::clock::SystemClock;
use crate::hasher::RandomKeys;
use crate::spill;
use crate::table::{Table, size};

/// All bytes but one in 2^6 are the table's; the rest of the store fits into that one.
const REST_SHIFT: u32 = 6;
/// The default of [`Builder::max_keys`].
const MAX_KEYS_DEFAULT: usize = 1_000_000;
/// Bytes of the arena for each key of `max_keys`, of which only those in use are ever touched.
const ARENA_BYTES_PER_KEY: usize = 256;
/// The smallest arena: one large log beside a small table.
const ARENA_BYTES_MIN: usize = 16 << 20;
/// The number of blocks in 4 GiB.
const BLOCKS_FOR_KEYS_MAX: usize = 1 << 26;
/// The largest arena that [`Builder::max_keys`] and [`Builder::limits`] lead to;
/// [`Builder::max_bytes`] may ask for more.
const ARENA_BYTES_FOR_KEYS_MAX: usize = BLOCKS_FOR_KEYS_MAX.saturating_mul(BLOCK_BYTES);
/// The largest arena that a store can have.
const ARENA_BYTES_MAX: usize = BLOCKS_MAX.saturating_mul(BLOCK_BYTES);
/// The arena has at least one in 2^4 of `max_bytes`, however large `max_keys` is: without an arena
/// every decision on a limit whose state spills would fail.
const ARENA_SHARE_SHIFT: u32 = 4;

/// The size and the clock of a [`Memory`] that is about to be built.
#[derive(Debug)]
pub struct Builder<C = SystemClock> {
    clock: C,
    keys: RandomKeys,
    max_keys: Option<usize>,
    max_bytes: Option<usize>,
    /// The most arena bytes that a key of the known limits can take.
    spilled_bytes: usize,
}

/// A store has not the memory for as many keys of a limit as it is meant for: live keys may be
/// evicted before there are so many.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shortage {
    /// How many keys of the limit have room.
    pub keys: usize,
    /// How many the store is meant for: [`Builder::max_keys`], or its default.
    pub max_keys: usize,
    /// The value of [`Builder::max_bytes`] that, with this `max_keys`, has room for all; `None` if
    /// no store has.
    pub max_bytes: Option<usize>,
}

/// The bytes that a store allocates.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Size {
    /// Bytes of the table, which are touched when the store is built.
    pub table_bytes: usize,
    /// Bytes for states that are larger than a word, which are touched when they are first used.
    pub arena_bytes: usize,
}

// === impl Shortage ===

impl Shortage {
    /// What an operator can do about it, in the words of the service's settings.
    pub fn help(&self) -> String {
        let max_keys = self.max_keys;
        self.max_bytes.map_or_else(
            || format!("set fewer `max_keys`, {} at most for this rule", self.keys),
            |bytes| format!("set `memory: {{max_keys: {max_keys}, max_bytes: {bytes}}}`, or fewer"),
        )
    }
}

// === impl Builder ===

impl Builder {
    pub(super) fn new() -> Builder {
        Builder {
            clock: SystemClock::new(),
            keys: RandomKeys::new(),
            max_keys: None,
            max_bytes: None,
            spilled_bytes: 0,
        }
    }
}

impl<C: Clock> Builder<C> {
    /// Room for this many live keys: [`BYTES_PER_KEY`] bytes each, and an arena of 256 bytes each,
    /// up to 4 GiB, for states that are larger than a word, of which only what is used is ever
    /// touched.
    /// [`Builder::limits`] makes the arena larger where that is not enough. The default is
    /// 1 000 000.
    pub fn max_keys(self, keys: usize) -> Builder<C> {
        Builder {
            max_keys: Some(keys),
            ..self
        }
    }

    /// The total memory of the store, in bytes. Without `max_keys` the table of slots takes half.
    /// With it, the arena takes what the table leaves, and at least a sixteenth: if both do not
    /// fit, the table is smaller than `max_keys` asks for. [`Builder::shortage`] says how much is
    /// needed.
    pub fn max_bytes(self, bytes: usize) -> Builder<C> {
        Builder {
            max_bytes: Some(bytes),
            ..self
        }
    }

    /// Limits that the store will decide on: without `max_bytes` the arena has room for `max_keys`
    /// keys of the largest of them, up to 4 GiB. [`Builder::shortage`] checks one limit.
    pub fn limits<'l>(self, limits: impl IntoIterator<Item = &'l Limit>) -> Builder<C> {
        let largest = limits.into_iter().map(spill::spilled_bytes_max).max();
        Builder {
            spilled_bytes: largest.unwrap_or(0).max(self.spilled_bytes),
            ..self
        }
    }

    /// Replaces the machine's clock.
    pub fn clock<D: Clock>(self, clock: D) -> Builder<D> {
        Builder {
            clock,
            keys: self.keys,
            max_keys: self.max_keys,
            max_bytes: self.max_bytes,
            spilled_bytes: self.spilled_bytes,
        }
    }

    /// Replaces the random hash: for reproducible tests.
    pub fn keys(self, keys: RandomKeys) -> Builder<C> {
        Builder { keys, ..self }
    }

    /// As [`Builder::build`], if the system has as much memory; otherwise the bytes that it has
    /// not.
    ///
    /// # Errors
    ///
    /// The bytes that the store would have taken.
    pub fn try_build(self) -> Result<Memory<C>, usize> {
        self.probe()?;
        Ok(self.build())
    }

    /// Whether the system has the memory for what [`Builder::build`] allocates. Builds nothing.
    ///
    /// # Errors
    ///
    /// The bytes that the store would take.
    pub fn probe(&self) -> Result<(), usize> {
        let (table, arena) = self.sizes();
        let bytes = table.saturating_add(arena);
        // Asked for in one piece and given back at once: the parts are allocated without a way to
        // fail, and the process would be aborted.
        let mut probe: Vec<u8> = Vec::new();
        probe.try_reserve_exact(bytes).map_err(|_| bytes)
    }

    /// What [`Builder::build`] allocates. Builds nothing.
    ///
    /// # Example
    ///
    /// ```
    /// let size = tollgate_memory::Memory::builder().max_keys(1_000_000).size();
    /// assert!(size.table_bytes <= 24_000_000);
    /// ```
    pub fn size(&self) -> Size {
        let (table, arena) = self.sizes();
        Size {
            table_bytes: size::table_bytes(table),
            arena_bytes: (arena / BLOCK_BYTES).min(BLOCKS_MAX) * BLOCK_BYTES,
        }
    }

    /// What this limit lacks in the store; `None` if there is room for `max_keys` keys of it.
    ///
    /// # Example
    ///
    /// ```
    /// use tollgate_core::{Algorithm, Limit};
    /// use tollgate_memory::Memory;
    ///
    /// let limit = Limit::per_minute(1000).counted_by(Algorithm::SlidingLog);
    /// let small = Memory::builder().max_keys(1_000).max_bytes(1 << 20);
    /// let shortage = small.shortage(&limit).unwrap();
    /// let large = Memory::builder().max_keys(1_000).max_bytes(shortage.max_bytes.unwrap());
    /// assert_eq!(large.shortage(&limit), None);
    /// ```
    pub fn shortage(&self, limit: &Limit) -> Option<Shortage> {
        shortage(self.keys_meant(), self.sizes().1, limit)
    }

    /// Builds the store and allocates its table.
    pub fn build(self) -> Memory<C> {
        let (table, arena) = self.sizes();
        Memory {
            max_keys: self.keys_meant(),
            clock: self.clock,
            keys: self.keys,
            table: Table::with_bytes(table),
            arena: Arena::with_blocks(arena / BLOCK_BYTES),
            clock_hand: AtomicUsize::new(0),
        }
    }

    /// How many live keys the store is meant for.
    fn keys_meant(&self) -> usize {
        self.max_keys.unwrap_or(MAX_KEYS_DEFAULT)
    }

    /// Bytes of the table and of the arena.
    fn sizes(&self) -> (usize, usize) {
        match (self.max_keys, self.max_bytes) {
            (Some(keys), Some(bytes)) => {
                let table = table_bytes(keys).min(bytes - (bytes >> ARENA_SHARE_SHIFT));
                (table, bytes - table)
            }
            (None, Some(bytes)) => (bytes / 2, bytes / 2),
            (keys, None) => {
                let keys = keys.unwrap_or(MAX_KEYS_DEFAULT);
                let for_limits = keys.saturating_mul(self.spilled_bytes);
                let arena = keys
                    .saturating_mul(ARENA_BYTES_PER_KEY)
                    .max(for_limits)
                    .clamp(ARENA_BYTES_MIN, ARENA_BYTES_FOR_KEYS_MAX);
                (table_bytes(keys), arena)
            }
        }
    }
}

/// What a limit lacks in a store with so many bytes for states that are larger than a word.
pub(super) fn shortage(max_keys: usize, arena_bytes: usize, limit: &Limit) -> Option<Shortage> {
    let of_key = spill::spilled_bytes_max(limit);
    let needed = max_keys.saturating_mul(of_key);
    let arena_bytes = arena_bytes.min(ARENA_BYTES_MAX);
    (needed > arena_bytes).then(|| Shortage {
        keys: arena_bytes / of_key,
        max_keys,
        max_bytes: needed
            .checked_add(table_bytes(max_keys))
            .filter(|_| needed <= ARENA_BYTES_MAX),
    })
}

/// The table's part of the bytes for so many keys.
///
/// What a table of any size takes comes on top: else it would be missing to a small table's slots,
/// and live keys be evicted from it.
pub(super) const fn table_bytes(keys: usize) -> usize {
    let bytes = keys.saturating_mul(BYTES_PER_KEY);
    (bytes - (bytes >> REST_SHIFT)).saturating_add(size::FIXED_BYTES)
}
