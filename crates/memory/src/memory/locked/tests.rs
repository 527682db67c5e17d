#![allow(clippy::unwrap_used)]

use tollgate_core::{Cost, Limit, OnDenial, Span};

use super::*;
use crate::ManualClock;
use crate::tag::Heat;

/// A thread that holds a slot may be suspended, or have died: nobody waits for it without end.
#[test]
fn a_decision_does_not_wait_for_a_lock_without_end_and_charges_nothing() {
    let hour = Span::HOUR;
    let limits = [
        Limit::token_bucket(10, hour).unwrap(),
        Limit::sliding_log(10, hour).unwrap(),
    ];
    for limit in &limits {
        let builder = Memory::builder().clock(ManualClock::default());
        let memory = builder.max_keys(1_000).build();
        let charge = |name: &str| Charge::new(memory.key_of(name), limit, Cost::ONE);
        let (held, free) = (charge("held"), charge("free"));
        assert!(memory.check(&held).unwrap().is_allowed());
        let place = memory.table.place(held.key);
        let found = memory.table.find(place, Tag::fingerprint(held.key));
        let (slot, current) = found.unwrap();
        let lock = SlotLock::new(slot, current).unwrap();
        let now = memory.clock.now();
        assert!(matches!(memory.check(&held), Err(StoreError::Contended)));
        let both = memory.decide_at(now, &[free, held]);
        assert!(matches!(both, Err(StoreError::Contended)), "{both:?}");
        // The others do not wait.
        assert!(memory.check(&free).unwrap().is_allowed());
        drop(lock);
        let remaining = |charge| memory.check(charge).unwrap().remaining();
        assert_eq!((remaining(&held), remaining(&free)), (8, 8), "{limit}");
    }
}

/// Whichever path decides: a denial that charges a new key protects it from eviction, as any denial
/// does. Otherwise its client could start over with a flood of other keys.
#[test]
fn a_new_key_whose_denial_is_charged_is_as_hot_on_every_path() {
    let hour = Span::HOUR;
    let limits = [
        Limit::token_bucket(10, hour).unwrap(),
        Limit::fixed_window(10, hour).unwrap(),
        Limit::sliding_window(10, hour, 1).unwrap(),
        Limit::sliding_window(10, hour, 6).unwrap(),
        Limit::sliding_log(10, hour).unwrap(),
    ];
    for limit in &limits {
        let builder = Memory::builder().clock(ManualClock::default());
        let memory = builder.max_keys(1_000).build();
        let charge = |name: &str| Charge {
            on_denial: OnDenial::Charge,
            ..Charge::new(memory.key_of(name), limit, Cost::Take(11))
        };
        let (alone, beside, other) = (charge("alone"), charge("beside"), charge("other"));
        assert!(!memory.check(&alone).unwrap().is_allowed());
        let now = memory.clock.now();
        assert!(
            !memory
                .decide_at(now, &[beside, other])
                .unwrap()
                .is_allowed()
        );
        for charge in [alone, beside, other] {
            let place = memory.table.place(charge.key);
            let found = memory.table.find(place, Tag::fingerprint(charge.key));
            let heat = found.map(|(_, current)| current.tag.heat());
            assert_eq!(heat, Some(Heat::Denied), "{limit}");
        }
    }
}
