//! Simulates traffic: workloads through rules, in virtual time, and what came of each.

use std::fmt;
use std::ops::ControlFlow;

use serde_json::{Value, json};
use tollgate_core::{Moment, RequestDenial, Span, Wait};
use tollgate_rules::RuleSet;

use crate::course::Course;
use crate::decider::Judge;
use crate::error::Error;
use crate::pattern::Pattern;
use crate::plain::Plain;
use crate::replay::{Memories, PROGRESS_EVENTS};
use crate::timestamp::{MOMENT_MAX, Seconds};
use crate::traffic::Traffic;
use crate::workload::Workload;

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
    /// The most events, with all retries: [`crate::EVENTS_MAX`] or fewer.
    pub events_max: u64,
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

/// Workloads and what came of them, for people.
pub struct Workloads<'a>(
    /// The totals of each.
    pub &'a [WorkloadTotals],
);

// === impl Simulation ===

impl Simulation {
    /// The first workload that ends after the last moment that can be replayed, 2500-01-01. Later
    /// times may saturate, and what is decided then means nothing.
    pub fn find_late(&self) -> Option<&Workload> {
        let mut workloads = self.workloads.iter();
        workloads.find(|workload| self.start + workload.end() > MOMENT_MAX)
    }

    /// Decides all requests by `rules`, in order of time, and returns the events that there were:
    /// [`crate::replay`] and [`crate::survey`] decide these by the same rules with the same result.
    ///
    /// `progress` is called now and then with the number of events, and returns whether to go on.
    ///
    /// # Errors
    ///
    /// [`Error::ManyEvents`] beyond [`Simulation::events_max`], [`Error::Stopped`] if `progress`
    /// returned so, [`Error::LargeStore`] if the system does not have the memory for a bounded
    /// store, and [`Error::Store`] if that is too small to decide at all.
    pub fn run(
        &self,
        rules: &RuleSet,
        progress: &mut dyn FnMut(u64) -> ControlFlow<()>,
    ) -> Result<(Traffic, Vec<WorkloadTotals>), Error> {
        let mut judge = Judge::new(rules, self.memories)?;
        let mut course = Course::new(self);
        let mut decided: u64 = 0;
        while let Some(attempt) = course.begin()? {
            if decided.is_multiple_of(PROGRESS_EVENTS) && progress(decided).is_break() {
                return Err(Error::Stopped { decided });
            }
            let verdict = judge.decide(&attempt.event, course.traffic())?.verdict;
            course.settle(&attempt, attempt.at(), verdict.denial, verdict.delay());
            decided += 1;
        }
        Ok(course.into_parts())
    }
}

// === impl WorkloadTotals ===

impl WorkloadTotals {
    /// Adds an attempt that was decided, after so many others of the same request.
    pub(crate) fn add(&mut self, before: u32, denial: Option<RequestDenial>, delay: Span) {
        self.add_attempt(before);
        match denial.map(|denial| denial.wait) {
            None => {
                self.allowed += 1;
                self.longest_delay = self.longest_delay.max(delay);
            }
            Some(Wait::For(wait)) => self.longest_wait = self.longest_wait.max(wait),
            Some(Wait::Never) => {}
        }
    }

    /// Adds an attempt, of which nothing else is known.
    pub(crate) fn add_attempt(&mut self, before: u32) {
        self.attempts += 1;
        self.requests += u64::from(before == 0);
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
