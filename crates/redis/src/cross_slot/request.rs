//! A request that waits for its round, and the caller that waits for its verdict.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};

use tokio::sync::oneshot;
use tokio::time::{Duration, Instant, timeout_at};
use tollgate_core::{
    CHARGES_MAX, Charge, Cost, Enforcement, Key, OnDenial, Sharing, StoreError, TooManyCharges,
    Verdict,
};

use crate::caches::{Caches, returns_units};
use crate::fit::{FittedLimit, unfit};
use crate::write_back::SetAside;

/// Whether the refunds of a request are done, by an attempt that was blocked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refunds {
    ToDo,
    Done,
}

/// A request that outlives its caller.
pub(super) struct Request {
    pub(super) fitted: Vec<FittedLimit>,
    demands: Vec<Demand>,
    refunds: Refunds,
    is_shareable: bool,
    /// Whether a round left it without a verdict.
    pub(super) is_retried: bool,
    /// Whether its keys may be on two nodes, although they are in one slot, which migrates.
    pub(super) is_split: bool,
    pub(super) since: Instant,
}

/// A charge without its limit.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct Demand {
    pub(super) key: Key,
    cost: Cost,
    enforcement: Enforcement,
    on_denial: OnDenial,
    sharing: Sharing,
}

/// The sender of the verdict.
pub(super) struct Caller {
    verdict: Option<oneshot::Sender<Result<Verdict, StoreError>>>,
    state: Arc<State>,
    /// Until the request is decided, its keys are not counted here.
    aside: Option<SetAside>,
}

/// The receiver of a [`Caller`].
pub(super) struct Waiting<'d> {
    verdict: oneshot::Receiver<Result<Verdict, StoreError>>,
    state: Arc<State>,
    departures: &'d Departures,
    /// Whether the caller has an answer, or has waited until its deadline.
    is_over: bool,
}

/// How many callers went away while a round decided on their requests, so that a simulation can
/// show that it tests this.
#[derive(Debug)]
pub(super) struct Departures {
    /// Before anything was charged.
    reserving: AtomicU64,
    /// When something may have been.
    committing: AtomicU64,
}

/// The progress of a request, which decides what its caller gets at the deadline.
struct State {
    phase: AtomicU8,
    /// Whether another instance's reservation blocks it.
    is_blocked: AtomicBool,
    /// Whether a round is deciding on it.
    is_in_round: AtomicBool,
}

/// Phases of a request: nothing is charged yet; something may be; the caller has given up, and
/// nothing may be charged.
const WAITS: u8 = 0;
const COMMITS: u8 = 1;
const WITHDRAWN: u8 = 2;

/// The result of waiting.
#[expect(
    clippy::large_enum_variant,
    reason = "taken apart as soon as it is made, never stored"
)]
pub(super) enum WaitOutcome {
    ScriptReply(Result<Verdict, StoreError>),
    /// Nothing was charged, and nothing will be.
    Withdrawn {
        is_blocked: bool,
    },
    /// The outcome is unknown.
    Unknown,
}

// === impl Request ===

impl Request {
    /// Copies what `charges` borrow, because the request outlives its caller's future. Fails here,
    /// before anything is sent, if Redis cannot keep one of the limits.
    pub(super) fn new(
        charges: &[Charge<'_>],
        refunds: Refunds,
        since: Instant,
    ) -> Result<Request, StoreError> {
        let fitted = crate::script_request::fit_all(charges).map_err(unfit)?;
        if charges.len() > CHARGES_MAX {
            return Err(TooManyCharges(charges.len()).into());
        }
        let demands = charges.iter().map(|charge| Demand {
            key: charge.key,
            cost: charge.cost,
            enforcement: charge.enforcement,
            on_denial: charge.on_denial,
            sharing: charge.sharing,
        });
        let demands: Vec<Demand> = demands.collect();
        Ok(Request {
            is_shareable: is_shareable(&demands),
            demands,
            fitted,
            refunds,
            is_retried: false,
            is_split: false,
            since,
        })
    }

    pub(super) fn charges(&self) -> Vec<Charge<'_>> {
        let pairs = self.demands.iter().zip(&self.fitted);
        let charges = pairs.map(|(demand, fitted)| Charge {
            enforcement: demand.enforcement,
            on_denial: demand.on_denial,
            sharing: demand.sharing,
            ..Charge::new(demand.key, &fitted.limit, demand.cost_to_do(self.refunds))
        });
        charges.collect()
    }

    /// The charges, and their limits as Redis keeps them.
    pub(super) fn demands(&self) -> impl Iterator<Item = (&Demand, &FittedLimit)> {
        self.demands.iter().zip(&self.fitted)
    }

    /// Whether it may share a round with others: it has no refunds, which would be judged together
    /// with the others' charges, and each of its keys is different.
    pub(super) const fn is_shareable(&self) -> bool {
        self.is_shareable
    }

    /// Notes that it was in a round, which has made the refunds: the caller, who drops what is
    /// cached of their keys as well, may have gone. If its keys were on two nodes, they may be so
    /// until the slot has migrated.
    pub(super) fn note_round(&mut self, caches: &Caches, is_split: bool) {
        let charges = self.charges().into_iter();
        let refunds = charges.filter(returns_units);
        refunds.for_each(|charge| caches.forget(charge.key));
        (self.refunds, self.is_retried) = (Refunds::Done, true);
        self.is_split |= is_split;
    }
}

/// Whether a request for these charges, of which there are at most [`CHARGES_MAX`], may share a
/// round.
fn is_shareable(demands: &[Demand]) -> bool {
    demands.iter().enumerate().all(|(place, demand)| {
        let is_same = |other: &Demand| other.key == demand.key;
        !demand.cost.is_refund() && !demands[..place].iter().any(is_same)
    })
}

// === impl Demand ===

impl Demand {
    const fn cost_to_do(&self, refunds: Refunds) -> Cost {
        match (self.cost, refunds) {
            (Cost::Refund(_), Refunds::Done) => Cost::Refund(0),
            (cost, _) => cost,
        }
    }
}

/// A new pair of sender and receiver.
pub(super) fn caller(departures: &Departures) -> (Caller, Waiting<'_>) {
    let (sender, verdict) = oneshot::channel();
    let state = Arc::new(State {
        phase: AtomicU8::new(WAITS),
        is_blocked: AtomicBool::new(false),
        is_in_round: AtomicBool::new(false),
    });
    let caller = Caller {
        verdict: Some(sender),
        state: Arc::clone(&state),
        aside: None,
    };
    let waiting = Waiting {
        verdict,
        state,
        departures,
        is_over: false,
    };
    (caller, waiting)
}

// === impl Caller ===

impl Caller {
    /// The same, which keeps keys from being counted here until it is answered or dropped.
    pub(super) fn with_aside(self, aside: Option<SetAside>) -> Caller {
        Caller { aside, ..self }
    }

    /// Whether the caller still waits.
    pub(super) fn is_waiting(&self) -> bool {
        self.state.phase.load(Ordering::Relaxed) != WITHDRAWN
            && self
                .verdict
                .as_ref()
                .is_some_and(|caller| !caller.is_closed())
    }

    /// Allows the request to be charged from now on, unless the caller has given up.
    pub(super) fn commit(&self) -> bool {
        self.is_waiting() && self.state.leave_waiting(COMMITS)
    }

    /// Notes that nothing was charged, and nothing will be until the request commits again.
    pub(super) fn abort(&self) {
        self.set_in_round(false);
        self.state.return_to_waiting();
    }

    /// Sets whether another instance blocks the request.
    pub(super) fn set_blocked(&self, is_blocked: bool) {
        self.state.is_blocked.store(is_blocked, Ordering::Relaxed);
    }

    /// Sets whether a round is deciding on the request.
    pub(super) fn set_in_round(&self, is_in_round: bool) {
        self.state.is_in_round.store(is_in_round, Ordering::Relaxed);
    }

    pub(super) fn answer(&mut self, verdict: Result<Verdict, StoreError>) {
        self.set_in_round(false);
        // Before the caller decides again.
        self.aside = None;
        if let Some(caller) = self.verdict.take() {
            let _caller_has_gone = caller.send(verdict);
        }
    }
}

// === impl Waiting ===

impl Waiting<'_> {
    /// Waits for the verdict: until `reply_timeout`, and until `timeout` if the request may be
    /// charged by then.
    pub(super) async fn wait(mut self, since: Instant, times: (Duration, Duration)) -> WaitOutcome {
        let outcome = self.wait_until(since, times).await;
        self.is_over = true;
        outcome
    }

    async fn wait_until(
        &mut self,
        since: Instant,
        (reply_timeout, timeout): (Duration, Duration),
    ) -> WaitOutcome {
        if let Ok(reply) = timeout_at(since + reply_timeout, &mut self.verdict).await {
            // A task that drops the sender was stopped with its runtime.
            return reply.map_or(WaitOutcome::Unknown, WaitOutcome::ScriptReply);
        }
        if self.state.leave_waiting(WITHDRAWN) {
            let is_blocked = self.state.is_blocked.load(Ordering::Relaxed);
            return WaitOutcome::Withdrawn { is_blocked };
        }
        let reply = timeout_at(since + timeout, &mut self.verdict).await;
        reply
            .ok()
            .and_then(Result::ok)
            .map_or(WaitOutcome::Unknown, WaitOutcome::ScriptReply)
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        if self.is_over || !self.state.is_in_round.load(Ordering::Relaxed) {
            return;
        }
        let departures = match self.state.phase.load(Ordering::Relaxed) {
            COMMITS => &self.departures.committing,
            _ => &self.departures.reserving,
        };
        departures.fetch_add(1, Ordering::Relaxed);
    }
}

// === impl Departures ===

impl Departures {
    pub(super) const fn new() -> Departures {
        Departures {
            reserving: AtomicU64::new(0),
            committing: AtomicU64::new(0),
        }
    }

    /// The callers that went away before anything was charged, and those that did later.
    pub(super) fn counts(&self) -> [u64; 2] {
        [&self.reserving, &self.committing].map(|count| count.load(Ordering::Relaxed))
    }
}

// === impl State ===

impl State {
    /// Moves to another phase, unless it has left `WAITS` already. Relaxed: the word is the whole
    /// state and publishes nothing else.
    fn leave_waiting(&self, phase: u8) -> bool {
        let left = self
            .phase
            .compare_exchange(WAITS, phase, Ordering::Relaxed, Ordering::Relaxed);
        left.is_ok()
    }

    /// Returns to waiting, if it has committed. For a caller whose deadline passed meanwhile the
    /// outcome is unknown.
    fn return_to_waiting(&self) {
        let _withdrawn =
            self.phase
                .compare_exchange(COMMITS, WAITS, Ordering::Relaxed, Ordering::Relaxed);
    }
}
