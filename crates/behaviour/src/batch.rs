//! Batches of independent requests.

use tollgate_core::{Charge, Key, Ledger, Now, Verdict};

use crate::random::{Random, check};
use crate::rule::{Rule, Taste};
use crate::subject::Subject;
use crate::trace::with_grain;

/// Rules that share the keys of a trace, one for each key.
const KEYS: usize = 6;
/// Batches of a trace.
const BATCHES: usize = 12;
/// The most requests of a batch.
const REQUESTS_MAX: u64 = 24;

/// A batch gives the answers that the ledger gives to its requests one after the other: requests of
/// all sorts, of which many share a key. `decide` is the subject's answer to a batch.
pub fn a_batch_equals_its_requests_one_by_one<S: Subject>(
    taste: &Taste,
    cases: u64,
    mut fresh: impl FnMut() -> S,
    mut decide: impl FnMut(&mut S, Now, &[&[Charge<'_>]]) -> Vec<Verdict>,
) {
    let name = "a_batch_equals_its_requests_one_by_one";
    check(name, cases, |random| {
        let (mut subject, mut ledger) = (fresh(), Ledger::default());
        let rules: Vec<Rule> = (0..KEYS).map(|_| taste.rule(random)).collect();
        let keys: Vec<Key> = (0..KEYS).map(|at| subject.key(&at.to_string())).collect();
        let mut now = taste.start;
        for batch in 0..BATCHES {
            let step = taste.grain.times(random.between(0, 8));
            now.monotonic = now.monotonic + step;
            now.utc = now.utc + step;
            let requests: Vec<Vec<Charge<'_>>> = (0..random.between(0, REQUESTS_MAX))
                .map(|_| request(taste, &rules, &keys, random))
                .collect();
            let slices: Vec<&[Charge<'_>]> = requests.iter().map(Vec::as_slice).collect();
            let found = decide(&mut subject, now, &slices);
            assert_eq!(found.len(), requests.len());
            for (at, (charges, found)) in requests.iter().zip(found).enumerate() {
                let expected = ledger.decide(now, charges).expect("few charges");
                let expected = with_grain(expected, taste.grain);
                assert_eq!(found, expected, "batch {batch}, request {at}: {charges:#?}");
            }
        }
    });
}

/// A request on one key, or on a few of which some may be the same.
fn request<'r>(
    taste: &Taste,
    rules: &'r [Rule],
    keys: &[Key],
    random: &mut Random,
) -> Vec<Charge<'r>> {
    let charges = 0..random.pick(&[1, 1, 1, 1, 2, 3]);
    let charge = |_| {
        let at = random.pick(&[0, 0, 0, 1, 2, 3, 4, 5]);
        let rule = &rules[at];
        rule.charge(keys[at], taste.cost(&rule.limit, random))
    };
    charges.map(charge).collect()
}
