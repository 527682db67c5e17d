//! Batches: independent requests that are sent at once, and decided as if one after the other.
//!
//! Requests without a common key have no order to keep. Of those with one, Redis decides in the
//! order of a batch only what goes out in calls of the same script over one connection, which sends
//! the requests of a [`Budget::of_batch`] in their order. All others wait for the earlier ones: the
//! batch is decided in waves, of which most batches have one.

use std::collections::HashMap;

use tollgate_core::{Charge, Cost, Key, Mode, StoreError, Verdict};

use super::Redis;
use crate::fit::FittedLimit;
use crate::join::join_all;
use crate::script_request::ScriptRequest;
use crate::stage::Budget;

/// The last request so far that charges a key.
struct Last<'b> {
    wave: usize,
    charges: &'b [Charge<'b>],
}

/// The wave of each request of a batch, from 0.
#[derive(Default)]
struct Waves {
    of_requests: Vec<usize>,
    /// Whether requests of one wave have an order to keep.
    have_order: bool,
}

/// Decides on all requests, in their order where they have a key in common.
pub(super) async fn decide(
    store: &Redis,
    batch: &[&[Charge<'_>]],
) -> Vec<Result<Verdict, StoreError>> {
    let waves = Waves::of(batch);
    let last = waves.of_requests.iter().copied().max().unwrap_or(0);
    let mut verdicts: Vec<Option<Result<Verdict, StoreError>>> = Vec::new();
    verdicts.resize_with(batch.len(), || None);
    for wave in 0..=last {
        let is_in = |at: &usize| waves.of_requests[*at] == wave;
        let indices: Vec<usize> = (0..batch.len()).filter(is_in).collect();
        let budget = match waves.have_order {
            true => Budget::of_batch(),
            false => Budget::default(),
        };
        let pending = indices
            .iter()
            .map(|at| store.decide_within(batch[*at], budget));
        let decided = join_all(pending.collect()).await;
        for (at, decided) in indices.into_iter().zip(decided) {
            verdicts[at] = Some(decided);
        }
    }
    verdicts.into_iter().flatten().collect()
}

// === impl Waves ===

impl Waves {
    fn of(batch: &[&[Charge<'_>]]) -> Waves {
        let mut of_keys: HashMap<Key, Last<'_>> = HashMap::with_capacity(batch.len());
        let mut waves = Waves::default();
        for &charges in batch {
            let after = |charge: &Charge<'_>| match of_keys.get(&charge.key) {
                Some(last) if keeps_order(last.charges, charges) => {
                    waves.have_order = true;
                    last.wave
                }
                Some(last) => last.wave + 1,
                None => 0,
            };
            let wave = charges.iter().map(after).max().unwrap_or(0);
            of_keys.extend(charges.iter().map(|one| (one.key, Last { wave, charges })));
            waves.of_requests.push(wave);
        }
        waves
    }
}

/// Whether two requests that are sent at once are decided in their order: each is decided by Redis
/// alone, in calls of one script. Other modes decide by what this instance knows, which the first
/// of the two changes.
fn keeps_order(first: &[Charge<'_>], next: &[Charge<'_>]) -> bool {
    let ([first], [next]) = (first, next) else {
        return false;
    };
    let call = |charge: &Charge<'_>| {
        let is_strict = charge.sharing.mode == Mode::Strict;
        let is_taken = matches!(charge.cost, Cost::Take(_));
        let fitted = FittedLimit::new(charge.limit).ok()?;
        let request = ScriptRequest::of_one(charge, &fitted);
        (is_strict && is_taken).then(|| (request.writes(), request.script()))
    };
    call(first).is_some_and(|first| call(next) == Some(first))
}
