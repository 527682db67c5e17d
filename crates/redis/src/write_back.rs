//! Write-back: decisions on local counts, and the reports that synchronise them.
//!
//! The first decision on a key that is charged in
//! [`Mode::WriteBack`](tollgate_core::Mode::WriteBack) is made by Redis, as in `strict`, and its
//! reply contains the count. From then on this instance decides on that count plus what it has
//! allowed itself, at Redis's time as advanced by the local clock, without waiting for a reply.
//! Every `sync_interval` it reports all keys that were charged since, and the replies contain the
//! counts of all instances together, which replace the local ones. Up to 128 keys share a message,
//! and in a Cluster 1 024 share one to each node.
//!
//! A report is added to the count as of the time of the decisions: units are charged to the window
//! or segment in which they were allowed, and to a bucket as if they had been charged at once.
//! So a single instance decides as Redis itself would. Several may over-admit.
//!
//! # The bound of over-admission
//!
//! Per window (for a bucket: per burst) at most (instances - 1) x min(N, units requested from one
//! instance within `sync_interval` and the store's timeout). Consider the instance that received
//! the latest reply before it last allowed a request. It does not know what each other instance
//! allowed after that one's last report; an instance that allowed more would have reported again.
//! That is no more than was requested from it within an interval and the time of one report, and no
//! more than N, as no instance exceeds N by what it knows. And by what the first instance knows,
//! nothing was over-admitted.
//!
//! For this, no instance goes on for longer than an interval and a timeout without a reply: units
//! that are older are reported before the next decision on the key. If that fails, the engine's
//! fallback decides. When Redis decides on a key, this instance has nothing to report for it, so
//! the decision exceeds no more than the part of the other instances.
//!
//! # Decisions that charge nothing
//!
//! A denial or a peek leaves nothing to report, so no reply would contain what other instances have
//! refunded, reset or used since the last one. If the latest decision on a key was one of these,
//! and that reply is as old as a cached denial may be ([`crate::DENIAL_CACHE_MAX`]), Redis makes
//! the next decision.
//!
//! # More than can be reported
//!
//! Reports are messages of bounded size, at most two of them in flight: a decision that waits for
//! Redis waits for few keys of a report, however many there are. A round of reports that takes
//! longer than half an interval shows that there are too many keys. Then Redis decides on keys that
//! were not charged within the last interval, one call each as in `strict`, which adds nothing to
//! report. Keys that are charged more often stay local, where one line of a report stands for
//! several decisions. Each round that was quick enough raises the number of waiting lines by a
//! quarter: from the least of all to four thousand keys in twenty intervals. Fewer keys than may
//! wait are local at once. Each waiting key waits once.
//!
//! # What is paid back
//!
//! Units allowed beyond a limit stay in the count in Redis, and every instance learns of them:
//!
//! * A token bucket goes into debt, and allows none until it has refilled: over any longer time, no
//!   more is allowed than the rate.
//! * The excess of a fixed window is charged to the next window first, and if it is more than N, to
//!   those after it. A late report of a window that was nearly over counts in the same way, up
//!   to 0.9 s after its end. If there are several versions of the limit, N is the largest that has
//!   charged the window: see [`crate::marked_window`].
//! * A sliding window keeps its segments as they are: it allows nothing until enough has left it
//!   for the estimate to be below N.
//!
//! A bucket stores at most 100 years of debt, a window 2^32 - 1 units. If the limit changes, only
//! what fits the new one is kept.
//!
//! # A report whose reply is late, or lost
//!
//! A report is awaited until its connection is closed ([`crate::session`]), far longer than a
//! decision: a late reply is applied as any other. Callers do not wait for it longer than for any
//! decision.
//!
//! If the connection breaks first, it is unknown whether the units were charged. Nearly always they
//! were, and repeating the report would charge them twice, to the wrong client: so it is not
//! repeated. If Redis never received it, the units of one instance and one interval (and a timeout)
//! are not charged. The next decision on the key fetches its count. A report that was certainly not
//! sent, or that Redis rejected, is kept and sent later.
//!
//! # A clock of Redis that is set back
//!
//! A report contains Redis's time of the last decision. If that is a second or more later than now,
//! the clock was set back, or a replica whose clock is behind has taken over. Then all units of the
//! report count as allowed now. If nobody else has charged a bucket since the last reply, it is set
//! back with them, and nothing is lost or gained. Otherwise it is exhausted until it has refilled,
//! and owes nothing.
//!
//! # What Redis decides
//!
//! Redis decides on refunds, on requests that also have limits in another mode, and on keys without
//! a local count because there are too many ([`KEYS_MAX`]): first the local counts of their keys
//! are reported. The same applies to keys that were counted here until a reload changed the mode of
//! their rule, also to reservations of them and to their settlements. A request with several limits
//! that are all counted here is decided here, all or nothing, once Redis has replied with the count
//! of each.
//!
//! While a request that Redis decides is in flight, its keys are not counted here, since a local
//! count would lack its units. Until then Redis decides on all other requests on them as well. If a
//! round over several slots decides it, that holds until the round has, also if the caller goes
//! away. Other requests are sent in one call each, and what is sent for a single key later arrives
//! later; but a caller that leaves such a call on several keys ends this early.

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
use tollgate_core::{Charge, Decision, Mode, StoreError, Verdict};

use keeper::Reporter;
use report::Report;
pub use table::KEYS_MAX;
use table::Next;
pub(crate) use table::SetAside;
use table::Table;

use crate::caches::{Caches, ChargeGuard};
use crate::config::Config;
use crate::environment::Environment;
use crate::fit::FittedLimit;
use crate::monotonic::MonotonicClock;
use crate::resp::bad_reply;
use crate::router::Router;
use crate::script_reply::coarsen;
use crate::stage::Budget;
use crate::stats::Stats;

/// The pause between attempts to report everything while reports are in flight.
const PAUSE: Duration = Duration::from_millis(1);
/// How often one request reports and tries again; for each of its keys, before Redis decides.
const ASKS_MAX: usize = 4;

/// Decides on local counts.
pub(crate) struct WriteBack {
    table: Arc<Table>,
    router: Arc<Router>,
    reporter: Reporter,
    /// Whether anything was ever decided here.
    is_used: AtomicBool,
    /// Reports the local counts in the background, for as long as it is held.
    _keeper: JoinSet<()>,
}

/// A request that Redis has to decide.
#[derive(Default)]
pub(crate) struct RemoteRequest {
    /// Until this is dropped, its keys are not counted here.
    pub(crate) aside: Option<SetAside>,
    /// Whether Redis has replied that a reservation blocks it.
    pub(crate) is_blocked: bool,
}

type Outcome = ControlFlow<Verdict, RemoteRequest>;

/// Whether a charge can be decided on a local count.
fn is_counted_here(charge: &Charge<'_>) -> bool {
    charge.sharing.mode == Mode::WriteBack
        && Mode::WriteBack.suits(charge.limit)
        && !charge.cost.is_refund()
}

// === impl WriteBack ===

impl WriteBack {
    /// Local counts, which are reported in the background from now on.
    pub(crate) fn new(
        config: &Config,
        environment: &Environment,
        (router, stats): (Arc<Router>, Arc<Stats>),
        caches: &Arc<Caches>,
    ) -> WriteBack {
        let clock = MonotonicClock::new(environment.clock.clone());
        let lasts = config.sync_interval + config.timeout;
        let table = Table::new(clock, environment.count_time.clone(), lasts);
        let reporter = Reporter {
            table: Arc::clone(&table),
            router: Arc::clone(&router),
            stats,
            caches: Arc::clone(caches),
        };
        let mut keeper = JoinSet::new();
        keeper.spawn(
            reporter
                .clone()
                .keep((config.sync_interval, config.timeout)),
        );
        WriteBack {
            table,
            router,
            reporter,
            is_used: AtomicBool::new(false),
            _keeper: keeper,
        }
    }

    /// Decides on the local counts, unless Redis has to decide.
    pub(crate) async fn decide(
        &self,
        charges: &[Charge<'_>],
        budget: &mut Budget,
    ) -> Result<Outcome, StoreError> {
        if charges.is_empty() || !charges.iter().all(is_counted_here) {
            let passed = self.pass_on(charges, budget.since()).await?;
            return Ok(ControlFlow::Continue(passed));
        }
        // Relaxed: a decision that does not see it began at the same time.
        self.is_used.store(true, Ordering::Relaxed);
        for _ in 0..ASKS_MAX {
            let outcome = match charges {
                [charge] => self.table.decide(charge)?,
                _ => self.table.decide_all(charges)?,
            };
            match (outcome, charges) {
                (Next::Decided(verdict), _) => return Ok(ControlFlow::Break(verdict)),
                (Next::Remote, _) => break,
                (Next::Redis(fitted), [charge]) => {
                    let since = budget.since();
                    return self.decide_and_learn(charge, &fitted, since).await;
                }
                (next, _) => self.learn(next, budget.since()).await?,
            }
        }
        let passed = self.give_up(charges, false, budget.since()).await?;
        Ok(ControlFlow::Continue(passed))
    }

    /// Passes on a request that only Redis can decide. If its limits have other modes, its keys may
    /// have been counted here under previous rules: Redis must know of that before it decides, and
    /// if the rules come back, the local count would lack what Redis decides now.
    pub(crate) async fn pass_on(
        &self,
        charges: &[Charge<'_>],
        since: Instant,
    ) -> Result<RemoteRequest, StoreError> {
        let keys = charges.iter().map(|charge| charge.key);
        let mode = |charge: &Charge<'_>| charge.sharing.mode;
        let is_known = !charges.iter().any(|charge| mode(charge) == Mode::WriteBack)
            && (!self.is_used.load(Ordering::Relaxed) || self.table.counts_none(keys));
        match is_known {
            true => Ok(RemoteRequest::default()),
            false => self.give_up(charges, true, since).await,
        }
    }

    /// Has Redis decide, and starts a local count from its reply.
    async fn decide_and_learn(
        &self,
        charge: &Charge<'_>,
        fitted: &FittedLimit,
        since: Instant,
    ) -> Result<Outcome, StoreError> {
        let learning = self.table.learn(charge.key);
        let guard = ChargeGuard::new(&self.reporter.caches, std::slice::from_ref(charge));
        let reply = self.router.ask_one(charge, fitted, since).await?;
        if reply.is_blocked() {
            let keys = std::iter::once(charge.key);
            let aside = self.table.set_aside(keys, false);
            drop(learning);
            return Ok(ControlFlow::Continue(RemoteRequest {
                aside: Some(aside),
                is_blocked: true,
            }));
        }
        let verdict = reply.of_one(charge, fitted).map_err(bad_reply)?;
        guard.end(Some(&verdict));
        let Ok((snapshot, now)) = reply.snapshot(fitted) else {
            return Ok(ControlFlow::Break(verdict));
        };
        let decision = learning.finish(snapshot, charge, now);
        // The debt of a bucket makes a wait longer, which only the local count knows.
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

    /// Reports, or waits for another report, but no longer than a decision may take.
    async fn learn(&self, next: Next, since: Instant) -> Result<(), StoreError> {
        let deadline = since + self.router.reply_timeout();
        match next {
            Next::Decided(_) | Next::Remote | Next::Redis(_) => Ok(()),
            Next::Wait(reply) => {
                let replied = timeout_at(deadline, reply).await;
                replied.map_err(|_late| self.router.timeout_error())
            }
            Next::Report(report) => self.report(report, deadline).await,
        }
    }

    /// Reports in a separate task: a report must not be lost if the caller goes away or times out.
    async fn report(&self, report: Report, deadline: Instant) -> Result<(), StoreError> {
        let reporter = self.reporter.clone();
        let sent = tokio::spawn(async move { reporter.send(report).await });
        match timeout_at(deadline, sent).await {
            Ok(Ok(sent)) => match sent.failure {
                None => Ok(()),
                Some(failure) => Err(self.router.error(failure)),
            },
            Ok(Err(_stopped_with_the_runtime)) => Err(StoreError::Contended),
            Err(_late) => Err(self.router.timeout_error()),
        }
    }

    /// Reports the local counts of these keys before Redis decides. If that fails, Redis lacks
    /// what was allowed here, and must not decide.
    async fn give_up(
        &self,
        charges: &[Charge<'_>],
        is_foreign: bool,
        since: Instant,
    ) -> Result<RemoteRequest, StoreError> {
        let keys = || charges.iter().map(|charge| charge.key);
        let aside = self.table.set_aside(keys(), is_foreign);
        for _ in 0..ASKS_MAX * charges.len() {
            let Some(next) = self.table.give_up(keys()) else {
                return Ok(RemoteRequest {
                    aside: Some(aside),
                    is_blocked: false,
                });
            };
            self.learn(next, since).await?;
        }
        Err(StoreError::Contended)
    }

    /// The number of decisions on local counts, and of keys with one.
    pub(crate) fn counts(&self) -> (u64, usize) {
        self.table.counts()
    }

    /// Reports everything, and waits for reports in flight; gives up at the deadline.
    pub(crate) async fn report_all(&self, deadline: Instant) {
        while Instant::now() < deadline {
            let round = self.reporter.report_round();
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
