//! The in-process store passes the suite that every store must pass.

use tollgate_behaviour::{
    Subject, Taste, a_wall_clock_that_steps_locks_no_key,
    agrees_with_the_ledger_while_the_wall_clock_steps, store_behaves,
};
use tollgate_core::{Charge, Key, Now, Verdict};
use tollgate_memory::{ManualClock, Memory};

/// The store, decided on at the test's moments.
struct InProcess(Memory<ManualClock>);

impl Default for InProcess {
    fn default() -> InProcess {
        let builder = Memory::builder().clock(ManualClock::default());
        InProcess(builder.max_keys(1_000).build())
    }
}

impl Subject for InProcess {
    fn key(&mut self, name: &str) -> Key {
        self.0.key_of(name)
    }

    fn decide(&mut self, now: Now, charges: &[Charge<'_>]) -> Verdict {
        let verdict = self.0.decide_at(now, charges);
        verdict.unwrap_or_else(|error| panic!("{error}"))
    }
}

store_behaves!(small, Taste::SMALL, InProcess::default());
store_behaves!(extreme, Taste::EXTREME, InProcess::default());

#[test]
fn a_wall_clock_that_steps_changes_no_answer() {
    for taste in [Taste::SMALL, Taste::EXTREME] {
        a_wall_clock_that_steps_locks_no_key(&taste, InProcess::default);
        agrees_with_the_ledger_while_the_wall_clock_steps(&taste, InProcess::default);
    }
}
