#![allow(clippy::unwrap_used)]

use std::future::pending;
use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::time::timeout;

use super::*;
use std::time::Duration;

const MILLI: u64 = 1_000_000;

/// A service that answers after this time, and when its requests came.
struct Service {
    answers_after: Duration,
    answer: Result<Decision, Unanswered>,
    came: Mutex<Vec<Duration>>,
    in_flight: AtomicUsize,
    most_in_flight: AtomicUsize,
}

/// Sends requests of these milliseconds in virtual time.
async fn run(
    speed: &str,
    in_flight: usize,
    millis: impl IntoIterator<Item = u64>,
    (answers_after, answer): (Duration, Result<Decision, Unanswered>),
) -> (End, Sums, Arc<Service>) {
    let service = Arc::new(Service {
        answers_after,
        answer,
        came: Mutex::default(),
        in_flight: AtomicUsize::default(),
        most_in_flight: AtomicUsize::default(),
    });
    let schedule = Schedule {
        pace: Pace::new(speed.parse().unwrap(), Some(Moment::ZERO)),
        in_flight: in_flight.try_into().unwrap(),
        sums: Arc::default(),
    };
    let start = Instant::now();
    let requests = millis
        .into_iter()
        .map(|at| (Moment::from_nanos(at * MILLI), ()));
    let end = schedule.run(requests, |()| {
        let service = Arc::clone(&service);
        async move {
            service.came.lock().unwrap().push(start.elapsed());
            let now = service.in_flight.fetch_add(1, Ordering::Relaxed) + 1;
            service.most_in_flight.fetch_max(now, Ordering::Relaxed);
            // In virtual time, which nothing else ends.
            let _ = timeout(service.answers_after, pending::<()>()).await;
            service.in_flight.fetch_sub(1, Ordering::Relaxed);
            service.answer.clone()
        }
    });
    let end = end.await;
    let sums = schedule.lock().clone();
    (end, sums, service)
}

fn millis(of: impl IntoIterator<Item = u64>) -> Vec<Duration> {
    of.into_iter().map(Duration::from_millis).collect()
}

#[tokio::test(start_paused = true)]
async fn requests_are_sent_at_their_times_whatever_is_still_unanswered() {
    let slow = (Duration::from_secs(9), Ok(Decision::Allowed));
    for (speed, expected) in [("1x", [0, 100, 100, 2000]), ("0.5x", [0, 200, 200, 4000])] {
        let times = [0, 100, 100, 2000];
        let (end, sums, service) = run(speed, 4, times, slow.clone()).await;
        assert_eq!(*service.came.lock().unwrap(), millis(expected), "{speed}");
        assert_eq!((end, sums.offered, sums.allowed), (End::Done, 4, 4));
        assert_eq!(sums.late.most(), Duration::ZERO);
        assert_eq!(sums.latency.most(), Duration::from_secs(9));
    }
}

#[tokio::test(start_paused = true)]
async fn at_the_most_as_many_are_in_flight_as_allowed_and_all_are_sent() {
    let answer = (Duration::from_millis(10), Ok(Decision::Denied));
    let (end, sums, service) = run("max", 3, [0, 5_000, 10_000, 1 << 40, 1 << 40], answer).await;
    assert_eq!(
        (end, sums.sent, sums.denied, sums.not_sent),
        (End::Done, 5, 5, 0)
    );
    assert_eq!(service.most_in_flight.load(Ordering::Relaxed), 3);
    assert_eq!(*service.came.lock().unwrap(), millis([0, 0, 0, 10, 10]));
    assert!(sums.late.is_empty());
}

#[tokio::test(start_paused = true)]
async fn beyond_the_bound_requests_are_late_and_then_not_sent() {
    // Two in flight, an answer takes 0.6 s: of six requests at once, two are sent at once, two are
    // 0.6 s late, and two would be 1.2 s late. The last one finds the service free again.
    let answer = (Duration::from_millis(600), Ok(Decision::Allowed));
    let (end, sums, service) = run("1x", 2, [0, 0, 0, 0, 0, 0, 5000], answer).await;
    assert_eq!(
        *service.came.lock().unwrap(),
        millis([0, 0, 600, 600, 5000])
    );
    assert_eq!(
        (end, sums.offered, sums.sent, sums.not_sent),
        (End::Done, 7, 5, 2)
    );
    assert_eq!(sums.late.most(), Duration::from_millis(600));
    assert_eq!(service.most_in_flight.load(Ordering::Relaxed), 2);
}

#[tokio::test(start_paused = true)]
async fn the_rest_is_not_sent_if_the_first_requests_are_all_undecided() {
    let failed = (Duration::from_millis(1), Err(Unanswered::Closed));
    let (end, sums, _) = run("1x", 1, (0..1000).map(|at| at * 10), failed).await;
    assert_eq!(
        (end, sums.errors, sums.offered),
        (End::NoDecision, 100, 100)
    );
    assert_eq!(sums.decisions(), 0);
}

#[tokio::test(start_paused = true)]
async fn there_may_be_no_request() {
    let answer = (Duration::ZERO, Ok(Decision::Allowed));
    let (end, sums, _) = run("1x", 1, [], answer).await;
    assert_eq!((end, sums.offered), (End::Done, 0));
}
