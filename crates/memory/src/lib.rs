//! Tollgate's in-process store: bounded, exact, one cache line per decision.
//!
//! # How it works
//!
//! A key's state is one word wherever that is possible, and read as a moment that word says *when
//! the state expires*. A bucket's word is the moment at which it is full again. A window aligned to
//! the epoch is its end plus the units consumed in it, which are fewer than it has nanoseconds; a
//! sliding window of one segment is its end plus a number for the units of both of its windows. So
//! a slot whose moment has passed is free, whatever its limit was and whichever key owned it: there
//! is no sweeper, no growth and no pause. `table.rs` describes where slots are and how they are
//! reused, `pair.rs` how owner and word change together, `tag.rs` what a slot records about its
//! owner.
//!
//! A decision on one limit is lock-free: read a slot, call [`tollgate_core::step`], commit the new
//! state by compare-and-swap. This fast path is inlined into the caller
//! (`memory/fast_path.rs`), so that unused parts of the decision are not computed. A decision on
//! several limits reads its slots, judges, and locks those that it charges while it writes them
//! (`memory/joint_path.rs`); one that charges nothing locks nothing. States that are larger than a
//! word, and those beside a new key, are locked before they are read, in the order of the keys;
//! other threads that need one of them wait, usually for a fraction of a microsecond and at most
//! for a named bound. A new key gets a slot only when it is charged, and is locked meanwhile: what
//! it consumed before may have expired and been lost since the clock was read. Large states spill
//! into an arena of 64-byte blocks, reached through the key's slot and only under its lock.
//!
//! # Bytes per key
//!
//! `max_keys` takes 24 bytes a key, allocated at the start, in large pages where the system has
//! them: a slot of 16 bytes, and nearly half a slot of spare room. What does not fit a word takes
//! blocks of the arena while the key is live:
//!
//! | algorithm | blocks of 64 bytes | bytes a key, slot included |
//! |---|---|---|
//! | `token_bucket`, `leaky_bucket` | none | 24 |
//! | `fixed_window` on the clock, fewer units than nanoseconds | none | 24 |
//! | `fixed_window` from the first request, or once it has counted more | 1 | 88 |
//! | `sliding_window` with 1 segment, (2 N + 1)^2 at most its nanoseconds | none | 24 |
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
//! are known, and [`Memory::shortage`] returns what others would take. When it is exhausted,
//! the blocks of expired keys are freed first; then the least valuable of a few live keys is
//! evicted, in the order below, and a long log loses its oldest entries instead. A search examines
//! a bounded number of keys, and continues around the arena where the last one ended. A log for
//! which no block can be freed gets `StoreError::Full`.
//!
//! A key may live in 16 slots. With a million live keys and `max_keys` of a million, a simulation
//! evicts a few; `cargo xtask bench` prints how many. Beyond that, an insertion evicts a key that
//! was charged only once before one that came back, and that one before one that was denied. Every
//! eviction of a live key is counted ([`Stats::evicted_keys`]).
//!
//! # Trade-offs
//!
//! * The table's memory is allocated at the start, used or not.
//! * On x86-64 a processor with 16-byte atomics and AVX is needed (2011 and later).
//! * A key is identified by 64 bits of hash, keyed at random ([`RandomKeys`] has the arithmetic),
//!   not by its text.
//! * All threads that charge one hot key change one word; it is not sharded over processors.

mod sync;

mod memory;

mod table;

mod cache_line;

#[cfg(not(tollgate_loom))]
mod cache_lines;

#[cfg(tollgate_loom)]
#[path = "cache_lines/model.rs"]
mod cache_lines;

#[cfg(not(tollgate_loom))]
mod large_pages;

mod prefetch;

mod ghosts;

mod spilled_slots;

mod tag;

mod pair;

mod word_state;

mod spill;

mod packed_log;

mod chain;

mod arena;

mod hasher;

mod monotonic;

mod clock;

pub mod heap;

pub use clock::{ManualClock, SystemClock};
pub use hasher::RandomKeys;
pub use memory::{BYTES_PER_KEY, Builder, Memory, Shortage, Size, Stats};
pub use spill::spilled_bytes_max;
