//! The plain store is held to the suite that every store is held to.

use tollgate_behaviour::{
    Plain, Subject, Taste, a_wall_clock_that_steps_locks_no_key, store_behaves, with_grain,
};
use tollgate_core::{Charge, Key, Now, Verdict};

/// The plain store with its answers rounded up to whole microseconds.
#[derive(Default)]
struct Coarse(Plain);

impl Subject for Coarse {
    fn key(&mut self, name: &str) -> Key {
        self.0.key(name)
    }

    fn decide(&mut self, now: Now, charges: &[Charge<'_>]) -> Verdict {
        with_grain(self.0.decide(now, charges), Taste::MICROSECONDS.grain)
    }
}

store_behaves!(small, Taste::SMALL, Plain::default());
store_behaves!(extreme, Taste::EXTREME, Plain::default());
store_behaves!(microseconds, Taste::MICROSECONDS, Coarse::default());

#[test]
fn a_wall_clock_that_steps_locks_nothing() {
    for taste in [Taste::SMALL, Taste::EXTREME] {
        a_wall_clock_that_steps_locks_no_key(&taste, Plain::default);
    }
    a_wall_clock_that_steps_locks_no_key(&Taste::MICROSECONDS, Coarse::default);
}
