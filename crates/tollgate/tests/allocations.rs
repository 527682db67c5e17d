//! Decisions in memory allocate nothing, up to eight limits on a request.
#![allow(clippy::unwrap_used)]

use allocation_counter::measure;
use tollgate::{Limit, Limiter, Limits, ManualClock, check_all};

/// How many limits a request may have; one more is allowed to allocate.
const LIMITS: usize = 8;

#[test]
fn several_limits_on_a_request() {
    for count in [2, 3, LIMITS] {
        // A long name is shared, a short one copied.
        let first = Limiter::builder(Limit::per_hour(5)).max_keys(1_000);
        let first = first.name("the limit of this name is a long one").build();
        let names = ["a", "b", "c", "d", "e", "f", "g"];
        let others: Vec<Limiter> = names[..count - 1]
            .iter()
            .map(|name| {
                first.sibling(
                    name,
                    Limit::fixed_window(9, std::time::Duration::from_secs(3600)).unwrap(),
                )
            })
            .collect();
        let mut allowed = Vec::with_capacity(10);
        for _ in 0..10 {
            let asks: Vec<_> = [&first]
                .into_iter()
                .chain(&others)
                .map(|it| it.ask("bob"))
                .collect();
            let counted = measure(|| allowed.push(check_all(&asks).unwrap().is_allowed()));
            assert_eq!(counted.count_total, 0, "{count} limits, {allowed:?}");
        }
        assert_eq!(allowed.iter().filter(|it| **it).count(), 5);
    }
}

/// A table for a million keys takes 24 MB, and a single counter none of it, whatever its clock is.
#[test]
fn a_single_counter_has_no_table() {
    let limit = Limit::per_hour(5);
    let plain = measure(|| drop(Limiter::single(limit)));
    let with_clock = measure(|| {
        let builder = Limiter::builder(limit).clock(ManualClock::default());
        drop(builder.name("upstream").build_single());
    });
    for counted in [plain, with_clock] {
        // The address space for large states is 16 MiB.
        assert!(counted.bytes_max < 17 << 20, "{counted:?}");
    }
}

#[test]
fn limits_over_one_key() {
    let mut builder = Limits::builder().max_keys(1_000);
    for number in 0..LIMITS {
        builder = builder.limit(&format!("limit {number}"), Limit::per_hour(5));
    }
    let limits = builder.build();
    for turn in 0..10 {
        let counted = measure(|| assert_eq!(limits.check("bob").is_allowed(), turn < 5));
        assert_eq!(counted.count_total, 0, "in turn {turn}");
    }
}
