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
//! that comes too late charges nothing, and the request is refused.
//!
//! Whoever is refused only because of another request's reservation does not know yet: that one
//! may let go. It asks again until it knows, or its time is over. Two such requests must not wait
//! for each other: from the second time on the slots are asked one after the other, the lowest
//! first.

mod parts;

use std::future::poll_fn;
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::Poll;

use tokio::time::{Duration, Instant, sleep};
use tollgate_core::{Bill, Charge, Cost, Span, StoreError, Verdict};

use parts::{Apart, Judged};

use crate::fit::Fitted;
use crate::keys;
use crate::question::{Question, Step};
use crate::reach::Asked;
use crate::simulated::{is_seeded, random_word};
use crate::store::{Redis, malformed, unfit};
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
    pub(crate) async fn decide_apart(
        &self,
        charges: &[Charge<'_>],
        mut refunds: Refunds,
        since: Instant,
    ) -> Result<Verdict, StoreError> {
        let fitted = crate::question::fitted(charges).map_err(unfit)?;
        let mut in_micros = told::charges_in_micros(charges, &fitted);
        let mut one_by_one = false;
        loop {
            if refunds == Refunds::Done {
                let amounts = in_micros.iter_mut().map(|charge| &mut charge.cost);
                amounts
                    .filter(|cost| matches!(cost, Cost::Refund(_)))
                    .for_each(|cost| *cost = Cost::Refund(0));
            }
            let (bill, fitted_lines) = told::bill(&in_micros, &fitted)?;
            let apart = Apart::new(&in_micros, &bill, &fitted_lines);
            if let Some(verdict) = self.attempt(&apart, one_by_one, since).await? {
                return Ok(verdict);
            }
            if since.elapsed() >= self.reach().patience() {
                return Err(StoreError::Contended);
            }
            sleep(PAUSE).await;
            one_by_one = true;
            refunds = Refunds::Done;
        }
    }

    /// One attempt; nothing if another request's reservation was in the way.
    async fn attempt(
        &self,
        apart: &Apart<'_>,
        one_by_one: bool,
        since: Instant,
    ) -> Result<Option<Verdict>, StoreError> {
        let lasts = Span::from_nanos(self.timeout().as_nanos().saturating_mul(LASTS));
        let lasts = lasts.max(LASTS_MIN).as_nanos() / 1_000;
        let name = reservation_name(lasts);
        let reserve = Step::Reserve { name, lasts };
        let told = match one_by_one {
            false => self.step(apart, reserve, &apart.every_part(), since).await,
            true => self.reserve_one_by_one(apart, reserve, since).await,
        };
        let holding = holding(&told);
        let told: Result<Vec<General>, Asked> = told.into_iter().collect();
        let is_blocked = told.as_ref().is_ok_and(|told| {
            let any = |status| told.iter().any(|told| told.status == status);
            any(Status::Blocked) && !any(Status::Refused)
        });
        if told.is_err() || is_blocked {
            let give_back = Step::Release {
                name,
                penalises: false,
            };
            // What cannot be released expires.
            let _expires = self.step(apart, give_back, &holding, since).await;
        }
        // Whatever was lost was a reservation: nothing is charged.
        let told = told.map_err(|asked| asked.into_unsent().into_error(self.timeout()))?;
        if is_blocked {
            return Ok(None);
        }
        let judged = apart.judge(told).map_err(malformed)?;
        let refused = apart.refused_by(&apart.waits(&judged));
        if refused.is_some() {
            let release = Step::Release {
                name,
                penalises: true,
            };
            let _expires = self
                .step(apart, release, &apart.to_release(&holding), since)
                .await;
        } else {
            self.confirm(apart, &judged, name, since).await?;
        }
        let verdict = apart.verdict(&judged, refused).map_err(malformed)?;
        Ok(Some(verdict))
    }

    /// Has every slot charge what it holds.
    async fn confirm(
        &self,
        apart: &Apart<'_>,
        judged: &[Judged],
        name: u64,
        since: Instant,
    ) -> Result<(), StoreError> {
        let charged: Vec<(usize, Vec<usize>)> = (0..apart.parts.len())
            .map(|part| (part, apart.charged(part, &judged[part])))
            .filter(|(_, lines)| !lines.is_empty())
            .collect();
        let confirm = Step::Confirm { name };
        let futures = charged
            .iter()
            .map(|(part, lines)| self.step_of(apart, confirm, *part, lines, since));
        let told = together(futures.collect()).await;
        let told: Result<Vec<General>, Asked> = told.into_iter().collect();
        let told = told.map_err(|asked| asked.into_error(self.timeout()))?;
        if told.iter().all(|told| told.status == Status::Admitted) {
            return Ok(());
        }
        // Too late in one slot: what the others have charged goes back.
        let mut may_be_charged = false;
        for ((_, lines), told) in charged.iter().zip(told) {
            if told.status == Status::Admitted {
                let charges: Vec<Charge<'_>> =
                    lines.iter().map(|line| apart.refund(*line)).collect();
                let bill = Bill::new(&charges)?;
                let fitted: Vec<Fitted> = lines.iter().map(|line| apart.fitted[*line]).collect();
                let gone_back = self.ask(|| Question::of(&bill, &fitted), since).await;
                may_be_charged |= gone_back.is_err();
            }
        }
        let after = self.timeout();
        Err(match may_be_charged {
            true => StoreError::TimedOut { after },
            false => StoreError::Contended,
        })
    }

    /// Reserves in one slot after the other, the lowest first, and waits where it is blocked.
    async fn reserve_one_by_one(
        &self,
        apart: &Apart<'_>,
        reserve: Step,
        since: Instant,
    ) -> Vec<Result<General, Asked>> {
        let mut all = Vec::with_capacity(apart.parts.len());
        for (part, lines) in apart.parts.iter().enumerate() {
            loop {
                let told = self
                    .step_of(apart, reserve, part, &lines.lines, since)
                    .await;
                let is_blocked = told
                    .as_ref()
                    .is_ok_and(|told| told.status == Status::Blocked);
                if !is_blocked || since.elapsed() >= self.reach().patience() {
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
        match self.ask(question, since).await? {
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
