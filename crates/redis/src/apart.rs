//! A request whose keys lie in several slots: still all or nothing.
//!
//! No script sees more than one slot. So every slot first reserves what the request takes there:
//! reserved units are beside the account, and whatever else is judged meanwhile must fit beside
//! them. If all slots have reserved, every slot confirms, which charges what it holds; only then
//! the answer is yes. Otherwise every slot lets go. That is two round trips, each to all slots at
//! once.
//!
//! A reservation expires by Redis's own clock ([`LASTS`]), and if that goes back, at most as much
//! later as it was made for, rounded up to a power of two. Who crashes before confirming has taken
//! nothing, who crashes between confirmations has at most that one request charged. A confirmation
//! that comes too late charges nothing; then, and if a confirmation fails, what the others have
//! charged goes back. One whose answer is lost may stay charged, as any question whose answer is.
//!
//! Whoever is refused only because of another request's reservation does not know yet: that one
//! may let go. It asks again until it knows, or its time is over. Two such requests must not wait
//! for each other: from the second time on the slots are asked one after the other, the lowest
//! first.

mod parts;
mod request;

use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::Poll;

use tokio::sync::oneshot;
use tokio::time::{Duration, Instant, sleep, timeout_at};
use tollgate_core::{Bill, Charge, Span, StoreError, Verdict};

use parts::{Apart, Judged};
use request::{Caller, Request};

use crate::fit::Fitted;
use crate::keys;
use crate::question::{Question, Step};
use crate::reach::{Asked, Reach};
use crate::simulated::{is_seeded, random_word};
use crate::store::{Redis, malformed};
use crate::told::{self, General, Status, Told};

/// How long a reservation lasts, in timeouts of a decision, and at least.
const LASTS: u64 = 10;
const LASTS_MIN: Span = Span::from_millis(100);
/// More milliseconds than two to this power are never reserved for: 24 days, by when any wait is
/// over.
const POWER_MAX: u32 = 31;
/// How long to wait for another request's reservation before asking again.
const PAUSE: Duration = Duration::from_micros(500);

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
        let commit = Commit {
            reach: Arc::clone(self.reach()),
            timeout: self.timeout(),
            request: Request::new(charges)?,
            since,
        };
        let (caller, verdict) = oneshot::channel();
        tokio::spawn(commit.decide(refunds, Caller::new(caller)));
        let after = self.timeout();
        let deadline = since + after.into();
        // The task may be releasing, or taking back what some slots have charged, which has time of
        // its own; its caller has not. A task that does not end was stopped with the runtime.
        let verdict = timeout_at(deadline, verdict)
            .await
            .ok()
            .and_then(Result::ok);
        verdict.unwrap_or(Err(StoreError::TimedOut { after }))
    }
}

/// The two-phase commit of one request.
struct Commit {
    reach: Arc<Reach>,
    timeout: Span,
    request: Request,
    since: Instant,
}

/// What became of an attempt.
enum Attempt {
    /// The caller was told, or is gone.
    Told,
    /// Another request's reservation was in the way.
    Blocked,
}

// === impl Commit ===

impl Commit {
    async fn decide(self, mut refunds: Refunds, mut caller: Caller) {
        let mut one_by_one = false;
        loop {
            match self.attempt(refunds, one_by_one, &mut caller).await {
                Ok(Attempt::Told) => return,
                Ok(Attempt::Blocked) => {}
                Err(error) => return caller.tell(Err(error)),
            }
            if !caller.is_here() {
                return;
            }
            if self.since.elapsed() >= self.reach.patience() {
                return caller.tell(Err(StoreError::Contended));
            }
            sleep(PAUSE).await;
            one_by_one = true;
            refunds = Refunds::Done;
        }
    }

    async fn attempt(
        &self,
        refunds: Refunds,
        one_by_one: bool,
        caller: &mut Caller,
    ) -> Result<Attempt, StoreError> {
        let charges = self.request.charges(refunds);
        let (bill, fitted) = told::bill(&charges, &self.request.fitted)?;
        let apart = Apart::new(&charges, &bill, &fitted);
        let lasts = Span::from_nanos(self.timeout.as_nanos().saturating_mul(LASTS));
        let lasts = lasts.max(LASTS_MIN).as_nanos() / 1_000;
        let name = reservation_name(lasts);
        let reserve = Step::Reserve { name, lasts };
        let told = match one_by_one {
            false => {
                self.step(&apart, reserve, &apart.every_part(), self.since)
                    .await
            }
            true => self.reserve_one_by_one(&apart, reserve, caller).await,
        };
        let held = holding(&told);
        let told: Result<Vec<General>, Asked> = told.into_iter().collect();
        let told = match told {
            Ok(told) if told.len() == apart.parts.len() => told,
            Ok(_gone_meanwhile) => {
                self.give_back(&apart, name, &held).await;
                return Ok(Attempt::Told);
            }
            Err(asked) => {
                // Whatever was lost was a reservation, which expires: nothing is charged.
                caller.tell(Err(asked.into_unsent().into_error(self.timeout)));
                self.give_back(&apart, name, &apart.every_part()).await;
                return Ok(Attempt::Told);
            }
        };
        let any = |status| told.iter().any(|told| told.status == status);
        if any(Status::Blocked) && !any(Status::Refused) {
            self.give_back(&apart, name, &held).await;
            return Ok(Attempt::Blocked);
        }
        let judged = apart.judge(told).map_err(malformed)?;
        let refused = apart.refused_by(&apart.waits(&judged));
        if refused.is_none() && !caller.is_here() {
            self.give_back(&apart, name, &held).await;
            return Ok(Attempt::Told);
        }
        if refused.is_some() {
            let release = Step::Release {
                name,
                penalises: true,
            };
            let parts = apart.to_release(&held);
            let _expires = self.step(&apart, release, &parts, self.since).await;
        } else if !self.confirm(&apart, &judged, name, caller).await {
            return Ok(Attempt::Told);
        }
        caller.tell(apart.verdict(&judged, refused).map_err(malformed));
        Ok(Attempt::Told)
    }

    /// Lets go of what these parts hold, in time of its own: what was asked too late is not asked
    /// to release in time. What cannot be released expires.
    async fn give_back(&self, apart: &Apart<'_>, name: u64, parts: &[usize]) {
        let release = Step::Release {
            name,
            penalises: false,
        };
        let _expires = self.step(apart, release, parts, Instant::now()).await;
    }

    /// Has every slot charge what it holds; if one does not, tells the caller, and takes back what
    /// the others have charged.
    async fn confirm(
        &self,
        apart: &Apart<'_>,
        judged: &[Judged],
        name: u64,
        caller: &mut Caller,
    ) -> bool {
        let charged: Vec<(usize, Vec<usize>)> = (0..apart.parts.len())
            .map(|part| (part, apart.charged(part, &judged[part])))
            .filter(|(_, lines)| !lines.is_empty())
            .collect();
        let confirm = Step::Confirm { name };
        let futures = charged
            .iter()
            .map(|(part, lines)| self.step_of(apart, confirm, *part, lines, self.since));
        let told = together(futures.collect()).await;
        let is_confirmed = |told: &Result<General, Asked>| {
            told.as_ref()
                .is_ok_and(|told| told.status == Status::Admitted)
        };
        if told.iter().all(is_confirmed) {
            return true;
        }
        let (confirmed, others): (Vec<usize>, Vec<usize>) =
            (0..told.len()).partition(|part| is_confirmed(&told[*part]));
        let after = self.timeout;
        // What expired in one slot was not charged there. Of what is lost nobody knows, even if
        // another slot says that it did nothing.
        let errors = told.into_iter().filter_map(Result::err);
        let error = errors.max_by_key(|asked| asked.failure.is_unknown());
        let gone_back = self.take_back(apart, &charged, &confirmed).await;
        caller.tell(Err(match error {
            _ if !gone_back => StoreError::TimedOut { after },
            Some(asked) => asked.into_error(after),
            None => StoreError::Contended,
        }));
        let others: Vec<usize> = others.into_iter().map(|place| charged[place].0).collect();
        self.give_back(apart, name, &others).await;
        false
    }

    /// Refunds what some parts have charged; says whether all of it has gone back.
    async fn take_back(
        &self,
        apart: &Apart<'_>,
        charged: &[(usize, Vec<usize>)],
        confirmed: &[usize],
    ) -> bool {
        let refund = |place: &usize| self.refund(apart, &charged[*place].1);
        let gone_back = together(confirmed.iter().map(refund).collect()).await;
        gone_back.iter().all(Result::is_ok)
    }

    async fn refund(&self, apart: &Apart<'_>, lines: &[usize]) -> Result<Told, Asked> {
        let question = || {
            let charges: Vec<Charge<'_>> = lines.iter().map(|line| apart.refund(*line)).collect();
            let fitted: Vec<Fitted> = lines.iter().map(|line| apart.fitted[*line]).collect();
            let bill = Bill::new(&charges).expect("a part has no more lines than its request");
            Question::of(&bill, &fitted)
        };
        self.reach.ask(question, Instant::now()).await
    }

    /// Reserves in one slot after the other, the lowest first, and waits where it is blocked;
    /// no further once nobody waits for the verdict.
    async fn reserve_one_by_one(
        &self,
        apart: &Apart<'_>,
        reserve: Step,
        caller: &Caller,
    ) -> Vec<Result<General, Asked>> {
        let mut all = Vec::with_capacity(apart.parts.len());
        for (part, lines) in apart.parts.iter().enumerate() {
            loop {
                if !caller.is_here() {
                    return all;
                }
                let told = self
                    .step_of(apart, reserve, part, &lines.lines, self.since)
                    .await;
                let is_blocked = told
                    .as_ref()
                    .is_ok_and(|told| told.status == Status::Blocked);
                if !is_blocked || self.since.elapsed() >= self.reach.patience() {
                    all.push(told);
                    break;
                }
                sleep(PAUSE).await;
            }
        }
        all
    }

    /// One step with all lines of these parts, all at once.
    async fn step(
        &self,
        apart: &Apart<'_>,
        step: Step,
        parts: &[usize],
        since: Instant,
    ) -> Vec<Result<General, Asked>> {
        let futures = parts
            .iter()
            .map(|part| self.step_of(apart, step, *part, &apart.parts[*part].lines, since));
        together(futures.collect()).await
    }

    async fn step_of(
        &self,
        apart: &Apart<'_>,
        step: Step,
        part: usize,
        lines: &[usize],
        since: Instant,
    ) -> Result<General, Asked> {
        let question = || {
            let of = |line: &usize| (&apart.bill.lines()[*line], &apart.fitted[*line]);
            let lines: Vec<_> = lines.iter().map(of).collect();
            Question::step(step, &lines)
        };
        let key = apart.parts[part].key;
        match self.reach.ask(question, since).await? {
            Told::General(told) => Ok(told),
            Told::Plain { .. } | Told::Changed => Err(Asked::malformed(key)),
        }
    }
}

/// The parts that hold what was asked.
fn holding(told: &[Result<General, Asked>]) -> Vec<usize> {
    let holds = |told: &Result<General, Asked>| {
        told.as_ref()
            .is_ok_and(|told| told.status == Status::Admitted)
    };
    (0..told.len()).filter(|part| holds(&told[*part])).collect()
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
