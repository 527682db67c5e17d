//! Tollgate's in-process store: bounded, exact, one cache line per decision.
//!
//! # How it works
//!
//! A key's state is one word wherever that is possible: *a moment from which on nothing is
//! remembered*. A bucket's word is the moment at which it is full again. A window aligned to the
//! epoch is its end plus the units consumed in it, which are fewer than it has nanoseconds. So a
//! slot whose moment has passed is free, whatever its limit was and whoever owned it: there is no
//! sweeper, no growth and no pause. `table.rs` tells where slots are and how they change hands,
//! `pair.rs` how owner and word change together, `tag.rs` what a slot says about its owner.
//!
//! A decision on one limit is lock-free: read a slot, ask [`tollgate_core::step`], replace the slot
//! if it is still the same. For buckets that is compiled into the caller (`memory/quick.rs`), so
//! that parts of the decision that nobody reads are not computed. A decision on several limits
//! marks its slots as locked, in the order of the keys, and everybody else who needs one of them
//! waits the fraction of a microsecond that this takes, or at most until a named bound. States that
//! are larger than a word live in an arena of 64-byte blocks, reached through the key's slot and
//! only under its lock.
//!
//! # Bytes per key
//!
//! `max_keys` buys 24 bytes a key, allocated at the start, in large pages where the system has
//! them: a slot of 16 bytes, and nearly half a slot of room. What does not fit a word takes blocks
//! of the arena while the key is remembered:
//!
//! | algorithm | blocks of 64 bytes | bytes a key, slot included |
//! |---|---|---|
//! | `token_bucket`, `leaky_bucket` | none | 24 |
//! | `fixed_window` on the clock, fewer units than nanoseconds | none | 24 |
//! | `fixed_window` from the first request, or with more | 1 | 88 |
//! | `sliding_window`, up to 11 segments | 1 | 88 |
//! | `sliding_window`, 60 segments | 5 | 344 |
//! | `sliding_log` | 1, and 1 for every 60 bytes | 24 + 64 + 1.07 a byte |
//!
//! A log's entry takes 1 byte up to 63 ns after the one before it, 5 bytes up to 17 s and 7 up to
//! 78 h, whatever its units if that is 1; more units take 1 to 5 bytes more. `tests/bytes.rs`
//! measures the table.
//!
//! # At the bound
//!
//! States in the arena have a budget of their own: [`Builder::limits`] sizes it for the limits that
//! are known, and [`Memory::max_bytes_for`] says what others would take. When it is spent, keys
//! that are not remembered give their blocks back first; then the cheapest of a few live keys is
//! evicted, in the order below, and a long log loses its oldest entries instead. A search looks at
//! a bounded number of keys, and goes on around the arena where the last one ended. A log that
//! finds nobody to take from is denied with `StoreError::Full`.
//!
//! A key may live in 16 slots. With `max_keys` live keys a simulation of a million loses a few;
//! `cargo xtask bench` prints how many were lost. With more, an insertion pushes out a key that was
//! charged only once before one that came back, that one before one that was refused. Every live
//! key that is lost is counted ([`Stats::evicted_keys`]).
//!
//! # Trade-offs
//!
//! * The memory is there from the start, used or not.
//! * On x86-64 a processor with 16-byte atomics and AVX is needed (2011 and later).
//! * A key is known by 64 bits of hash, keyed at random ([`RandomKeys`] has the arithmetic), not by
//!   its text.
//! * Everybody who asks for one hot key changes one word; it is not spread over processors.

mod sync;

mod memory;

mod table;

mod line;

#[cfg(not(loom))]
mod lines;

#[cfg(loom)]
#[path = "lines/model.rs"]
mod lines;

mod ghosts;

mod spilled;

mod tag;

mod pair;

mod wide;

mod packed_log;

mod chain;

mod arena;

mod hasher;

mod steady;

mod clock;

pub mod heap;

pub use clock::{ManualClock, SystemClock};
pub use hasher::RandomKeys;
pub use memory::{BYTES_PER_KEY, Builder, Memory, Stats};
