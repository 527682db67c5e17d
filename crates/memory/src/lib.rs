//! Tollgate's in-process store: bounded, exact, one cache line per decision.

mod sync;

mod memory;

mod table;

mod tag;

mod pair;

mod wide;

mod packed_log;

mod chain;

mod arena;

mod hasher;

mod clock;

pub use clock::{ManualClock, SystemClock};
pub use hasher::RandomKeys;
pub use memory::{BYTES_PER_KEY, Builder, Memory, Stats};
