//! What a store takes is known before it is built: compared with what the allocator was asked for,
//! and with a store that is filled.
#![allow(clippy::unwrap_used, unsafe_code)]

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

use tollgate_core::{Charge, Cost, Limit, Moment, Now, Span};
use tollgate_memory::{Memory, Size, spilled_bytes_max};

thread_local! {
    /// Bytes that this thread has allocated and not freed.
    static ALLOCATED: Cell<usize> = const { Cell::new(0) };
}

/// The system's allocator, which counts.
struct Counted;

// SAFETY: passes every call on unchanged; the counter needs no allocation.
unsafe impl GlobalAlloc for Counted {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATED.with(|bytes| bytes.set(bytes.get().wrapping_add(layout.size())));
        // SAFETY: as for this function.
        unsafe { System.alloc(layout) }
    }

    // Zeroed memory must stay untouched.
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        ALLOCATED.with(|bytes| bytes.set(bytes.get().wrapping_add(layout.size())));
        // SAFETY: as for this function.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        ALLOCATED.with(|bytes| bytes.set(bytes.get().wrapping_sub(layout.size())));
        // SAFETY: as for this function.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counted = Counted;

/// Builds the store, and checks that it allocates what it said. The table counts its own fields,
/// which are not on the heap here.
fn build(limit: &Limit, keys: usize) -> Memory {
    let builder = Memory::builder().max_keys(keys).limits([limit]);
    let Size {
        table_bytes,
        arena_bytes,
    } = builder.size();
    let before = ALLOCATED.with(Cell::get);
    let store = builder.build();
    let allocated = ALLOCATED.with(Cell::get).wrapping_sub(before);
    let difference = (table_bytes + arena_bytes).abs_diff(allocated);
    assert!(difference <= 512, "{limit}, {keys} keys: {difference}");
    let bytes = u64::try_from(table_bytes + arena_bytes).unwrap();
    assert_eq!(store.stats().bytes_max, bytes);
    store
}

#[test]
fn a_store_allocates_what_its_builder_says() {
    for keys in [0, 1, 10_000, 123_456] {
        for limit in [
            Limit::token_bucket(100, Span::MINUTE),
            Limit::sliding_window(100, Span::HOUR, 60),
            Limit::sliding_log(500, Span::HOUR),
        ] {
            drop(build(&limit.unwrap(), keys));
        }
    }
}

/// Full states of as many keys as there is room for take no more than is said, and not much less.
#[test]
fn full_states_take_the_bytes_that_are_said() {
    const KEYS: u64 = 2_000;
    for (limit, requests, least_percent) in [
        (Limit::token_bucket(100, Span::MINUTE), 1_u64, 100),
        (Limit::sliding_window(100, Span::HOUR, 60), 60, 100),
        (Limit::sliding_log(500, Span::HOUR), 500, 80),
    ] {
        let limit = limit.unwrap();
        // With room to spare, so that no key is evicted.
        let store = build(&limit, 2 * usize::try_from(KEYS).unwrap());
        let pause = Span::from_nanos(limit.window().as_nanos() / requests);
        for request in 0..requests {
            let now = Now::at(Moment::ZERO + Span::DAY + pause.times(request));
            for key in 0..KEYS {
                let charge = Charge::new(store.key_of(&key), &limit, Cost::ONE);
                assert!(store.check_at(now, &charge).unwrap().is_allowed());
            }
        }
        let most = KEYS * u64::try_from(spilled_bytes_max(&limit)).unwrap();
        let used = store.stats().arena_bytes;
        assert!(used <= most, "{limit}: {used} of {most}");
        assert!(
            used * 100 >= most * least_percent,
            "{limit}: {used} of {most}"
        );
        assert_eq!(store.evicted_keys(), 0, "{limit}");
    }
}
