//! Requests whose keys lie in several slots: still all or nothing.
//!
//! No script sees more than one slot. So every slot first reserves what a request takes there:
//! reserved units are beside the account, and whatever else is judged meanwhile must fit beside
//! them. If all slots have reserved, every slot confirms, which charges what it holds; only then
//! the answer is yes. Otherwise every slot lets go. That is two round trips, each to all slots at
//! once.
//!
//! Requests go through this in rounds: all that wait for the same keys reserve together, each key
//! with one call, for as many of them as there are units (`queue.rs`, `plan.rs`). Each has its own
//! verdict. What the slots remembered before the round decides who is denied; those who do not fit
//! only because of others of the round wait for the next one, which sees what these were charged.
//! So the number of calls does not grow with the number of requests, and requests of one instance
//! never block each other.
//!
//! Under load, of each request of a round one slot may charge at once what it would reserve, after
//! all others have reserved (`plan/at_once.rs`): then it is called once instead of twice, and the
//! round takes a third round trip. Nothing but that slot can deny these requests any more. What it
//! charges is confirmed for them in the other slots, as if it were the first to confirm.
//!
//! A reservation expires by Redis's own clock (`round.rs`), and if that goes back, at most as much
//! later as it was made for, rounded up to a power of two. Who crashes before confirming has taken
//! nothing, who crashes between confirmations, of which charging at once is the first, has at most
//! that one round charged. A confirmation that comes too late charges nothing; then, and if a
//! confirmation fails, what the others have charged goes back. One whose answer is lost may stay
//! charged, as any request whose answer is.
//!
//! A denied request may be charged up to the limit while units of it are reserved, which may be
//! released. What it is charged of them is taken off the reservation, so that confirming that comes
//! to the same as if it had been charged before the denied request (`charge_denied` in
//! `script/general/account.lua`).
//!
//! A request that does not fit only because of another instance's reservation is undecided: the
//! reservation may be released. It asks again until it is decided, or its time is over. Two such
//! instances must not wait for each other: from the second time on the slots are asked one after
//! the other, the lowest first, after pauses that grow and differ.

mod fate;

mod form;

mod load;

mod parts;

mod plan;

mod queue;

mod request;

mod round;

use std::sync::Arc;

use tokio::time::Duration;
use tollgate_core::{Bill, StoreError, Verdict};

use queue::{Entry, Member, Queues};
pub(crate) use request::Refunds;
use request::{Request, WaitOutcome};
use round::Rounds;

use crate::environment::Environment;
use crate::keys;
use crate::router::Router;
use crate::stage;

/// Whether the keys of a bill lie in more than one slot.
pub(crate) fn crosses_slots(bill: &Bill<'_>) -> bool {
    let mut slots = bill.lines().iter().map(|line| keys::slot(line.charge.key));
    let first = slots.next();
    slots.any(|slot| Some(slot) != first)
}

/// Decides over several slots.
pub(crate) struct CrossSlot {
    router: Arc<Router>,
    /// Requests that wait for their round.
    queues: Arc<Queues>,
    /// Rounds charge at once wherever they can.
    charges_at_once: bool,
}

// === impl CrossSlot ===

impl CrossSlot {
    pub(crate) fn new(environment: &Environment, router: Arc<Router>) -> CrossSlot {
        CrossSlot {
            router,
            queues: Arc::default(),
            charges_at_once: environment.charges_at_once,
        }
    }

    /// All or nothing over charges in any slots.
    ///
    /// In a task of its own: a caller that goes away meanwhile leaves nothing reserved, and nothing
    /// charged in one slot and not in another. Until every slot has reserved, the request ends
    /// without a charge; from then on it is charged, as a request is that was sent.
    pub(crate) async fn decide(
        &self,
        asked: &stage::Request<'_>,
        refunds: Refunds,
    ) -> Result<Verdict, StoreError> {
        let router = &self.router;
        let slots = asked.charges.iter().map(|charge| keys::slot(charge.key));
        let nodes = router.nodes_of(slots);
        // Before anything is allocated: turning requests away must cost little.
        if self.queues.is_full(nodes) {
            return Err(router.busy());
        }
        let since = asked.since;
        let request = Request::new(asked.charges, refunds, since)?;
        let (caller, waiting) = request::caller();
        let member = Member { request, caller };
        match self.queues.enter(nodes, member, router.reply_timeout()) {
            Entry::Waits => {}
            Entry::First(turn) => {
                let rounds = Rounds {
                    router: Arc::clone(router),
                    timeout: router.timeout(),
                    charges_at_once: self.charges_at_once,
                };
                tokio::spawn(rounds.run(turn));
            }
            Entry::Full => return Err(router.busy()),
        }
        let after = router.timeout();
        // The task may be releasing, or taking back what some slots have charged, which has time of
        // its own; its caller has not.
        let times = (router.reply_timeout(), Duration::from(after));
        match waiting.wait(since, times).await {
            WaitOutcome::ScriptReply(verdict) => verdict,
            WaitOutcome::Withdrawn { is_blocked: true } => Err(StoreError::Contended),
            WaitOutcome::Withdrawn { is_blocked: false } => Err(router.busy()),
            WaitOutcome::Unknown => Err(router.timeout_error()),
        }
    }
}
