//! Decisions on this node's own count, and the reports that follow them.
//!
//! A key that is charged in [`Mode::WriteBack`](tollgate_core::Mode::WriteBack) is asked of Redis
//! once; from then on this node decides on the count that it was told, plus what it has admitted
//! itself, at Redis's time as its own clock carries it forward: no waiting, no message. Every
//! `sync_interval` one message to each node of Redis reports all keys that were charged since,
//! however many and however often, and brings back what all nodes together have counted, which
//! replaces what was known.
//!
//! Everything that this node does is added to the count as of when it did it: units to the window
//! or the segment in which they were admitted, to a bucket as if they had come when they came. So
//! one node alone decides as Redis itself would. Several may admit too much.
//!
//! # How much too much
//!
//! Per window (of a bucket: at once, beyond what it holds) at most (nodes - 1) x min(N, units that
//! one node is asked for within `sync_interval` and the store's timeout). Take the node that heard
//! from Redis last before its last admission. What it does not know is what each other node
//! admitted after its own last report: a node that went on would have reported again. That is no
//! more than it was asked for within an interval and the time of one report, and no more than N,
//! as no node goes beyond N by what it knows. And by what that last node knows, nothing was too
//! much.
//!
//! For that, no node goes on for longer than an interval and a timeout without having been
//! answered: if a report fails, the next decision asks, and its error is what [`crate::Fallback`]
//! decides on.
//!
//! # What is paid back
//!
//! What was admitted beyond a limit stays in the count in Redis, and is told to every node:
//!
//! * A token bucket owes the units, and admits none until time has paid for them: over any longer
//!   time, no more is admitted than the rate allows.
//! * A fixed window's surplus is the first that the next window has consumed, and if it is more
//!   than N, so on with those after it. What is reported late, because its window was nearly over,
//!   counts the same, up to 0.9 s after its end.
//! * A sliding window keeps its segments as they are: it admits nothing until what leaves makes
//!   the estimate less than N.
//!
//! A bucket remembers at most 100 years of debt, a window 2^32 - 1 units. If the limit changes,
//! only what fits the new one is kept.
//!
//! # A report whose answer is lost
//!
//! is never repeated. It goes over an open connection, and nearly always it was charged: what is
//! late is the answer. Told again, the units would be charged twice, to somebody who did nothing.
//! If the connection broke before Redis had it, what one node admitted within one interval (and a
//! timeout) is not charged. A report that was certainly not sent, or that Redis refused, is kept
//! and told later.
//!
//! # What is asked of Redis
//!
//! Refunds, requests that also meet limits of another mode, and keys that find no room
//! ([`KEYS_MAX`]): first what is known of their keys is reported, then Redis decides. A request
//! over several limits that are all counted here is decided here, all or nothing.

mod keeper;

mod report;

mod table;

mod tally;

use std::sync::Arc;

use tokio::time::{Duration, Instant, sleep, timeout_at};
use tollgate_core::{Charge, Cost, Mode, StoreError, Verdict};

pub(crate) use keeper::keep;
use report::Report;
pub use table::KEYS_MAX;
use table::Outcome;
pub(crate) use table::Table;

use crate::store::Redis;

/// How long to wait, while everything is reported, for what is on its way.
const PAUSE: Duration = Duration::from_millis(1);
/// How often one request reports and tries again.
const ASKS_MAX: usize = 4;

/// Whether a node can count for itself what this charge takes.
fn is_counted_here(charge: &Charge<'_>) -> bool {
    charge.sharing.mode == Mode::WriteBack
        && Mode::WriteBack.suits(charge.limit.algorithm())
        && !matches!(charge.cost, Cost::Refund(_))
}

impl Redis {
    /// Decides on this node's own count; nothing, if Redis is to be asked.
    pub(crate) async fn decide_here(
        &self,
        charges: &[Charge<'_>],
    ) -> Result<Option<Verdict>, StoreError> {
        let mode = |charge: &Charge<'_>| charge.sharing.mode;
        if !charges.iter().any(|charge| mode(charge) == Mode::WriteBack) {
            return Ok(None);
        }
        if !charges.iter().all(is_counted_here) {
            self.give_up(charges).await;
            return Ok(None);
        }
        let mut since = None;
        for _ in 0..ASKS_MAX {
            let outcome = match charges {
                [charge] => self.table().decide(charge)?,
                _ => self.table().decide_all(charges)?,
            };
            let outcome = match outcome {
                Outcome::Decided(verdict) => return Ok(Some(verdict)),
                outcome => outcome,
            };
            let since = *since.get_or_insert_with(Instant::now);
            match outcome {
                Outcome::NoRoom => break,
                outcome => self.learn(outcome, since).await?,
            }
        }
        self.give_up(charges).await;
        Ok(None)
    }

    /// Reports, or waits for who does.
    async fn learn(&self, outcome: Outcome, since: Instant) -> Result<(), StoreError> {
        let deadline = since + self.reach().patience();
        match outcome {
            Outcome::Decided(_) | Outcome::NoRoom => Ok(()),
            Outcome::Wait(told) => match timeout_at(deadline, told).await {
                Ok(()) => Ok(()),
                Err(_) => Err(StoreError::Contended),
            },
            Outcome::Flush(told) => {
                // Whatever fails, this key's next ask will tell.
                let _of_all = self.learn_from(self.table().due(), since).await;
                // It rang meanwhile, or another task is at it.
                match timeout_at(deadline, told).await {
                    Ok(()) => Ok(()),
                    Err(_) => Err(StoreError::Contended),
                }
            }
            Outcome::Ask(report) => self.learn_from(report, since).await,
        }
    }

    /// Reports, on its own: what is told must not get lost if the asker goes.
    async fn learn_from(&self, report: Report, since: Instant) -> Result<(), StoreError> {
        let table = Arc::clone(self.table());
        let (reach, stats) = (Arc::clone(self.reach()), Arc::clone(self.stats()));
        let told =
            tokio::spawn(async move { keeper::send(report, &table, &reach, &stats, since).await });
        match told.await {
            Ok(told) => told.map_err(|asked| asked.into_error(self.timeout())),
            Err(_) => Err(StoreError::Contended),
        }
    }

    /// Reports what is known of these keys before Redis decides. If that fails, the decision will
    /// find out.
    async fn give_up(&self, charges: &[Charge<'_>]) {
        let since = Instant::now();
        for _ in 0..ASKS_MAX {
            let keys = charges.iter().map(|charge| charge.key);
            let Some(outcome) = self.table().give_up(keys) else {
                return;
            };
            if self.learn(outcome, since).await.is_err() {
                return;
            }
        }
    }

    /// Reports everything, what is on its way included; gives up at the deadline.
    pub(crate) async fn report_all(&self, deadline: Instant) {
        loop {
            let report = self.table().due();
            let now = Instant::now();
            let _kept_if_it_was_not_sent =
                keeper::send(report, self.table(), self.reach(), self.stats(), now).await;
            if self.table().is_reported() || Instant::now() >= deadline {
                return;
            }
            sleep(PAUSE).await;
        }
    }
}

#[cfg(test)]
mod tests;
