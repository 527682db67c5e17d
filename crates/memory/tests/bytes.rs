//! What a key costs, against the table in the crate's documentation.
#![allow(clippy::unwrap_used)]

use tollgate_core::{Algorithm, Anchor, Charge, Cost, Limit, Moment, Now, Segments, Span};
use tollgate_memory::{BYTES_PER_KEY, Memory};

const KEYS: u64 = 1_000;

/// Bytes of the arena that one key has after these requests, each a second after the one before.
fn arena_bytes(limit: &Limit, requests: u64) -> u64 {
    let store = Memory::builder().max_keys(10_000).build();
    for request in 0..requests {
        let now = Now::at(Moment::ZERO + Span::DAY + Span::SECOND.times(request));
        for key in 0..KEYS {
            let charge = Charge::new(store.key_of(&key), limit, Cost::ONE);
            assert!(store.check_at(now, &charge).unwrap().is_allowed());
        }
    }
    let bytes = store.stats().arena_bytes;
    assert_eq!(bytes % KEYS, 0);
    bytes / KEYS
}

fn limit(algorithm: Algorithm) -> Limit {
    Limit::new(algorithm, 10_000, Span::DAY).unwrap()
}

fn sliding(segments: u8) -> Limit {
    limit(Algorithm::SlidingWindow(Segments::new(segments).unwrap()))
}

#[test]
fn a_word_takes_no_block() {
    for algorithm in [
        Algorithm::TokenBucket,
        Algorithm::LeakyBucket,
        Algorithm::FixedWindow(Anchor::Clock),
    ] {
        assert_eq!(arena_bytes(&limit(algorithm), 3), 0, "{algorithm}");
    }
    assert_eq!(arena_bytes(&sliding(1), 3), 0);
    // (2 N + 1)^2 nanoseconds are more than a second.
    let large = Limit::sliding_window(15_811, Span::SECOND, 1).unwrap();
    assert_eq!(arena_bytes(&large, 3), 0, "as long as it has counted few");
    let dense = Limit::fixed_window(10, Span::from_nanos(10)).unwrap();
    assert_eq!(arena_bytes(&dense, 1), 0, "as long as it has counted few");
}

#[test]
fn counters_take_the_blocks_that_they_fill() {
    assert_eq!(
        arena_bytes(&limit(Algorithm::FixedWindow(Anchor::FirstRequest)), 3),
        64
    );
    assert_eq!(
        arena_bytes(&Limit::fixed_window(1, Span::NANOSECOND).unwrap(), 1),
        64
    );
    assert_eq!(arena_bytes(&sliding(10), 3), 64);
    assert_eq!(arena_bytes(&sliding(12), 3), 128);
    assert_eq!(arena_bytes(&sliding(60), 3), 320);
}

#[test]
fn a_log_takes_five_bytes_a_second_apart() {
    let log = limit(Algorithm::SlidingLog);
    assert_eq!(arena_bytes(&log, 1), 64 + 64);
    // The first entry takes one byte, the 200 after it five each.
    assert_eq!(arena_bytes(&log, 201), 64 + 64 * 1001_u64.div_ceil(60));
}

#[test]
fn the_table_is_what_was_asked_for() {
    for keys in [10_000, 100_000, 1_000_000] {
        let store = Memory::builder()
            .max_keys(keys)
            .max_bytes(keys * BYTES_PER_KEY)
            .build();
        let bytes = usize::try_from(store.stats().bytes_max).unwrap();
        assert!(bytes <= keys * BYTES_PER_KEY, "{bytes} for {keys} keys");
        assert!(
            bytes > keys * (BYTES_PER_KEY - 1),
            "{bytes} for {keys} keys"
        );
    }
}

#[test]
fn a_small_table_takes_little_more() {
    const KEYS_MIN: usize = 768;
    for keys in [1, 500, 1_000, 4_000] {
        let bytes = Memory::builder().max_keys(keys).size().table_bytes;
        let more = if keys < 4_000 { 2_000 } else { 0 };
        let most = keys.max(KEYS_MIN) * BYTES_PER_KEY + more;
        assert!(bytes <= most, "{bytes} for {keys} keys");
    }
}

/// A key that is no longer remembered gives its blocks back when its slot or memory is wanted.
#[test]
fn the_memory_of_an_expired_log_is_reused() {
    let log = Limit::sliding_log(100, Span::MINUTE).unwrap();
    let store = Memory::builder().max_bytes(2 << 20).build();
    for round in 0..20_u64 {
        let now = Now::at(Moment::ZERO + Span::HOUR.times(round + 1));
        for key in 0..8_000_u64 {
            let charge = Charge::new(store.key_of(&(round, key)), &log, Cost::ONE);
            assert!(store.check_at(now, &charge).unwrap().is_allowed());
        }
    }
    assert_eq!(store.evicted_keys(), 0);
}

/// Its address space is reserved in one piece, and systems do not promise any size.
#[test]
fn the_arena_of_many_keys_has_a_bound() {
    let arena = |keys: usize| Memory::builder().max_keys(keys).size().arena_bytes;
    assert_eq!(arena(1_000_000), 256_000_000);
    assert_eq!(arena(100_000_000), 4 << 30);
    assert_eq!(arena(1_000_000_000), 4 << 30);
}
