//! A decision whose future is dropped before it was polled.

#![cfg(not(tollgate_loom))]
#![allow(clippy::unwrap_used)]

use tollgate_core::{Charge, Cost, Limit, Store};
use tollgate_memory::Memory;

#[test]
fn a_decision_that_is_never_polled_charges_nothing() {
    let store = Memory::builder().max_keys(10).build();
    let limit = Limit::per_hour(1);
    let charges = [Charge::new(store.key_of("ann"), &limit, Cost::ONE)];
    drop(store.decide(&charges));
    assert!(store.decide_now(&charges).unwrap().is_allowed());
}
