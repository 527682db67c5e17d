//! Traffic that instances decide, each request at its time.

use std::ops::ControlFlow;

use tokio::task::{JoinSet, yield_now};
use tokio::time::Instant;
use tollgate_core::{Moment, Span};
use tollgate_replay::{Attempt, Course, Error, Simulation, Traffic, WorkloadTotals};

use super::asked::AskedRequest;
use super::incidents::Incidents;
use super::load::Load;
use super::pace::Pace;
use super::places::Places;
use crate::outcome::Outcome;
use crate::random::Random;

/// Events between two calls of `progress`.
const PROGRESS_EVENTS: u64 = 256;
/// How often tasks get their turn, at most, until a decision is made that takes no time.
const TURNS_MAX: u32 = 200;
/// Sets the numbers that choose instances apart from the others of a seed.
const STREAM: u64 = 0x1B;

/// Traffic that is being decided.
pub(super) struct Play<'s> {
    course: Course<'s>,
    start: Moment,
    /// When the first request may come.
    begin: Instant,
    pace: Pace,
    /// Whether a decision may take no time.
    is_instant: bool,
    places: Places,
    random: Random,
    decisions: JoinSet<Ended>,
    decided: u64,
    without_redis: u64,
    failed: u64,
}

/// A decision.
struct Ended {
    attempt: Attempt,
    at: Instant,
    outcome: Outcome,
    /// The number of the instance.
    by: usize,
}

/// What is called now and then with the number of decisions, and returns whether to go on.
pub(super) type Progress<'p> = &'p mut dyn FnMut(u64) -> ControlFlow<()>;

// === impl Play ===

impl<'s> Play<'s> {
    /// Nothing has come yet; the first request can come at `begin`.
    pub(super) fn new(
        simulation: &'s Simulation,
        places: Places,
        (begin, pace): (Instant, Pace),
        is_instant: bool,
    ) -> Play<'s> {
        Play {
            course: Course::new(simulation).with_answers(),
            start: simulation.start,
            begin,
            pace,
            is_instant,
            places,
            random: Random::new(simulation.seed ^ STREAM),
            decisions: JoinSet::new(),
            decided: 0,
            without_redis: 0,
            failed: 0,
        }
    }

    /// Has all requests decided while incidents happen.
    pub(super) async fn run(
        &mut self,
        incidents: &mut Incidents<'_>,
        progress: Progress<'_>,
    ) -> Result<(), Error> {
        let mut begun: u64 = 0;
        loop {
            self.give_turns(incidents).await?;
            let next = self.course.next_at().map(|at| at.since(self.start));
            if next.is_none() && self.decisions.is_empty() {
                return Ok(());
            }
            let incident = incidents.next_at();
            let due = [next, incident].into_iter().flatten().min();
            let ended = self.wait_until(due).await;
            if let Some(ended) = ended {
                self.end(ended, incidents)?;
            } else if incident.is_some() && incident == due {
                incidents.happen(&self.places);
            } else {
                if begun.is_multiple_of(PROGRESS_EVENTS) && progress(self.decided).is_break() {
                    let decided = self.decided;
                    return Err(Error::Stopped { decided });
                }
                begun += 1;
                self.begin_next()?;
            }
        }
    }

    /// Waits for this time after the first request; unless a decision is made before, which is
    /// returned. Without a time, waits for a decision.
    async fn wait_until(&mut self, due: Option<Span>) -> Option<Ended> {
        let Some(due) = due else {
            self.pace.to_tick().await;
            return self.next_decision().await;
        };
        let (pace, moment) = (self.pace, self.begin + due.to_duration());
        tokio::select! {
            biased;
            Some(ended) = self.next_decision() => Some(ended),
            () = pace.until(moment) => None,
        }
    }

    async fn next_decision(&mut self) -> Option<Ended> {
        let ended = self.decisions.join_next().await?;
        Some(ended.expect("a decision does not panic"))
    }

    /// Gives all tasks their turn before more time passes, so that what takes no time is done.
    async fn give_turns(&mut self, incidents: &Incidents<'_>) -> Result<(), Error> {
        let turns = if self.is_instant { TURNS_MAX } else { 1 };
        for _ in 0..turns {
            while let Some(ended) = self.decisions.try_join_next() {
                self.end(ended.expect("a decision does not panic"), incidents)?;
            }
            if self.decisions.is_empty() {
                return Ok(());
            }
            yield_now().await;
        }
        Ok(())
    }

    /// Has an instance at random decide on the next attempt, which has come.
    fn begin_next(&mut self) -> Result<(), Error> {
        let Some(attempt) = self.course.begin()? else {
            return Ok(());
        };
        let count = self.places.lock().len();
        let place = self.random.index(count);
        let Some(instance) = self.places.up(place) else {
            self.course.fail(&attempt);
            self.failed += 1;
            return Ok(());
        };
        let asked = self.course.request(&attempt, AskedRequest::of);
        self.decisions.spawn(async move {
            let (outcome, _) = instance.decide(&asked.request(), None).await;
            Ended {
                attempt,
                at: Instant::now(),
                outcome,
                by: instance.number,
            }
        });
        Ok(())
    }

    /// Counts a decision. An instance that has ended answers nobody.
    fn end(&mut self, ended: Ended, incidents: &Incidents<'_>) -> Result<(), Error> {
        self.decided += 1;
        let answer = match ended.outcome {
            Outcome::Decided(answer) if !incidents.has_ended(ended.by) => answer,
            Outcome::FellBack(answer) if !incidents.has_ended(ended.by) => {
                self.without_redis += 1;
                answer
            }
            _ => {
                self.failed += 1;
                self.course.fail(&ended.attempt);
                return Ok(());
            }
        };
        let passed = ended.at.saturating_duration_since(self.begin).as_nanos();
        let now = self.start + Span::from_nanos(u64::try_from(passed).unwrap_or(u64::MAX));
        self.course.answer(&ended.attempt, now, &answer)
    }

    /// What was decided, and how; what it cost is not known here.
    pub(super) fn finish(self) -> (Traffic, Vec<WorkloadTotals>, Load) {
        let (traffic, workloads) = self.course.into_parts();
        let bounds = traffic.bounds();
        let load = Load {
            without_redis: self.without_redis,
            failed: self.failed,
            length: bounds.map_or(Span::ZERO, |(first, last)| last.since(first)),
            ..Load::default()
        };
        (traffic, workloads, load)
    }
}
