//! Two-phase commit: requests whose keys are in several slots are all or nothing too.
//!
//! A node accesses the keys of all its slots in one call (`session/slot_sharing.rs`). So a request
//! whose slots are all on one node is decided in one call, unless a round is better or its node
//! cannot (`one_call.rs`).
//!
//! Otherwise, every slot first reserves the units of a request. Reserved units are not yet charged,
//! but whatever else is judged meanwhile must fit in addition to them. If all slots have reserved,
//! every slot confirms, which charges the units, and the request is allowed. Otherwise every slot
//! releases them. That is two round trips, each to all slots concurrently.
//!
//! While a slot migrates, its keys may be on two nodes, and Redis answers `TRYAGAIN` to a call with
//! several of them. Then every key is what a slot is otherwise (`grouping.rs`).
//!
//! Requests are decided in rounds: all that wait for the same keys are reserved together, each key
//! in one call, for as many requests as there are units (`queue.rs`, `plan.rs`). Each request gets
//! its own verdict. Only the state before the round denies a request. A request that does not fit
//! because of others in its round waits for the next one, which sees their charges. So the number
//! of calls does not grow with the number of requests, and requests of one instance never block
//! each other.
//!
//! Under load, one slot of a request may charge immediately what it would reserve, after all others
//! have reserved (`plan/at_once.rs`): then it is called once instead of twice, and the round takes
//! a third round trip. Only that slot can still deny these requests. The other slots then confirm
//! the requests that it has charged, as if it had been the first to confirm.
//!
//! A reservation expires by Redis's own clock (`round.rs`). If that clock is set back, the
//! reservation lasts no longer than its lifetime from then on, rounded up to a power of two. An
//! instance that crashes before confirming has charged nothing. One that crashes between
//! confirmations, of which charging immediately is the first, has charged at most that round. A
//! confirmation that comes too late charges nothing; then, and if a confirmation fails, the units
//! charged in other slots are refunded. A confirmation whose reply is lost may stay charged, like
//! any request whose outcome is unknown.
//!
//! A denied request may be charged up to the limit while units are reserved, since they may still
//! be released. The units it is charged out of a reservation are deducted from the reservation, so
//! the result is as if the reservation had been charged before the denied request (`charge_denied`
//! in `script/general/account.lua`).
//!
//! A request that does not fit only because of another instance's reservation is undecided, as
//! the reservation may be released. It is retried until it is decided or times out. To prevent two
//! instances from blocking each other, retries reserve one slot after the other, in ascending
//! order, after random pauses of growing length.

mod grouping;

mod outcome;

mod load;

mod one_call;

mod parts;

mod plan;

mod queue;

mod request;

mod round;

use std::ops::ControlFlow;
use std::sync::Arc;

use tokio::time::Duration;
use tollgate_core::{Key, StoreError, Verdict};

use one_call::OneCalls;
pub(crate) use one_call::{Outcome, decide_whole};
use queue::{Entry, Member, Queues};
pub(crate) use request::Refunds;
use request::{Departures, Request, WaitOutcome};
use round::Rounds;

use crate::caches::Caches;
use crate::environment::Environment;
use crate::keys;
use crate::router::Router;
use crate::stage;
use crate::write_back::SetAside;

/// Whether these keys are in more than one slot.
pub(crate) fn crosses_slots(keys: impl Iterator<Item = Key>) -> bool {
    let mut slots = keys.map(keys::slot);
    let first = slots.next();
    slots.any(|slot| Some(slot) != first)
}

/// Decides requests over several slots.
pub(crate) struct CrossSlot {
    router: Arc<Router>,
    caches: Arc<Caches>,
    /// Requests that wait for their round.
    queues: Arc<Queues>,
    /// Requests that are decided without a round.
    one_calls: OneCalls,
    departures: Departures,
    /// Whether rounds charge immediately wherever they can.
    charges_at_once: bool,
}

// === impl CrossSlot ===

impl CrossSlot {
    pub(crate) fn new(
        environment: &Environment,
        router: Arc<Router>,
        caches: &Arc<Caches>,
    ) -> CrossSlot {
        CrossSlot {
            router,
            caches: Arc::clone(caches),
            queues: Arc::default(),
            one_calls: OneCalls::default(),
            departures: Departures::new(),
            charges_at_once: environment.charges_at_once,
        }
    }

    /// How many callers went away during a round: while it reserved, and while it confirmed.
    pub(crate) fn departures(&self) -> [u64; 2] {
        self.departures.counts()
    }

    /// Decides charges in any slots, all or nothing.
    ///
    /// The commit runs in its own task: a caller that goes away meanwhile leaves nothing reserved,
    /// and nothing charged in one slot and not in another. Until every slot has reserved, the
    /// request can end without a charge; from then on it is charged, like any request that was
    /// sent. Until its round has ended, `aside` keeps its keys from being counted here, also if the
    /// caller has gone.
    pub(crate) async fn decide(
        &self,
        passed: &stage::Request<'_>,
        mut refunds: Refunds,
        aside: Option<SetAside>,
    ) -> Result<Verdict, StoreError> {
        let router = &self.router;
        let keys = || passed.charges.iter().map(|charge| charge.key);
        let nodes = router.nodes_of(keys().map(keys::slot));
        // One call was tried already, and the slot migrates.
        let is_split = refunds == Refunds::ToDo && !crosses_slots(keys());
        if refunds == Refunds::ToDo && !is_split {
            match self.decide_in_one_call(passed, nodes).await? {
                ControlFlow::Break(verdict) => return Ok(verdict),
                ControlFlow::Continue(left) => refunds = left,
            }
        }
        // Before anything is allocated: rejecting requests must be cheap.
        if self.queues.is_full(nodes) {
            return Err(router.busy());
        }
        let since = passed.turn.since;
        let mut request = Request::new(passed.charges, refunds, since)?;
        request.is_split = is_split;
        let (caller, waiting) = request::caller(&self.departures);
        let caller = caller.with_aside(aside);
        let member = Member { request, caller };
        match self.queues.enter(nodes, member, router.reply_timeout()) {
            Entry::Joined => {}
            Entry::New(guard) => {
                let rounds = Rounds {
                    router: Arc::clone(router),
                    caches: Arc::clone(&self.caches),
                    timeout: router.timeout(),
                    charges_at_once: self.charges_at_once,
                };
                tokio::spawn(rounds.run(guard));
            }
            Entry::Full => return Err(router.busy()),
        }
        let after = router.timeout();
        // The task may still release, or refund what some slots have charged; it has its own time
        // for that, the caller has not.
        let times = (router.reply_timeout(), Duration::from(after));
        match waiting.wait(since, times).await {
            WaitOutcome::ScriptReply(verdict) => verdict,
            WaitOutcome::Withdrawn { is_blocked: true } => Err(StoreError::Contended),
            WaitOutcome::Withdrawn { is_blocked: false } => Err(router.busy()),
            WaitOutcome::Unknown => Err(router.timeout_error()),
        }
    }
}
