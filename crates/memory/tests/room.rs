//! A store with room for so many keys keeps so many, whatever they are called.
#![allow(clippy::unwrap_used)]

use tollgate_core::{Charge, Cost, Limit, Moment, Now, Span};
use tollgate_memory::{Memory, RandomKeys};

const KEYS: u64 = 5_000;
const SECRETS: u64 = 100;

/// How many of the integers are evicted, over all secrets and at worst.
fn evicted(integer: fn(u64) -> u64) -> (u64, u64) {
    let limit = Limit::token_bucket(1, Span::DAY).unwrap();
    let now = Now::at(Moment::ZERO + Span::DAY);
    let room = usize::try_from(KEYS).unwrap();
    let losses = (0..SECRETS).map(|secret| {
        let keys = RandomKeys::with_secret(secret, !secret);
        let store = Memory::builder().max_keys(room).keys(keys).build();
        for number in 0..KEYS {
            let charge = Charge::new(store.key_of(&integer(number)), &limit, Cost::ONE);
            assert!(store.check_at(now, &charge).unwrap().is_allowed());
        }
        store.evicted_keys()
    });
    losses.fold((0, 0), |(sum, worst), lost| (sum + lost, worst.max(lost)))
}

/// Under a hash that keeps even steps even, one secret in twelve would lose hundreds of these.
#[test]
fn integers_in_even_steps_find_room_under_every_secret() {
    let steps: [fn(u64) -> u64; 3] = [
        |number| number,
        |number| number * 8 + 1_000_000,
        |number| number << 32,
    ];
    for integer in steps {
        let (sum, worst) = evicted(integer);
        assert!(sum <= 10 && worst <= 3, "{sum} evicted, {worst} at once");
    }
}
