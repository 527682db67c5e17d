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
//! A reservation expires by Redis's own clock (`round.rs`), and if that goes back, at most as much
//! later as it was made for, rounded up to a power of two. Who crashes before confirming has taken
//! nothing, who crashes between confirmations has at most that one round charged. A confirmation
//! that comes too late charges nothing; then, and if a confirmation fails, what the others have
//! charged goes back. One whose answer is lost may stay charged, as any question whose answer is.
//!
//! Whoever does not fit only because of another instance's reservation does not know yet: that one
//! may let go. It asks again until it knows, or its time is over. Two such instances must not wait
//! for each other: from the second time on the slots are asked one after the other, the lowest
//! first, after pauses that grow and differ.

mod parts;

mod plan;

mod queue;

mod request;

mod round;

use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::Poll;

use tokio::time::{Duration, Instant};
use tollgate_core::{Bill, Charge, StoreError, Verdict};

pub(crate) use queue::Queues;
use queue::{Entered, Member};
use request::{Request, Waited};
use round::Rounds;

use crate::keys;
use crate::simulated::{is_seeded, random_word};
use crate::store::Redis;

/// More milliseconds than two to this power are never reserved for: 24 days, by when any wait is
/// over.
const POWER_MAX: u32 = 31;

/// Whether what a request gives back was given back already: by an attempt that was blocked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refunds {
    ToDo,
    Done,
}

/// Whether the keys of a bill lie in more than one slot.
pub(crate) fn is_apart(bill: &Bill<'_>) -> bool {
    let mut slots = bill.lines().iter().map(|line| keys::slot(line.charge.key));
    let first = slots.next();
    slots.any(|slot| Some(slot) != first)
}

impl Redis {
    /// All or nothing over lines in several slots.
    ///
    /// In a task of its own: whoever goes away meanwhile leaves nothing reserved, and nothing
    /// charged in one slot and not in another. Until every slot has reserved, the request ends
    /// without a charge; from then on it is charged, as a question is that was sent.
    pub(crate) async fn decide_apart(
        &self,
        charges: &[Charge<'_>],
        refunds: Refunds,
        since: Instant,
    ) -> Result<Verdict, StoreError> {
        let reach = self.reach();
        let request = Request::new(charges, refunds, since)?;
        let (caller, waiting) = request::caller();
        let slots = charges.iter().map(|charge| keys::slot(charge.key));
        let nodes = reach.nodes_of(slots);
        match self.queues().enter(nodes, Member { request, caller }) {
            Entered::Waits => {}
            Entered::First(turn) => {
                let rounds = Rounds {
                    reach: Arc::clone(reach),
                    timeout: self.timeout(),
                };
                tokio::spawn(rounds.run(turn));
            }
            Entered::Full => return Err(reach.busy()),
        }
        let after = self.timeout();
        // The task may be releasing, or taking back what some slots have charged, which has time of
        // its own; its caller has not.
        let times = (reach.patience(), Duration::from(after));
        match waiting.wait(since, times).await {
            Waited::Told(verdict) => verdict,
            Waited::Withdrawn { is_blocked: true } => Err(StoreError::Contended),
            Waited::Withdrawn { is_blocked: false } => Err(reach.busy()),
            Waited::Unknown => Err(StoreError::TimedOut { after }),
        }
    }
}

/// A name that no other reservation or lease has: 64 bits, random for each process and counted
/// within it.
pub(crate) fn unique_name() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    let count = NEXT.fetch_add(0x9E37_79B9_7F4A_7C15, Ordering::Relaxed);
    static FIRST: std::sync::OnceLock<u64> = std::sync::OnceLock::new();
    let name = FIRST.get_or_init(random_word).wrapping_add(count);
    // What a simulation draws does not depend on what else the process has named.
    let name = if is_seeded() { random_word() } else { name };
    // So that nothing begins with a byte of 255, as marks do.
    name & !(1 << 62)
}

/// A name for a reservation that lasts so many microseconds: its first byte says, as a power of two
/// in milliseconds, how long that is at most.
pub(crate) fn reservation_name(lasts: u64) -> u64 {
    let millis = lasts.div_ceil(1_000).max(1);
    // So many bits that the number below it has.
    let power = u64::BITS - (millis - 1).leading_zeros();
    u64::from(power.min(POWER_MAX)) << 56 | unique_name() >> 8
}

/// All of these at once, each with its result.
pub(crate) async fn together<T>(futures: Vec<impl Future<Output = T>>) -> Vec<T> {
    let mut futures: Vec<Pin<Box<_>>> = futures.into_iter().map(Box::pin).collect();
    let mut results: Vec<Option<T>> = futures.iter().map(|_| None).collect();
    poll_fn(|context| {
        let mut is_pending = false;
        for (future, result) in futures.iter_mut().zip(&mut results) {
            if result.is_none() {
                match future.as_mut().poll(context) {
                    Poll::Ready(ready) => *result = Some(ready),
                    Poll::Pending => is_pending = true,
                }
            }
        }
        if is_pending {
            Poll::Pending
        } else {
            Poll::Ready(())
        }
    })
    .await;
    results.into_iter().flatten().collect()
}
