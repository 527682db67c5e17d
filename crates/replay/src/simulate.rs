//! Simulates traffic: workloads through rules, in virtual time. A denied client may try again, so
//! what arrives depends on what is decided.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::fmt;
use std::ops::ControlFlow;

use serde_json::{Value, json};
use tollgate_core::{Moment, RequestDenial, Span, Wait};
use tollgate_rules::RuleSet;

use crate::decider::Judge;
use crate::error::Error;
use crate::event::{EVENTS_MAX, Event};
use crate::format::{Format, LogKind};
use crate::pattern::Pattern;
use crate::plain::Plain;
use crate::random::Random;
use crate::replay::{Memories, PROGRESS_EVENTS};
use crate::series::render_client;
use crate::timestamp::Seconds;
use crate::traffic::Traffic;
use crate::values::Values;
use crate::workload::{Arrivals, Retries, Retry, Workload};

/// The random numbers of a workload that are for its arrivals.
const ARRIVALS: u64 = 0;
/// Those that are for its retries.
const RETRIES: u64 = 1;

/// What is simulated.
#[derive(Clone, Debug)]
pub struct Simulation {
    /// The traffic.
    pub workloads: Vec<Workload>,
    /// The same seed makes the same events.
    pub seed: u64,
    /// When it begins.
    pub start: Moment,
    /// The domain whose rules apply.
    pub domain: String,
    /// The patterns, each of which makes a descriptor of an event. The only field that is not empty
    /// is [`crate::Field::Client`].
    pub descriptors: Vec<Pattern>,
    /// The store.
    pub memories: Memories,
}

/// What came of a workload.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WorkloadTotals {
    /// The workload, as written.
    pub text: String,
    /// Requests: first attempts.
    pub requests: u64,
    /// All attempts: the events.
    pub attempts: u64,
    /// Requests that were allowed, at the first attempt or later.
    pub allowed: u64,
    /// The longest wait that was reported with a denial; none is reported with one that would
    /// never be allowed.
    pub longest_wait: Span,
    /// The longest delay of an allowed one.
    pub longest_delay: Span,
}

/// The first attempt of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FirstAttempt {
    /// After the start of the simulation.
    pub at: Span,
    /// The client.
    pub client: String,
    /// What it does when it is denied.
    pub retries: Retries,
}

/// Workloads and what came of them, for people.
pub struct Workloads<'a>(
    /// The totals of each.
    pub &'a [WorkloadTotals],
);

/// An attempt that is to come, in the order in which attempts are decided.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Attempt {
    at: Moment,
    /// Breaks ties: what was scheduled first is decided first.
    scheduled: u64,
    workload: usize,
    request: Asked,
    /// How many attempts there were before.
    before: u32,
}

/// What an attempt requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Asked {
    /// The key of a first attempt.
    Key(u64),
    /// The number of a request that was attempted before.
    Again(u32),
}

/// A workload that is under way.
struct Source<'s> {
    workload: &'s Workload,
    arrivals: Arrivals,
    random: Random,
    totals: WorkloadTotals,
}

/// A simulation that is under way.
struct Run<'s> {
    simulation: &'s Simulation,
    sources: Vec<Source<'s>>,
    schedule: BinaryHeap<Reverse<Attempt>>,
    scheduled: u64,
    traffic: Traffic,
    values: Values,
}

/// The first attempts of all requests of these workloads, in order of time: those of
/// [`Simulation::run`] with the same seed.
pub fn first_attempts(workloads: &[Workload], seed: u64) -> Vec<FirstAttempt> {
    let mut attempts = Vec::new();
    for (index, workload) in (0_u64..).zip(workloads) {
        let mut seeds = Random::new(seed, index << 1 | RETRIES);
        attempts.extend(arrivals(workload, index, seed).map(|arrival| FirstAttempt {
            at: arrival.at,
            client: workload.key(arrival.key),
            retries: Retries::new(workload.retry(), seeds.word()),
        }));
    }
    attempts.sort_by_key(|attempt| attempt.at);
    attempts
}

/// The arrivals of the workload of this index.
fn arrivals(workload: &Workload, index: u64, seed: u64) -> Arrivals {
    workload.arrivals(Random::new(seed, index << 1 | ARRIVALS))
}

// === impl Simulation ===

impl Simulation {
    /// Decides all requests by `rules`, in order of time, and returns the events that there were:
    /// [`crate::replay`] and [`crate::survey`] decide these by the same rules with the same result.
    ///
    /// `progress` is called now and then with the number of events, and returns whether to go on.
    ///
    /// # Errors
    ///
    /// [`Error::ManyEvents`] beyond [`EVENTS_MAX`], [`Error::Stopped`] if `progress` returned so,
    /// and [`Error::Store`] if a bounded store is too small to decide at all.
    pub fn run(
        &self,
        rules: &RuleSet,
        progress: &mut dyn FnMut(u64) -> ControlFlow<()>,
    ) -> Result<(Traffic, Vec<WorkloadTotals>), Error> {
        let mut judge = Judge::new(rules, self.memories);
        let mut run = Run::new(self);
        let mut decided = 0;
        while let Some(Reverse(attempt)) = run.schedule.pop() {
            if decided == EVENTS_MAX {
                return Err(Error::ManyEvents);
            }
            if decided.is_multiple_of(PROGRESS_EVENTS) && progress(decided).is_break() {
                return Err(Error::Stopped { decided });
            }
            let event = run.event(&attempt)?;
            let verdict = judge.decide(&event, &run.traffic)?.verdict;
            let totals = &mut run.sources[attempt.workload].totals;
            totals.add(attempt.before, verdict.denial, verdict.delay());
            if let Some(denial) = verdict.denial {
                run.retry(&attempt, event, denial.wait);
            }
            decided += 1;
        }
        let totals = run.sources.into_iter().map(|source| source.totals);
        Ok((run.traffic, totals.collect()))
    }
}

// === impl Run ===

impl<'s> Run<'s> {
    /// The first arrival of each workload is scheduled.
    fn new(simulation: &'s Simulation) -> Run<'s> {
        let sources = (0_u64..).zip(&simulation.workloads);
        let sources = sources.map(|(index, workload)| Source {
            workload,
            arrivals: arrivals(workload, index, simulation.seed),
            random: Random::new(simulation.seed, index << 1 | RETRIES),
            totals: WorkloadTotals {
                text: workload.to_string(),
                ..WorkloadTotals::default()
            },
        });
        let mut run = Run {
            sources: sources.collect(),
            schedule: BinaryHeap::new(),
            scheduled: 0,
            traffic: Traffic::new(Format::AccessLog {
                kind: LogKind::Common,
                domain: simulation.domain.clone(),
                descriptors: simulation.descriptors.clone(),
            }),
            values: Values::default(),
            simulation,
        };
        for workload in 0..run.sources.len() {
            run.schedule_next(workload);
        }
        run
    }

    /// Schedules the next arrival of a workload, if there is one.
    fn schedule_next(&mut self, workload: usize) {
        if let Some(arrival) = self.sources[workload].arrivals.next() {
            let at = self.simulation.start + arrival.at;
            self.schedule(at, workload, Asked::Key(arrival.key), 0);
        }
    }

    fn schedule(&mut self, at: Moment, workload: usize, request: Asked, before: u32) {
        self.scheduled += 1;
        self.schedule.push(Reverse(Attempt {
            at,
            scheduled: self.scheduled,
            workload,
            request,
            before,
        }));
    }

    /// The event of an attempt; after a first one, the workload's next arrival is scheduled.
    fn event(&mut self, attempt: &Attempt) -> Result<Event, Error> {
        let key = match attempt.request {
            Asked::Again(request) => return self.traffic.repeat(attempt.at, request),
            Asked::Key(key) => key,
        };
        self.schedule_next(attempt.workload);
        let client = self.sources[attempt.workload].workload.key(key);
        let descriptors = &self.simulation.descriptors;
        render_client(&client, attempt.at, descriptors, &mut self.values);
        self.traffic.generate(attempt.at, self.values.as_bytes())
    }

    /// Schedules another attempt after a denial, unless the client gives up.
    fn retry(&mut self, attempt: &Attempt, event: Event, wait: Wait) {
        let attempts = attempt.before + 1;
        let source = &mut self.sources[attempt.workload];
        let pause = |retry: Retry| retry.pause(attempts, wait, &mut source.random);
        if let Some(pause) = source.workload.retry().and_then(pause) {
            let request = Asked::Again(event.request);
            self.schedule(event.at + pause, attempt.workload, request, attempts);
        }
    }
}

// === impl WorkloadTotals ===

impl WorkloadTotals {
    /// Adds an attempt that was decided, after so many others of the same request.
    fn add(&mut self, before: u32, denial: Option<RequestDenial>, delay: Span) {
        self.attempts += 1;
        self.requests += u64::from(before == 0);
        match denial.map(|denial| denial.wait) {
            None => {
                self.allowed += 1;
                self.longest_delay = self.longest_delay.max(delay);
            }
            Some(Wait::For(wait)) => self.longest_wait = self.longest_wait.max(wait),
            Some(Wait::Never) => {}
        }
    }

    /// Requests of which no attempt was allowed.
    pub const fn given_up(&self) -> u64 {
        self.requests - self.allowed
    }

    /// The totals as a JSON object.
    pub fn to_json(&self) -> Value {
        json!({
            "traffic": self.text,
            "requests": self.requests,
            "attempts": self.attempts,
            "allowed": self.allowed,
            "givenUp": self.given_up(),
            "longestWait": format!("{}s", Seconds(self.longest_wait.as_nanos())),
            "longestDelay": format!("{}s", Seconds(self.longest_delay.as_nanos())),
        })
    }
}

// === impl Workloads ===

impl fmt::Display for Workloads<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [requests, attempts] = ["requests", "attempts"];
        let [allowed, given_up] = ["allowed", "given up"];
        writeln!(
            f,
            "{requests:>12} {attempts:>12} {allowed:>12} {given_up:>12}  traffic"
        )?;
        for totals in self.0 {
            writeln!(
                f,
                "{:>12} {:>12} {:>12} {:>12}  {}",
                totals.requests,
                totals.attempts,
                totals.allowed,
                totals.given_up(),
                Plain(&totals.text),
            )?;
        }
        Ok(())
    }
}
