//! Requests over several slots of one node, each decided in one call.
//!
//! That is one round trip instead of two or three. But calls do not merge requests on the same keys
//! as rounds do. So if many requests on all keys of another one are in calls of their own already,
//! it joins a round.

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::sync::{Arc, Mutex};

use tokio::time::Instant;
use tollgate_core::{Key, StoreError, Verdict};

use super::queue::Nodes;
use super::{CrossSlot, Refunds};
use crate::cluster::Node;
use crate::fit::unfit;
use crate::resp::bad_reply;
use crate::router::{Form, NodeFailure, Router, Waits, ask_short_first};
use crate::script_reply::{self, ScriptReply};
use crate::script_request::{self, ScriptRequest};
use crate::sharded::lock;
use crate::stage;

/// The most calls in flight for requests on the same keys; further requests share rounds.
const CALLS_MAX: usize = 16;

/// The number of calls in flight for each key: there is an entry for each key of a caller that
/// waits.
#[derive(Default)]
pub(super) struct OneCalls {
    in_flight: Mutex<BTreeMap<Key, usize>>,
}

/// A call in flight, with its keys.
struct InFlight<'o> {
    calls: &'o OneCalls,
    keys: Vec<Key>,
}

/// A verdict; or the refunds left for a two-phase commit, because another request's reservation
/// blocks the rest, or nothing was done.
pub(crate) type Outcome = ControlFlow<Verdict, Refunds>;

// === impl CrossSlot ===

impl CrossSlot {
    /// Has the node decide in one call, if it serves all slots and few other requests have the same
    /// keys.
    pub(super) async fn decide_in_one_call(
        &self,
        request: &stage::Request<'_>,
        nodes: Nodes,
    ) -> Result<Outcome, StoreError> {
        let keys = || request.charges.iter().map(|charge| charge.key);
        let Some(node) = self.router.common_node(keys()) else {
            return Ok(ControlFlow::Continue(Refunds::ToDo));
        };
        let in_rounds = |key| self.queues.has(nodes, key);
        let Some(_in_flight) = self.one_calls.begin(keys(), in_rounds) else {
            return Ok(ControlFlow::Continue(Refunds::ToDo));
        };
        decide_whole(&self.router, request, Some(&node)).await
    }
}

/// Has Redis decide on all charges in one script call: on `node`, which serves all their slots, or
/// on the node of their only slot, which does not wait while the slot migrates and they are on two
/// nodes.
pub(crate) async fn decide_whole(
    router: &Arc<Router>,
    passed: &stage::Request<'_>,
    node: Option<&Arc<Node>>,
) -> Result<Outcome, StoreError> {
    let (charges, since) = (passed.charges, passed.turn.since);
    let fitted = script_request::fit_all(charges).map_err(unfit)?;
    let in_micros = script_reply::charges_in_micros(charges, &fitted);
    let (bill, fitted) = script_reply::bill(&in_micros, &fitted)?;
    let general = || ScriptRequest::of(&bill, &fitted);
    let reply = match passed.caches.guard_refunds(charges) {
        None => {
            let request = |form| match form {
                Form::Short => ScriptRequest::joint(&bill, &fitted).unwrap_or_else(general),
                Form::General => general(),
            };
            ask(router, request, since, node).await
        }
        Some(guard) => {
            let (asked, request, node) = (Arc::clone(router), general(), node.cloned());
            let call = async move { ask(&asked, |_| request.clone(), since, node.as_ref()).await };
            let reply = guard.complete(call).await;
            reply.ok_or_else(|| router.timeout_error())?
        }
    };
    let Some(reply) = reply else {
        return Ok(ControlFlow::Continue(Refunds::ToDo));
    };
    let reply = reply.map_err(|failure| router.error(failure))?;
    if reply.is_blocked() {
        return Ok(ControlFlow::Continue(Refunds::Done));
    }
    let verdict = reply.of(&bill, &fitted).map_err(bad_reply)?;
    Ok(ControlFlow::Break(verdict))
}

/// Asks `node`, or the one that serves the slot; `None` if the former cannot decide on all slots
/// together, or the latter on all keys.
async fn ask(
    router: &Router,
    request: impl Fn(Form) -> ScriptRequest,
    since: Instant,
    node: Option<&Arc<Node>>,
) -> Option<Result<ScriptReply, NodeFailure>> {
    let reply = match node {
        None => router.ask_in_form(request, since, Waits::No).await,
        Some(node) => ask_short_first(|form| router.ask_node(node, request(form), since)).await,
    };
    match reply {
        Err(failed) if failed.is_apart() || failed.is_split() => None,
        reply => Some(reply),
    }
}

// === impl OneCalls ===

impl OneCalls {
    /// Counts a call for these keys as in flight, unless requests on all of them are `in_rounds` or
    /// in too many calls.
    fn begin(
        &self,
        keys: impl Iterator<Item = Key> + Clone,
        in_rounds: impl Fn(Key) -> bool,
    ) -> Option<InFlight<'_>> {
        let mut in_flight = lock(&self.in_flight);
        let is_crowded = |key| {
            let calls = in_flight.get(&key).copied().unwrap_or(0);
            calls >= CALLS_MAX || in_rounds(key)
        };
        // Before anything is allocated: under overload, many requests go on to a round.
        if keys.clone().all(is_crowded) {
            return None;
        }
        let keys: Vec<Key> = keys.collect();
        for key in &keys {
            *in_flight.entry(*key).or_default() += 1;
        }
        Some(InFlight { calls: self, keys })
    }
}

// === impl InFlight ===

impl Drop for InFlight<'_> {
    fn drop(&mut self) {
        let mut in_flight = lock(&self.calls.in_flight);
        for key in &self.keys {
            if let Some(calls) = in_flight.get_mut(key) {
                *calls -= 1;
                if *calls == 0 {
                    in_flight.remove(key);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_on_crowded_keys_go_into_rounds() {
        let calls = OneCalls::default();
        let keys = |numbers: [u128; 2]| numbers.map(Key::from_bits).into_iter();
        let begin = |numbers| calls.begin(keys(numbers), |_| false);
        let mut held: Vec<_> = (0..CALLS_MAX).filter_map(|_| begin([1, 2])).collect();
        assert_eq!(held.len(), CALLS_MAX);
        assert!(begin([1, 2]).is_none());
        assert!(begin([1, 3]).is_some(), "the other key is free");
        assert!(
            calls
                .begin(keys([1, 3]), |key| key == Key::from_bits(3))
                .is_none()
        );
        held.pop();
        assert!(begin([1, 2]).is_some());
        drop(held);
        assert!(lock(&calls.in_flight).is_empty());
    }
}
