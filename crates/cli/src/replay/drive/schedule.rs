//! Sends requests at their times, whether or not earlier ones are answered: an open loop.

use std::num::NonZeroUsize;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::Semaphore;
use tokio::time::{Instant, sleep_until, timeout_at};
use tollgate_core::Moment;

use super::answer::{Decision, Unanswered};
use super::bounds::LATE_MAX;
use super::pace::Pace;
use super::sums::Sums;

/// If none of so many first requests is decided, the others are not sent.
const UNDECIDED_MAX: u64 = 100;

/// How the sending ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
    /// The time of every request has come, and those that were sent are answered or have failed.
    Done,
    /// The first requests all failed.
    NoDecision,
    /// By the user.
    Interrupted,
}

/// Which requests are sent when.
pub(super) struct Schedule {
    pub(super) pace: Pace,
    /// The most requests that wait for their answers.
    pub(super) in_flight: NonZeroUsize,
    pub(super) sums: Arc<Mutex<Sums>>,
}

// === impl Schedule ===

impl Schedule {
    /// Sends requests, which come in order of time, by `send`, and counts what comes of them.
    pub(super) async fn run<R, F>(
        &self,
        requests: impl Iterator<Item = (Moment, R)>,
        send: impl Fn(R) -> F,
    ) -> End
    where
        F: Future<Output = Result<Decision, Unanswered>> + Send + 'static,
    {
        let start = Instant::now();
        let permits = Arc::new(Semaphore::new(self.in_flight.get()));
        for (at, request) in requests {
            let due = self.pace.due(at);
            let due = due.map(|due| start.checked_add(due).unwrap_or(start));
            if let Some(due) = due {
                sleep_until(due).await;
            }
            if self.lock().has_no_decision(UNDECIDED_MAX) {
                return End::NoDecision;
            }
            self.lock().offered += 1;
            let permit = Arc::clone(&permits).acquire_owned();
            let permit = match due {
                None => permit.await.ok(),
                Some(due) => timeout_at(due + LATE_MAX, permit)
                    .await
                    .ok()
                    .and_then(Result::ok),
            };
            let Some(permit) = permit else {
                self.lock().not_sent += 1;
                continue;
            };
            let late = due.map(|due| Instant::now().duration_since(due));
            self.lock().send(late);
            let (answer, sums) = (send(request), Arc::clone(&self.sums));
            tokio::spawn(async move {
                let sent = Instant::now();
                let answer = answer.await;
                lock(&sums).add(answer, sent.elapsed());
                drop(permit);
            });
            // One thread sends and receives: without a pause, answers would wait for a whole burst.
            tokio::task::yield_now().await;
        }
        let all = u32::try_from(self.in_flight.get()).unwrap_or(u32::MAX);
        // The semaphore is never closed; what is in flight ends by its own timeout.
        let _all = permits.acquire_many(all).await;
        End::Done
    }

    fn lock(&self) -> MutexGuard<'_, Sums> {
        lock(&self.sums)
    }
}

fn lock(sums: &Mutex<Sums>) -> MutexGuard<'_, Sums> {
    sums.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests;
