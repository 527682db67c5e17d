//! A request whose keys lie in several slots: still all or nothing.
//!
//! No script sees more than one slot. So every slot first reserves what the request takes there:
//! reserved units are beside the account, and whatever else is judged meanwhile must fit beside
//! them. If all slots have reserved, every slot confirms, which charges what it holds; only then the
//! answer is yes. Otherwise every slot lets go. That is two round trips, each to all slots at once.
//!
//! A reservation expires by Redis's own clock ([`LASTS`]). Who crashes before confirming has taken
//! nothing, who crashes between confirmations has at most that one request charged. A confirmation
//! that comes too late charges nothing, and the request is refused.
//!
//! Whoever is refused only because of another request's reservation does not know yet: that one may
//! let go. It asks again until it knows, or its time is over. Two such requests must not wait for
//! each other: from the second time on the slots are asked one after the other, the lowest first.

use std::collections::BTreeMap;
use std::future::poll_fn;
use std::hash::{BuildHasher, RandomState};
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::Poll;

use tokio::time::{Duration, Instant, sleep};
use tollgate_core::{
    Bill, Charge, Cost, Decision, Enforcement, Key, Limit, Line, Now, OnDenial, Refusal, Span,
    StoreError, Usage, Verdict, Wait, step,
};

use crate::fit::Fitted;
use crate::keys;
use crate::question::{Question, Step};
use crate::resp::Malformed;
use crate::seen::{Seen, moment};
use crate::store::{Asked, Redis, malformed, unfit};
use crate::told::{self, General, Status, Told};

/// How long a reservation lasts, in timeouts of a decision, and at least.
const LASTS: u64 = 10;
const LASTS_MIN: Span = Span::from_millis(100);
/// How long to wait for another request's reservation before asking again.
const PAUSE: Duration = Duration::from_micros(500);

/// Whether what a request gives back was given back already: by an attempt that was blocked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refunds {
    ToDo,
    Done,
}

/// A request, by slots.
struct Apart<'a> {
    charges: &'a [Charge<'a>],
    bill: &'a Bill<'a>,
    /// How the limits of the lines read.
    fitted: &'a [Fitted],
    parts: Vec<Part>,
}

/// The lines of one slot.
struct Part {
    key: Key,
    lines: Vec<usize>,
}

/// What one part came to.
struct Judged {
    told: General,
    /// Before anything was charged, line by line of the part.
    waits: Vec<Option<Wait>>,
}

/// The verdict as far as one part knows it.
struct Settled {
    decisions: Vec<(usize, Decision)>,
    waits: Vec<(usize, Option<Wait>)>,
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
            if since.elapsed() >= Duration::from(self.timeout()) {
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
        let name = reservation_name();
        let lasts = Span::from_nanos(self.timeout().as_nanos().saturating_mul(LASTS));
        let lasts = lasts.max(LASTS_MIN).as_nanos() / 1_000;
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
        for ((_, lines), told) in charged.iter().zip(told) {
            if told.status == Status::Admitted {
                let charges: Vec<Charge<'_>> =
                    lines.iter().map(|line| apart.refund(*line)).collect();
                let bill = Bill::new(&charges)?;
                let fitted: Vec<Fitted> = lines.iter().map(|line| apart.fitted[*line]).collect();
                let _as_well_as_we_can = self.ask(|| Question::of(&bill, &fitted), since).await;
            }
        }
        Err(StoreError::Contended)
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
                if !is_blocked || since.elapsed() >= Duration::from(self.timeout()) {
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
            Told::Bucket { .. } | Told::Changed => Err(Asked::malformed(key)),
        }
    }
}

// === impl Apart ===

impl<'a> Apart<'a> {
    fn new(charges: &'a [Charge<'a>], bill: &'a Bill<'a>, fitted: &'a [Fitted]) -> Apart<'a> {
        let mut slots: BTreeMap<u16, Part> = BTreeMap::new();
        for (index, line) in bill.lines().iter().enumerate() {
            let key = line.charge.key;
            let lines = Vec::new();
            let part = slots.entry(keys::slot(key)).or_insert(Part { key, lines });
            part.lines.push(index);
        }
        Apart {
            charges,
            bill,
            fitted,
            parts: slots.into_values().collect(),
        }
    }

    fn every_part(&self) -> Vec<usize> {
        (0..self.parts.len()).collect()
    }

    fn line(&self, line: usize) -> &Line<'a> {
        &self.bill.lines()[line]
    }

    /// What was remembered of a part's lines, settled and with what is given back.
    fn seen(&self, part: usize, told: &General) -> Result<Vec<Seen>, Malformed> {
        let lines = &self.parts[part].lines;
        if lines.len() != told.states.len() {
            return Err(Malformed("an answer to another question"));
        }
        let pairs = lines.iter().zip(&told.states);
        pairs
            .map(|(line, state)| Seen::read(state, &self.fitted[*line]))
            .collect()
    }

    fn judge(&self, told: Vec<General>) -> Result<Vec<Judged>, Malformed> {
        let judged = told.into_iter().enumerate().map(|(part, told)| {
            let mut seen = self.seen(part, &told)?;
            let now = moment(told.now);
            let lines = self.parts[part].lines.iter().zip(&mut seen);
            let waits = lines.map(|(line, seen)| {
                let line = self.line(*line);
                seen.settle(line.charge.limit, now);
                seen.refund(line.charge.limit, now, line.refund());
                wait(line, seen, now)
            });
            let waits = waits.collect();
            Ok(Judged { told, waits })
        });
        judged.collect()
    }

    /// The waits of all lines, in the order of the lines.
    fn waits(&self, judged: &[Judged]) -> Vec<Option<Wait>> {
        let mut waits = vec![None; self.bill.lines().len()];
        for (part, judged) in self.parts.iter().zip(judged) {
            for (line, wait) in part.lines.iter().zip(&judged.waits) {
                waits[*line] = *wait;
            }
        }
        waits
    }

    /// The first of those lines that refuse the request whose wait is the longest: as in core's
    /// `Bill`, which cannot see lines of several clocks at once.
    fn refused_by(&self, waits: &[Option<Wait>]) -> Option<usize> {
        let of = |enforcement| {
            let lines = self.bill.lines().iter().enumerate();
            lines
                .filter(move |(_, line)| {
                    line.judged().is_some() && line.charge.enforcement == enforcement
                })
                .map(|(index, _)| index)
        };
        let enforced = of(Enforcement::Enforce).filter(|line| waits[*line].is_some());
        let all_over = of(Enforcement::Quota).all(|line| waits[line].is_some());
        let quota = of(Enforcement::Quota).filter(|_| all_over);
        // One quota that opens again is enough, so only the first to open counts.
        let quota = quota.min_by_key(|line| waits[*line]);
        enforced
            .chain(quota)
            .min_by_key(|line| (std::cmp::Reverse(waits[*line]), *line))
    }

    /// The lines of a part that an admitted request is charged to.
    fn charged(&self, part: usize, judged: &Judged) -> Vec<usize> {
        let lines = self.parts[part].lines.iter().zip(&judged.waits);
        let charged = lines.filter(|(line, wait)| wait.is_none() && self.line(**line).take() > 0);
        charged.map(|(line, _)| *line).collect()
    }

    /// The parts that hold something, and those that are charged for a refusal.
    fn to_release(&self, holding: &[usize]) -> Vec<usize> {
        let asks = |part: &usize| {
            let mut lines = self.parts[*part].lines.iter();
            lines.any(|line| self.line(*line).charge.on_denial == OnDenial::Charge)
        };
        let mut parts = self.every_part();
        parts.retain(|part| holding.contains(part) || asks(part));
        parts
    }

    fn refund(&self, line: usize) -> Charge<'a> {
        let line = self.line(line);
        Charge {
            cost: Cost::Refund(line.take()),
            ..line.charge
        }
    }

    fn verdict(&self, judged: &[Judged], refused: Option<usize>) -> Result<Verdict, Malformed> {
        let mut decisions: Vec<Option<Decision>> = vec![None; self.charges.len()];
        let mut waits = vec![None; self.bill.lines().len()];
        for (part, judged) in judged.iter().enumerate() {
            let settled = self.settle(part, &judged.told, refused.is_some())?;
            for (charge, decision) in settled.decisions {
                decisions[charge] = Some(decision);
            }
            for (line, wait) in settled.waits {
                waits[line] = wait;
            }
        }
        let decisions: Option<Vec<Decision>> = decisions.into_iter().collect();
        let refusal = refused.map(|line| {
            let key = self.line(line).charge.key;
            let by = self.charges.iter().position(|charge| charge.key == key);
            let longest = self.refused_by(&waits).and_then(|line| waits[line]);
            Refusal {
                by: by.unwrap_or(0),
                wait: longest.unwrap_or(Wait::For(Span::ZERO)),
            }
        });
        let mut verdict = Verdict {
            decisions: decisions.ok_or(Malformed("a charge without a decision"))?,
            refusal,
        };
        told::coarsen(&mut verdict);
        Ok(verdict)
    }

    /// What core says to a part, given that the whole request is refused or not: a line of our own
    /// beside the others makes it so.
    fn settle(&self, part: usize, told: &General, is_refused: bool) -> Result<Settled, Malformed> {
        const OURS: Key = Key::from_bits(0);
        let limit = Limit::fixed_window(u32::from(!is_refused), Span::SECOND);
        let limit = limit.expect("a second is a window");
        let ours = Charge {
            enforcement: match is_refused {
                true => Enforcement::Enforce,
                false => Enforcement::Quota,
            },
            ..Charge::new(OURS, &limit, Cost::ONE)
        };
        let lines = &self.parts[part].lines;
        let is_here = |charge: &Charge<'_>| {
            lines
                .iter()
                .any(|line| self.line(*line).charge.key == charge.key)
        };
        let here: Vec<usize> = (0..self.charges.len())
            .filter(|index| is_here(&self.charges[*index]))
            .collect();
        let mut charges: Vec<Charge<'_>> = here.iter().map(|index| self.charges[*index]).collect();
        charges.push(ours);
        let bill = Bill::new(&charges).map_err(|_| Malformed("too many charges in a part"))?;
        let mut seen = self.seen(part, told)?;
        seen.push(Seen::fresh(
            &Fitted::new(&limit).map_err(|_| Malformed("no limit"))?,
        ));
        let now = moment(told.now);
        let verdict = bill.settle(&mut seen, Now::at(now));
        let waits = lines.iter().zip(&seen);
        let waits = waits.map(|(line, seen)| (*line, wait(self.line(*line), seen, now)));
        Ok(Settled {
            waits: waits.collect(),
            decisions: here.into_iter().zip(verdict.decisions).collect(),
        })
    }
}

/// When a line admits what it is asked for, if not now.
fn wait(line: &Line<'_>, seen: &Seen, now: tollgate_core::Moment) -> Option<Wait> {
    let peek = Cost::Peek(line.judged()?);
    step(
        &mut seen.clone(),
        line.charge.limit,
        now,
        peek,
        OnDenial::Keep,
    )
    .wait()
}

/// The parts that hold what was asked.
fn holding(told: &[Result<General, Asked>]) -> Vec<usize> {
    let holds = |told: &Result<General, Asked>| {
        told.as_ref()
            .is_ok_and(|told| told.status == Status::Admitted)
    };
    (0..told.len()).filter(|part| holds(&told[*part])).collect()
}

/// A name that no other reservation has: 64 bits, random for each process and counted within it.
fn reservation_name() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    let count = NEXT.fetch_add(0x9E37_79B9_7F4A_7C15, Ordering::Relaxed);
    static FIRST: std::sync::OnceLock<u64> = std::sync::OnceLock::new();
    FIRST
        .get_or_init(|| RandomState::new().hash_one(0_u8))
        .wrapping_add(count)
}

/// All of these at once, each with its result.
async fn together<T>(futures: Vec<impl Future<Output = T>>) -> Vec<T> {
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
