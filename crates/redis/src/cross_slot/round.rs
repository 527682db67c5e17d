//! The two-phase commit of a round of requests.

mod at_once;

mod reserve;

mod undo;

use std::sync::Arc;

use tokio::time::{Duration, Instant, sleep};
use tollgate_core::{Key, Span, StoreError, Verdict};

use super::grouping::Grouping;
use super::outcome::{Commitment, Outcome};
use super::parts::SplitRequest;
use super::plan::{Counts, Ledger, Plan};
use super::queue::{Member, QueueGuard, RoundTime};
use super::request::{Caller, Request};
use crate::caches::Caches;
use crate::join::join_all;
use crate::names::reservation_name;
use crate::random::random_word;
use crate::router::{Form, NodeFailure, Router, Waits};
use crate::script_reply::{General, ScriptReply, Status};
use crate::script_request::{ScriptRequest, Step};

/// The lifetime of a reservation, in timeouts of a decision, and its minimum.
const LASTS: u64 = 10;
const LASTS_MIN: Span = Span::from_millis(100);
/// The first pause before a round that another instance's reservation blocked is retried. It
/// doubles with each retry, at most [`DOUBLINGS_MAX`] times.
const PAUSE: Duration = Duration::from_micros(500);
const DOUBLINGS_MAX: u32 = 2;

/// Runs rounds.
pub(super) struct Rounds {
    pub(super) router: Arc<Router>,
    pub(super) caches: Arc<Caches>,
    /// The timeout of a decision.
    pub(super) timeout: Span,
    /// Whether they charge immediately wherever they can.
    pub(super) charges_at_once: bool,
}

/// How a round proceeds.
#[derive(Clone, Copy)]
struct Strategy {
    /// Reserves in one slot after the other.
    one_by_one: bool,
    /// Charges without a reservation where it can.
    at_once: bool,
}

/// The result of a round.
struct RoundEnd {
    /// Requests without a verdict.
    blocked: Vec<Member>,
    settled: SlotReplies,
}

/// What is known of a round from the slots' replies.
#[derive(Default)]
struct SlotReplies {
    /// For each request, whether it is blocked.
    is_blocked: Vec<bool>,
    is_charged: bool,
    /// Whether a slot was not called, or did not reply.
    has_failed: bool,
    /// Whether the keys of a slot that migrates are on two nodes.
    is_split: bool,
}

/// One round in flight.
struct Round<'r, 'a> {
    rounds: &'r Rounds,
    plan: &'r Plan<'a>,
    /// The name of its reservations.
    name: u64,
    /// When the last of its requests arrived.
    since: Instant,
    /// Whether each part is charged immediately, after the others have reserved.
    at_once: Vec<bool>,
}

/// A decided request, whose caller gets the verdict once the round is settled.
struct Judgment {
    index: usize,
    verdict: Verdict,
    /// The lines that it is charged to.
    charged: Vec<usize>,
}

/// The reply to a confirmation of one part; `None` if it had nothing to confirm.
type Confirmation = Option<Result<General, NodeFailure>>;

// === impl Rounds ===

impl Rounds {
    /// Runs rounds until no request waits.
    pub(super) async fn run(self, guard: QueueGuard) {
        let (mut blocked, mut pauses) = (Vec::new(), 0);
        loop {
            let strategy = Strategy {
                one_by_one: pauses > 0,
                at_once: blocked.is_empty() && (self.charges_at_once || guard.is_near()),
            };
            let members = guard.next(blocked, pauses > 0);
            if members.is_empty() {
                return;
            }
            let (began_at, count) = (Instant::now(), members.len());
            let ended = self.round(members, strategy).await;
            blocked = ended.blocked;
            let time = RoundTime::of(ended.settled.has_failed, pauses > 0 || !blocked.is_empty());
            guard.end(began_at, count, time);
            // If something was charged, that is what blocked the others: retry without a pause.
            if ended.settled.is_charged || blocked.is_empty() {
                pauses = 0;
            } else {
                sleep(pause(pauses)).await;
                pauses += 1;
            }
        }
    }

    async fn round(&self, members: Vec<Member>, strategy: Strategy) -> RoundEnd {
        let pairs = members.into_iter().map(|one| (one.request, one.caller));
        let (mut requests, mut callers): (Vec<Request>, Vec<Caller>) = pairs.unzip();
        let settled = self.decide(&requests, &mut callers, strategy).await;
        let done = requests.iter_mut();
        done.for_each(|request| request.note_round(&self.caches, settled.is_split));
        let members = requests.into_iter().zip(callers).zip(&settled.is_blocked);
        let blocked = members.filter(|(_, is_blocked)| **is_blocked);
        let blocked = blocked.map(|((request, caller), _)| Member { request, caller });
        RoundEnd {
            blocked: blocked.collect(),
            settled,
        }
    }

    /// Decides the requests that can be decided, and answers their callers.
    async fn decide(
        &self,
        requests: &[Request],
        callers: &mut [Caller],
        strategy: Strategy,
    ) -> SlotReplies {
        let since = requests.iter().map(|request| request.since).max();
        let grouping = Grouping::new(requests.iter().any(|request| request.is_split));
        let split = |request| {
            let split = SplitRequest::new(request, grouping);
            split.expect("no request has too many charges")
        };
        let requests: Vec<SplitRequest<'_>> = requests.iter().map(split).collect();
        let plan = Plan::new(&requests, grouping);
        let lasts = Span::from_nanos(self.timeout.as_nanos().saturating_mul(LASTS));
        let lasts = lasts.max(LASTS_MIN).as_nanos() / 1_000;
        let name = reservation_name(lasts);
        let round = Round {
            rounds: self,
            plan: &plan,
            name,
            since: since.unwrap_or_else(Instant::now),
            at_once: match strategy.at_once {
                true => plan.parts_at_once(self.charges_at_once),
                false => vec![false; plan.parts.len()],
            },
        };
        let reserve = Step::Reserve { name, lasts };
        let reply = match strategy.one_by_one {
            false => round.reserve(reserve).await,
            true => round.reserve_one_by_one(reserve, callers).await,
        };
        let mut ledger = Ledger::new(&plan, self.timeout);
        ledger.read(&plan, round.parts(false).zip(reply));
        let commitments = round.charge_at_once(&mut ledger, callers).await;
        round.settle(&requests, &commitments, callers, ledger).await
    }
}

// === impl Round ===

impl Round<'_, '_> {
    /// The parts that are charged immediately, or all others.
    fn parts(&self, at_once: bool) -> impl Iterator<Item = usize> {
        (0..self.plan.parts.len()).filter(move |part| self.at_once[*part] == at_once)
    }

    /// Decides every request by the slots' replies, and confirms or releases their reservations.
    async fn settle(
        &self,
        requests: &[SplitRequest<'_>],
        commitments: &[Commitment],
        callers: &mut [Caller],
        mut ledger: Ledger,
    ) -> SlotReplies {
        let plan = self.plan;
        let holds = |part: usize| !self.at_once[part] && ledger.may_hold(plan, part);
        let holds: Vec<bool> = (0..plan.parts.len()).map(holds).collect();
        let unknown = self.parts(false).filter(|part| ledger.is_unknown(*part));
        let unknown = unknown.collect();
        let mut decided = Vec::new();
        let mut settled = SlotReplies {
            is_blocked: vec![false; requests.len()],
            is_split: ledger.is_split(),
            ..SlotReplies::default()
        };
        let mut counts = plan.no_counts();
        for (index, (request, commitment)) in requests.iter().zip(commitments).enumerate() {
            let caller = &mut callers[index];
            // What it has been charged by now stays charged, as for any request that was sent.
            let is_committed = *commitment == Commitment::Committed;
            if !is_committed && !caller.is_waiting() {
                continue;
            }
            let (verdict, charged) = match ledger.judge(plan, index, (request, *commitment)) {
                Outcome::Failed(error) => {
                    settled.has_failed = true;
                    caller.answer(Err(error));
                    continue;
                }
                Outcome::Blocked => {
                    caller.abort();
                    settled.is_blocked[index] = true;
                    continue;
                }
                Outcome::Denied(verdict) if !plan.penalises(index) => {
                    caller.answer(Ok(verdict));
                    continue;
                }
                Outcome::Denied(verdict) => (verdict, None),
                Outcome::Allowed(verdict, charged) => (verdict, Some(charged)),
            };
            if !is_committed && !caller.commit() {
                continue;
            }
            match &charged {
                Some(lines) => lines.iter().for_each(|line| counts.allowed[*line] += 1),
                None => plan.penalise(index, &mut counts),
            }
            decided.push(Judgment {
                index,
                verdict,
                charged: charged.unwrap_or_default(),
            });
        }
        self.release_later(unknown, &plan.no_counts());
        let confirmed = self.confirm(&counts, &holds).await;
        self.forget(plan.keys_of(&counts));
        let mut failures = confirmed.iter().flatten();
        settled.has_failed |= failures.any(Result::is_err);
        settled.is_charged = decided.iter().any(|decided| !decided.charged.is_empty());
        let charge_time = |part: usize| self.charge_time(part, &confirmed[part], &ledger);
        self.answer_all(decided, callers, &confirmed, (&counts, &charge_time))
            .await;
        settled
    }

    /// Drops what is cached of keys that were charged, or may have been: their callers, who do so
    /// as well, may have gone.
    fn forget(&self, keys: impl Iterator<Item = Key>) {
        keys.for_each(|key| self.rounds.caches.forget(key));
    }

    /// Has every slot charge the reserved units of allowed requests, and release the rest.
    async fn confirm(&self, counts: &Counts, holds: &[bool]) -> Vec<Confirmation> {
        let confirm = |part: usize| async move {
            if self.at_once[part] {
                return None;
            }
            let (allowed, denied) = self.plan.charges(part, counts);
            if !allowed && !denied && !holds[part] {
                return None;
            }
            // A release has its own timeout, as that of the requests may have passed. If it fails,
            // the reservation expires.
            let since = if allowed { self.since } else { Instant::now() };
            let request = |form| self.plan.settle(self.step(), part, counts, form);
            let reply = self.ask(part, request, since).await;
            allowed.then_some(reply)
        };
        join_all((0..holds.len()).map(confirm).collect()).await
    }

    /// Answers the requests that were charged in every slot that they should be, and the denied
    /// ones. Refunds the others where they were charged, and answers them with an error.
    async fn answer_all(
        &self,
        decided: Vec<Judgment>,
        callers: &mut [Caller],
        confirmed: &[Confirmation],
        (counts, charge_time): (&Counts, &(impl Fn(usize) -> Option<u64> + Sync)),
    ) {
        let is_confirmed = |line: &usize| charge_time(self.plan.part(*line)).is_some();
        let mut failed = Vec::new();
        for decided in decided {
            match decided.charged.iter().all(is_confirmed) {
                true => callers[decided.index].answer(Ok(decided.verdict)),
                false => failed.push(decided),
            }
        }
        if failed.is_empty() {
            return;
        }
        let mut back = self.plan.no_counts();
        let charged = failed.iter().flat_map(|one| &one.charged);
        charged
            .filter(|line| is_confirmed(line))
            .for_each(|line| back.allowed[*line] += 1);
        let has_gone_back = self
            .take_back((&back, counts), confirmed, charge_time)
            .await;
        for one in failed {
            let error = self.error(&one, confirmed, has_gone_back);
            callers[one.index].answer(Err(error));
        }
        let is_denied = |reply: &General| reply.status != Status::Allowed;
        let expired = |part: &usize| {
            let reply = &confirmed[*part];
            matches!(reply, Some(Ok(reply)) if is_denied(reply))
        };
        let lost = |part: &usize| matches!(&confirmed[*part], Some(Err(_)));
        let parts = || 0..confirmed.len();
        let denied = Counts {
            denied: counts.denied.clone(),
            ..self.plan.no_counts()
        };
        self.release_later(parts().filter(expired).collect(), &denied);
        self.release_later(parts().filter(lost).collect(), &self.plan.no_counts());
    }

    /// The error of a request that was not confirmed in all its slots.
    fn error(&self, one: &Judgment, confirmed: &[Confirmation], has_gone_back: bool) -> StoreError {
        let after = self.rounds.timeout;
        if !has_gone_back {
            return StoreError::TimedOut { after };
        }
        // A reservation that expired was not charged. But if the outcome in any slot is unknown, so
        // is that of the request.
        let parts = one.charged.iter().map(|line| self.plan.part(*line));
        let errors = parts.filter_map(|part| confirmed[part].as_ref()?.as_ref().err());
        let error = errors.max_by_key(|failure| failure.failure.is_unknown());
        error.map_or(StoreError::Contended, |failure| {
            failure.clone().into_error(after)
        })
    }

    const fn step(&self) -> Step {
        Step::Confirm { name: self.name }
    }

    async fn ask(
        &self,
        part: usize,
        request: impl Fn(Form) -> ScriptRequest,
        since: Instant,
    ) -> Result<General, NodeFailure> {
        let router = &self.rounds.router;
        let reply = router.ask_in_form(request, since, Waits::Yes).await?;
        self.general(part, reply)
    }

    fn general(&self, part: usize, reply: ScriptReply) -> Result<General, NodeFailure> {
        match reply {
            ScriptReply::General(reply) => Ok(reply),
            ScriptReply::Plain { .. } | ScriptReply::Changed => {
                Err(NodeFailure::bad_reply(self.plan.parts[part].key))
            }
        }
    }
}

/// A random pause, so that instances do not retry in step; it grows with the number of retries.
fn pause(times: u32) -> Duration {
    let pause = PAUSE * (1 << times.min(DOUBLINGS_MAX));
    let share = u32::try_from(random_word() % 1_024).unwrap_or(0);
    pause / 2 + pause * share / 1_024
}
