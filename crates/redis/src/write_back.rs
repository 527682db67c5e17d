//! Decisions on this instance's own count, and the reports that follow them.
//!
//! The first decision on a key that is charged in
//! [`Mode::WriteBack`](tollgate_core::Mode::WriteBack) is made by Redis, as in `strict`, and its
//! answer tells the count. From then on this instance decides on that count, plus what it has
//! allowed itself, at Redis's time as its own clock carries it forward: no waiting, no message.
//! Every `sync_interval` it reports all keys that were charged since, and hears what all instances
//! together have counted, which replaces what was known. Up to 128 keys share a message, and in a
//! Cluster 1 024 share one to each node.
//!
//! Everything that this instance does is added to the count as of when it did it: units to the
//! window or the segment in which they were allowed, to a bucket as if they had come when they
//! came. So one instance alone decides as Redis itself would. Several may allow too much.
//!
//! # How much too much
//!
//! Per window (of a bucket: at once, beyond what it holds) at most (instances - 1) x min(N, units
//! that one instance is asked for within `sync_interval` and the store's timeout). Take the
//! instance that heard from Redis last before it last allowed a request. What it does not know is
//! what each other instance allowed after its own last report: an instance that went on would have
//! reported again. That is no more than it was asked for within an interval and the time of one
//! report, and no more than N, as no instance goes beyond N by what it knows. And by what that last
//! instance knows, nothing was too much.
//!
//! For that, no instance goes on for longer than an interval and a timeout without having been
//! answered: what is older is reported before the next decision on the key. If that fails, its
//! error is what the engine's fallback decides on. A decision that Redis makes for a key is made
//! when this instance has nothing to report of it, so it exceeds no more than the other instances'
//! part.
//!
//! # More than can be reported
//!
//! Reports are bounded messages, of which two at most are on their way: a decision that waits for
//! Redis waits for few keys of a report, however many there are. A round of reports that takes
//! longer than half an interval says that there are too many of them. Then keys that were not
//! charged within the last interval are decided by Redis, one call each as in `strict`, and add
//! nothing to report; keys that are charged more often than that go on here, where one line of a
//! report stands for several decisions. Each round that was quick enough lets a quarter more wait
//! to be reported, so an instance whose load falls counts by itself again within a few intervals.
//! Whatever waits, each key waits once.
//!
//! # What is paid back
//!
//! What was allowed beyond a limit stays in the count in Redis, and every instance hears of it:
//!
//! * A token bucket owes the units, and allows none until time has paid for them: over any longer
//!   time, no more is allowed than the rate allows.
//! * A fixed window's surplus is the first that the next window has consumed, and if it is more
//!   than N, so on with those after it. What is reported late, because its window was nearly over,
//!   counts the same, up to 0.9 s after its end. Of several versions of the limit, N is the largest
//!   that has charged the window: see [`crate::marked_window`].
//! * A sliding window keeps its segments as they are: it allows nothing until what leaves makes
//!   the estimate less than N.
//!
//! A bucket remembers at most 100 years of debt, a window 2^32 - 1 units. If the limit changes,
//! only what fits the new one is kept.
//!
//! # A report whose answer is late, or lost
//!
//! A report is waited for until its connection is given up ([`crate::session`]), far longer than a
//! decision: an answer that is late is heard, and everything in it counts. Callers do not wait for
//! it longer than for any decision.
//!
//! If the connection breaks first, nobody knows whether the units were charged. Nearly always they
//! were, and repeated they would be charged twice, to a client that did nothing: so they are not.
//! If Redis never had them, what one instance allowed within one interval (and a timeout) is not
//! charged. The next decision on the key asks for its count; if there is none, nobody asks. A
//! report that was certainly not sent, or that Redis denied, is kept and sent later.
//!
//! # What is asked of Redis
//!
//! Refunds, requests that also meet limits of another mode, and keys that find no room
//! ([`KEYS_MAX`]): first what is known of their keys is reported, then Redis decides. The same goes
//! for keys that were counted here until a reload gave their rule another mode. A request
//! over several limits that are all counted here is decided here, all or nothing, once Redis has
//! replied with the count of each.
//!
//! While a request is on its way that Redis decides, its keys are not counted here: a local count
//! would not contain what it takes. Redis decides all other requests on them as well until it is
//! over.

mod keeper;

mod report;

mod skewed;

mod table;

mod tally;

use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tokio::task::JoinSet;
use tokio::time::{Duration, Instant, sleep, timeout_at};
use tollgate_core::{Charge, Cost, Decision, Mode, StoreError, Verdict};

use keeper::keep;
use report::Report;
pub use table::KEYS_MAX;
use table::Next;
use table::{SetAside, Table};

use crate::config::Config;
use crate::environment::Environment;
use crate::fit::FittedLimit;
use crate::monotonic::MonotonicClock;
use crate::resp::bad_reply;
use crate::router::Router;
use crate::script_reply::coarsen;
use crate::stage::Budget;
use crate::stats::Stats;

/// How long to wait, while everything is reported, for what is on its way.
const PAUSE: Duration = Duration::from_millis(1);
/// How often one request reports and tries again; for each of its keys, before Redis decides.
const ASKS_MAX: usize = 4;

/// Decides on local counts.
pub(crate) struct WriteBack {
    table: Arc<Table>,
    router: Arc<Router>,
    stats: Arc<Stats>,
    /// Whether anything was ever decided here.
    is_used: AtomicBool,
    /// Reports what was allowed here, for as long as it is held.
    _reporter: JoinSet<()>,
}

/// A request that Redis is to decide.
#[derive(Default)]
pub(crate) struct RemoteRequest<'t> {
    /// Until this is dropped, its keys are not counted here.
    _aside: Option<SetAside<'t>>,
    /// Redis was asked, and a reservation was in the way.
    pub(crate) is_blocked: bool,
}

type Outcome<'t> = ControlFlow<Verdict, RemoteRequest<'t>>;

/// Whether an instance can count for itself what this charge takes.
fn is_counted_here(charge: &Charge<'_>) -> bool {
    charge.sharing.mode == Mode::WriteBack
        && Mode::WriteBack.suits(charge.limit)
        && !matches!(charge.cost, Cost::Refund(_))
}

// === impl WriteBack ===

impl WriteBack {
    /// Local counts that are reported from now on.
    pub(crate) fn new(
        config: &Config,
        environment: &Environment,
        (router, stats): (Arc<Router>, Arc<Stats>),
    ) -> WriteBack {
        let clock = MonotonicClock::new(environment.clock.clone());
        let lasts = config.sync_interval + config.timeout;
        let table = Table::new(clock, environment.redis_time.clone(), lasts);
        let mut reporter = JoinSet::new();
        reporter.spawn(keep(
            Arc::clone(&table),
            Arc::clone(&router),
            Arc::clone(&stats),
            (config.sync_interval, config.timeout),
        ));
        WriteBack {
            table,
            router,
            stats,
            is_used: AtomicBool::new(false),
            _reporter: reporter,
        }
    }

    /// Decides on the local counts, unless Redis is to be asked.
    pub(crate) async fn decide(
        &self,
        charges: &[Charge<'_>],
        budget: &mut Budget,
    ) -> Result<Outcome<'_>, StoreError> {
        let mode = |charge: &Charge<'_>| charge.sharing.mode;
        if !charges.iter().any(|charge| mode(charge) == Mode::WriteBack) {
            return self.pass_on(charges, budget.since()).await;
        }
        // Relaxed: a decision that does not see it began at the same time.
        self.is_used.store(true, Ordering::Relaxed);
        if !charges.iter().all(is_counted_here) {
            return self.give_up(charges, true, budget.since()).await;
        }
        for _ in 0..ASKS_MAX {
            let outcome = match charges {
                [charge] => self.table.decide(charge)?,
                _ => self.table.decide_all(charges)?,
            };
            match (outcome, charges) {
                (Next::Decided(verdict), _) => return Ok(ControlFlow::Break(verdict)),
                (Next::NotHere, _) => break,
                (Next::Redis(fitted), [charge]) => {
                    let since = budget.since();
                    return self.decide_and_learn(charge, &fitted, since).await;
                }
                (next, _) => self.learn(next, budget.since()).await?,
            }
        }
        self.give_up(charges, false, budget.since()).await
    }

    /// Passes on a request whose limits have other modes. Under previous rules its keys may have
    /// been counted here: Redis must know of that before it decides, and if the rules come back,
    /// the count here lacks what Redis decides now.
    async fn pass_on(
        &self,
        charges: &[Charge<'_>],
        since: Instant,
    ) -> Result<Outcome<'_>, StoreError> {
        let keys = charges.iter().map(|charge| charge.key);
        if !self.is_used.load(Ordering::Relaxed) || self.table.counts_none(keys) {
            return Ok(ControlFlow::Continue(RemoteRequest::default()));
        }
        self.give_up(charges, true, since).await
    }

    /// Has Redis decide, and goes on from its answer here.
    async fn decide_and_learn(
        &self,
        charge: &Charge<'_>,
        fitted: &FittedLimit,
        since: Instant,
    ) -> Result<Outcome<'_>, StoreError> {
        let learning = self.table.learn(charge.key);
        let reply = self.router.ask_one(charge, fitted, since).await?;
        if reply.is_blocked() {
            let keys = std::iter::once(charge.key);
            let aside = self.table.set_aside(keys, false);
            drop(learning);
            return Ok(ControlFlow::Continue(RemoteRequest {
                _aside: Some(aside),
                is_blocked: true,
            }));
        }
        let verdict = reply.of_one(charge, fitted).map_err(bad_reply)?;
        let Ok((snapshot, now)) = reply.snapshot(fitted) else {
            return Ok(ControlFlow::Break(verdict));
        };
        let decision = learning.finish(snapshot, charge, now);
        // What a bucket owes makes a wait longer, which only the count here knows.
        let agrees = |decision: &Decision| {
            let there = verdict.decisions.first();
            there.is_some_and(|there| there.is_allowed() == decision.is_allowed())
        };
        let decision = decision.filter(agrees);
        Ok(ControlFlow::Break(decision.map_or(verdict, |decision| {
            let mut verdict = Verdict::of_one(charge, decision);
            coarsen(&mut verdict);
            verdict
        })))
    }

    /// Reports, or waits for who does, but no longer than a decision may take.
    async fn learn(&self, next: Next, since: Instant) -> Result<(), StoreError> {
        let deadline = since + self.router.reply_timeout();
        match next {
            Next::Decided(_) | Next::NotHere | Next::Redis(_) => Ok(()),
            Next::Wait(reply) => {
                let replied = timeout_at(deadline, reply).await;
                replied.map_err(|_late| self.router.timeout_error())
            }
            Next::Ask(report) => self.report(report, deadline).await,
        }
    }

    /// Reports in a task of its own: a report must not get lost if the caller goes, or has
    /// waited long enough.
    async fn report(&self, report: Report, deadline: Instant) -> Result<(), StoreError> {
        let table = Arc::clone(&self.table);
        let (router, stats) = (Arc::clone(&self.router), Arc::clone(&self.stats));
        let sent = tokio::spawn(async move { keeper::send(report, &table, &router, &stats).await });
        match timeout_at(deadline, sent).await {
            Ok(Ok(sent)) => match sent.failure {
                None => Ok(()),
                Some(asked) => Err(self.router.error(asked)),
            },
            Ok(Err(_stopped_with_the_runtime)) => Err(StoreError::Contended),
            Err(_late) => Err(self.router.timeout_error()),
        }
    }

    /// Reports what is known of these keys before Redis decides. If that fails, Redis does not know
    /// what was allowed here, and is not asked.
    async fn give_up(
        &self,
        charges: &[Charge<'_>],
        is_foreign: bool,
        since: Instant,
    ) -> Result<Outcome<'_>, StoreError> {
        let keys = || charges.iter().map(|charge| charge.key);
        let aside = self.table.set_aside(keys(), is_foreign);
        for _ in 0..ASKS_MAX * charges.len() {
            let Some(next) = self.table.give_up(keys()) else {
                return Ok(ControlFlow::Continue(RemoteRequest {
                    _aside: Some(aside),
                    is_blocked: false,
                }));
            };
            self.learn(next, since).await?;
        }
        Err(StoreError::Contended)
    }

    /// Decisions on local counts, and the keys that are counted.
    pub(crate) fn counts(&self) -> (u64, usize) {
        self.table.counts()
    }

    /// Reports everything, what is on its way included; gives up at the deadline.
    pub(crate) async fn report_all(&self, deadline: Instant) {
        while Instant::now() < deadline {
            let round = keeper::report_round(&self.table, &self.router, &self.stats);
            let _kept_if_it_was_not_sent = timeout_at(deadline, round).await;
            if self.table.is_reported() {
                return;
            }
            sleep(PAUSE).await;
        }
    }
}

#[cfg(test)]
mod tests;
