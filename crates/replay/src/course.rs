//! Simulated traffic on its way: which request comes next, and what its client does after the
//! decision. A denied client may try again, so what comes depends on what is decided.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use tollgate_core::{Answer, Moment, Request, RequestDenial, Span, Wait};

use crate::error::Error;
use crate::event::Event;
use crate::format::{Format, LogKind};
use crate::random::Random;
use crate::series::render_client;
use crate::simulate::{Simulation, WorkloadTotals};
use crate::timestamp::MOMENT_MAX;
use crate::traffic::Traffic;
use crate::values::Values;
use crate::verdicts::Verdicts;
use crate::workload::{Arrivals, Retry, Workload};

/// The random numbers of a workload that are for its arrivals.
const ARRIVALS: u64 = 0;
/// Those that are for its retries.
const RETRIES: u64 = 1;

/// A simulation that is under way, whose requests are decided by the caller.
///
/// Begin each attempt at its time, decide on it, and say what came of it: before the next one, or
/// later, as long as every decision takes. The events are those of [`Simulation::run`] if each is
/// decided at once, with the same outcome.
pub struct Course<'s> {
    simulation: &'s Simulation,
    sources: Vec<Source<'s>>,
    schedule: BinaryHeap<Reverse<Scheduled>>,
    scheduled: u64,
    traffic: Traffic,
    values: Values,
}

/// A request that has come: its first attempt, or another one after a denial.
#[derive(Clone, Copy, Debug)]
pub struct Attempt {
    pub(crate) event: Event,
    workload: usize,
    /// How many attempts there were before.
    before: u32,
}

/// An attempt that is to come, in the order in which attempts are decided.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Scheduled {
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

// === impl Course ===

impl<'s> Course<'s> {
    /// Nothing has come yet.
    pub fn new(simulation: &'s Simulation) -> Course<'s> {
        let random = |index: u64, of| Random::new(simulation.seed, index << 1 | of);
        let sources = (0_u64..).zip(&simulation.workloads);
        let sources = sources.map(|(index, workload)| Source {
            workload,
            arrivals: workload.arrivals(random(index, ARRIVALS)),
            random: random(index, RETRIES),
            totals: WorkloadTotals {
                text: workload.to_string(),
                ..WorkloadTotals::default()
            },
        });
        let mut course = Course {
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
        for workload in 0..course.sources.len() {
            course.schedule_next(workload);
        }
        course
    }

    /// Also keeps what is answered, so that [`crate::replay`] and [`crate::survey`] report these
    /// answers in place of decisions of their own.
    #[must_use]
    pub fn with_answers(self) -> Course<'s> {
        Course {
            traffic: self.traffic.with_verdicts(Verdicts::default()),
            ..self
        }
    }

    /// When the next attempt comes, as far as is known now.
    pub fn next_at(&self) -> Option<Moment> {
        self.schedule.peek().map(|Reverse(next)| next.at)
    }

    /// The next attempt, which has come now.
    ///
    /// # Errors
    ///
    /// [`Error::ManyEvents`] beyond [`Simulation::events_max`].
    pub fn begin(&mut self) -> Result<Option<Attempt>, Error> {
        let Some(Reverse(next)) = self.schedule.pop() else {
            return Ok(None);
        };
        let max = self.simulation.events_max;
        if u64::try_from(self.traffic.events()).is_ok_and(|events| events >= max) {
            return Err(Error::ManyEvents { max });
        }
        Ok(Some(Attempt {
            event: self.event(&next)?,
            workload: next.workload,
            before: next.before,
        }))
    }

    /// Passes the request of an attempt to `read`.
    pub fn request<T>(&self, attempt: &Attempt, read: impl FnOnce(&Request<'_>) -> T) -> T {
        self.traffic.request(attempt.event.request, read)
    }

    /// An attempt is answered `now`; if it is denied, its client may try again.
    ///
    /// # Errors
    ///
    /// [`Error::ManyDecisions`] if answers are kept and these are too many.
    pub fn answer(&mut self, attempt: &Attempt, now: Moment, answer: &Answer) -> Result<(), Error> {
        self.traffic.keep_verdict(attempt.event.line, answer)?;
        self.settle(attempt, now, answer.denial, answer.delay);
        Ok(())
    }

    /// An attempt has no answer; its client does not try again.
    pub fn fail(&mut self, attempt: &Attempt) {
        let totals = &mut self.sources[attempt.workload].totals;
        totals.add_attempt(attempt.before);
    }

    /// All events, and what came of each workload.
    pub fn into_parts(self) -> (Traffic, Vec<WorkloadTotals>) {
        let totals = self.sources.into_iter().map(|source| source.totals);
        (self.traffic, totals.collect())
    }

    /// The events so far.
    pub(crate) const fn traffic(&self) -> &Traffic {
        &self.traffic
    }

    /// An attempt is decided `now`.
    pub(crate) fn settle(
        &mut self,
        attempt: &Attempt,
        now: Moment,
        denial: Option<RequestDenial>,
        delay: Span,
    ) {
        let totals = &mut self.sources[attempt.workload].totals;
        totals.add(attempt.before, denial, delay);
        if let Some(denial) = denial {
            self.retry(attempt, now, denial.wait);
        }
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
        self.schedule.push(Reverse(Scheduled {
            at,
            scheduled: self.scheduled,
            workload,
            request,
            before,
        }));
    }

    /// The event of an attempt; after a first one, the workload's next arrival is scheduled.
    fn event(&mut self, next: &Scheduled) -> Result<Event, Error> {
        let key = match next.request {
            Asked::Again(request) => return self.traffic.repeat(next.at, request),
            Asked::Key(key) => key,
        };
        self.schedule_next(next.workload);
        let client = self.sources[next.workload].workload.key(key);
        let descriptors = &self.simulation.descriptors;
        render_client(&client, next.at, descriptors, &mut self.values);
        self.traffic.generate(next.at, self.values.as_bytes())
    }

    /// Schedules another attempt after a denial, unless the client gives up, or would come after
    /// the last moment that can be replayed.
    fn retry(&mut self, attempt: &Attempt, now: Moment, wait: Wait) {
        let attempts = attempt.before + 1;
        let source = &mut self.sources[attempt.workload];
        let pause = |retry: Retry| retry.pause(attempts, wait, &mut source.random);
        if let Some(pause) = source.workload.retry().and_then(pause) {
            let (at, request) = (now + pause, Asked::Again(attempt.event.request));
            if at <= MOMENT_MAX {
                self.schedule(at, attempt.workload, request, attempts);
            }
        }
    }
}

// === impl Attempt ===

impl Attempt {
    /// When it comes.
    pub const fn at(&self) -> Moment {
        self.event.at
    }

    /// Its place among all attempts, from 0.
    pub const fn number(&self) -> u32 {
        self.event.line
    }

    /// How many attempts of the same request there were before.
    pub const fn before(&self) -> u32 {
        self.before
    }
}
