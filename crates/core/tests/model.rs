//! Random traces through core and through the naive model, decision by decision.

use tollgate_behaviour::{Model, Plain, Subject, Taste, Trace, check};
use tollgate_core::{Charge, Key, Now, Verdict};

/// The model as a subject; its keys are the plain store's.
#[derive(Default)]
struct Naively {
    model: Model,
    keys: Plain,
}

impl Subject for Naively {
    fn key(&mut self, name: &str) -> Key {
        self.keys.key(name)
    }

    fn decide(&mut self, now: Now, charges: &[Charge<'_>]) -> Verdict {
        self.model.decide(now, charges)
    }
}

fn agrees(name: &'static str, cases: u64, taste: Taste) {
    check(name, cases, |random| {
        let mut trace = Trace::new(taste, random);
        trace.run(random, &mut Plain::default(), &mut Naively::default());
    });
}

#[test]
fn small_limits_agree_with_the_model() {
    agrees("small_limits_agree_with_the_model", 3_000, Taste::SMALL);
}

#[test]
fn the_ends_of_every_range_agree_with_the_model() {
    agrees(
        "the_ends_of_every_range_agree_with_the_model",
        2_000,
        Taste::EXTREME,
    );
}
