//! What the well-behaved client sees: its schedules, and the latency of each request.

use std::io::Result;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::time::{Duration, Instant, sleep_until};

use crate::peer::within;
use crate::report::Report;

/// The examples of errors in a report.
const EXAMPLES: usize = 3;

/// What all schedules of a client have seen.
#[derive(Clone, Debug, Default)]
pub(crate) struct Record(Arc<Mutex<Entries>>);

#[derive(Debug, Default)]
struct Entries {
    /// When each request was due, and how long after that it had its answer.
    answered: Vec<(Instant, Duration)>,
    errors: Vec<String>,
    /// The next request of each schedule that has not ended, or the one that waits for its answer.
    next: Vec<Option<Next>>,
    /// No request that is due later is sent.
    stop: Option<Instant>,
}

#[derive(Clone, Copy, Debug)]
struct Next {
    what: &'static str,
    due: Instant,
    period: Duration,
}

/// Requests that are due one period after the other, whether or not earlier ones are answered. A
/// latency counts from when a request was due: a service that stalls for a second is late for all
/// requests of that second, although each is sent after the answer to the one before.
#[derive(Debug)]
pub(crate) struct Schedule {
    record: Record,
    index: usize,
    next: Next,
}

// === impl Record ===

impl Record {
    /// Adds a schedule whose first request is due after `offset`.
    pub(crate) fn schedule(
        &self,
        what: &'static str,
        period: Duration,
        offset: Duration,
    ) -> Schedule {
        let due = Instant::now() + offset;
        let next = Next { what, due, period };
        let mut entries = self.lock();
        entries.next.push(Some(next));
        Schedule {
            record: self.clone(),
            index: entries.next.len() - 1,
            next,
        }
    }

    /// Ends every schedule with the requests that are due by now.
    pub(crate) fn stop(&self) {
        self.lock().stop = Some(Instant::now());
    }

    /// Reports on the requests that were due between the first of `marks` and the second, and on
    /// the errors of all requests. What has no answer by now is an error, and late.
    pub(crate) fn report(&self, marks: &[Instant]) -> Report {
        let mut entries = self.lock();
        let now = Instant::now();
        let begin = marks.first().copied();
        let end = marks.get(1).copied().unwrap_or(now);
        let is_within = |due: Instant| begin.is_none_or(|begin| due >= begin) && due < end;
        let answered = entries.answered.iter().filter(|(due, _)| is_within(*due));
        let mut latencies: Vec<Duration> = answered.map(|(_, latency)| *latency).collect();
        let answered = latencies.len();
        let stop = entries.stop.unwrap_or(now);
        let unanswered = std::mem::take(&mut entries.next).into_iter().flatten();
        for next in unanswered.filter(|next| next.due <= stop) {
            let late = now - next.due;
            let problem = format!("{}: without an answer, {late:?} late", next.what);
            entries.errors.push(problem);
            let mut due = next.due;
            while due < end {
                if is_within(due) {
                    latencies.push(now - due);
                }
                due += next.period;
            }
        }
        latencies.sort_unstable();
        let part = |percent: usize| latencies.get(latencies.len() * percent / 100).copied();
        let micros = |latency: Option<Duration>| {
            u64::try_from(latency.unwrap_or_default().as_micros()).unwrap_or(u64::MAX)
        };
        let examples: Vec<&str> = entries.errors.iter().map(String::as_str).collect();
        Report {
            p50: micros(part(50)),
            p99: micros(part(99)),
            longest: micros(latencies.last().copied()),
            answered: u64::try_from(answered).unwrap_or(u64::MAX),
            errors: u64::try_from(entries.errors.len()).unwrap_or(u64::MAX),
            examples: examples[..examples.len().min(EXAMPLES)].join("; "),
        }
    }

    fn lock(&self) -> MutexGuard<'_, Entries> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

// === impl Schedule ===

impl Schedule {
    /// Waits until the next request is due; `false` if none is sent any more.
    pub(crate) async fn wait(&mut self) -> bool {
        sleep_until(self.next.due).await;
        let mut entries = self.record.lock();
        let is_over = entries.stop.is_some_and(|stop| self.next.due > stop);
        if is_over {
            entries.next[self.index] = None;
        }
        !is_over
    }

    /// Sends the request that is due, by `asking`; whether it was answered as it must be.
    pub(crate) async fn ask(&mut self, asking: impl Future<Output = Result<()>>) -> bool {
        let asked = within(asking).await;
        let Next { what, due, period } = self.next;
        self.next.due += period;
        let mut entries = self.record.lock();
        entries.next[self.index] = Some(self.next);
        match &asked {
            Ok(()) => entries.answered.push((due, due.elapsed())),
            Err(error) => entries.errors.push(format!("{what}: {error}")),
        }
        asked.is_ok()
    }
}

#[cfg(test)]
mod tests {
    use std::future::{pending, ready};

    use tokio::time::{advance, timeout};

    use super::*;

    const PERIOD: Duration = Duration::from_millis(10);
    const SECOND: Duration = Duration::from_secs(1);

    /// Sends every request that is due by now, with an answer at once.
    async fn catch_up(schedule: &mut Schedule) {
        while schedule.next.due <= Instant::now() {
            assert!(schedule.wait().await);
            assert!(schedule.ask(ready(Ok(()))).await);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_stall_of_a_second_is_as_many_late_requests() {
        let record = Record::default();
        let mut schedule = record.schedule("test", PERIOD, Duration::ZERO);
        let begin = Instant::now();
        advance(SECOND).await;
        catch_up(&mut schedule).await;
        let end = Instant::now();
        let report = record.report(&[begin, end]);
        assert_eq!(report.answered, 100);
        assert_eq!((report.p50, report.longest), (510_000, 1_000_000));
        assert_eq!(report.p99, 1_000_000);
    }

    #[tokio::test(start_paused = true)]
    async fn what_was_due_before_or_after_the_attack_has_no_part_in_its_latencies() {
        let record = Record::default();
        let mut schedule = record.schedule("test", PERIOD, Duration::ZERO);
        advance(SECOND).await;
        catch_up(&mut schedule).await;
        let begin = Instant::now();
        for _ in 0..10 {
            advance(PERIOD).await;
            catch_up(&mut schedule).await;
        }
        let end = Instant::now();
        advance(SECOND).await;
        catch_up(&mut schedule).await;
        record.stop();
        advance(PERIOD).await;
        assert!(!schedule.wait().await);
        let report = record.report(&[begin, end]);
        assert_eq!((report.answered, report.longest), (10, 0));
        assert_eq!((report.errors, report.examples.as_str()), (0, ""));
    }

    #[tokio::test(start_paused = true)]
    async fn a_request_without_an_answer_is_an_error_and_those_behind_it_are_late() {
        let record = Record::default();
        let mut schedule = record.schedule("test", PERIOD, Duration::ZERO);
        let begin = Instant::now();
        assert!(schedule.wait().await);
        assert!(timeout(SECOND, schedule.ask(pending())).await.is_err());
        record.stop();
        let report = record.report(&[begin, Instant::now()]);
        assert_eq!((report.answered, report.errors), (0, 1));
        assert_eq!((report.p50, report.longest), (510_000, 1_000_000));
        assert_eq!(report.examples, "test: without an answer, 1s late");
    }
}
