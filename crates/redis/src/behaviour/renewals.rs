//! Leases of many keys, renewed together.

use std::future::poll_fn;
use std::task::Poll;

use tollgate_behaviour::{Subject, Taste};
use tollgate_core::{Charge, Cost, Limit, Mode, Now, Sharing, Span};

use super::{Driven, SINGLE};
use crate::config::Config;
use crate::leases::LASTS;

/// More keys than are renewed at once.
const KEYS: usize = 600;

/// Polls a future once.
async fn is_ready(future: impl Future) -> bool {
    let mut future = Box::pin(future);
    poll_fn(|context| Poll::Ready(future.as_mut().poll(context).is_ready())).await
}

/// The units of a lease can be spent until it is its turn to be renewed: only requests on the keys
/// whose renewals are in flight wait.
#[test]
fn a_lease_is_spent_while_others_are_renewed() {
    let mut instance = Driven::new(&Config::single(SINGLE.address()));
    let limit = Limit::token_bucket(1_000, Span::SECOND).expect("a limit");
    let start = Taste::MICROSECONDS.start;
    let keys: Vec<_> = (0..KEYS)
        .map(|key| instance.key(&format!("{key}")))
        .collect();
    let charges = keys.iter().map(|key| {
        let charge = Charge::new(*key, &limit, Cost::ONE);
        charge.shared(Sharing::in_mode(Mode::Leased))
    });
    let charges: Vec<_> = charges.collect();
    for charge in &charges {
        assert!((0..4).all(|_| instance.decide(start, &[*charge]).is_allowed()));
    }
    assert_eq!(
        instance.store.counts().leases_held,
        u64::try_from(KEYS).expect("a few")
    );
    // All are about to end, and were used.
    let then = Now::at(start.utc + LASTS.minus(Span::from_millis(700)));
    instance.store.set_now(then.utc.as_nanos() / 1_000);
    let store = &instance.store;
    let spendable = instance.runtime.block_on(async {
        let mut renewing = Box::pin(store.renew_due_leases());
        assert!(!is_ready(renewing.as_mut()).await);
        let mut spendable = 0;
        for charge in &charges {
            spendable += usize::from(is_ready(store.decide(std::slice::from_ref(charge))).await);
        }
        renewing.await;
        spendable
    });
    assert!((1..KEYS).contains(&spendable), "{spendable} of {KEYS}");
    // Each was renewed, in its turn.
    let units = store.counts().units_spent;
    assert_eq!(units, u64::try_from(2 * KEYS + spendable).expect("a few"));
}
