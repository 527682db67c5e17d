//! A failover to a machine whose clock is wrong.
//!
//! A clock that is behind may only cause waiting: from the moment when the new primary serves, no
//! key waits for longer than its limit's memory. A clock that is ahead may only give each limit its
//! units once more.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use tokio::task::JoinSet;
use tollgate_core::{Algorithm, Anchor, Cost, KeyHasher, Limit, Mode, Span, StoreError};
use tollgate_redis::{Config, LEASE_LASTS, Redis};
use tollgate_testbed::{Sentinels, Setup};

use crate::cluster::watched;
use crate::record::Outcome;
use crate::traffic::{CONTROL, charge, ring};
use crate::{named, patient};

/// The error of the clock in seconds; much longer than the memory of any limit here.
const WRONG: i32 = 90;
const UNITS: u32 = 50;
const WINDOW: Duration = Duration::from_secs(5);
/// Callers for each key.
const TASKS: usize = 3;
const PAUSE: Duration = Duration::from_millis(5);
/// How long traffic runs before the failover, and after it.
const BEFORE: Duration = Duration::from_secs(6);
const AFTER: Duration = Duration::from_secs(10);
/// How long connecting to the new primary may take, plus the lateness of the test itself.
const SLACK: Duration = Duration::from_millis(1_500);

/// A limit and a mode, with a key of its own.
#[derive(Clone, Copy)]
struct Asked {
    name: &'static str,
    limit: Limit,
    mode: Mode,
}

/// A decision: its start, its end and its outcome.
type Snapshot = (Instant, Instant, Outcome);

fn all() -> Vec<Asked> {
    let window = Span::from(WINDOW);
    let first = Algorithm::FixedWindow(Anchor::FirstRequest);
    let limits = [
        ("sliding_log", Limit::sliding_log(UNITS, window)),
        ("sliding_window", Limit::sliding_window(UNITS, window, 5)),
        ("fixed_window", Limit::fixed_window(UNITS, window)),
        (
            "fixed_window, anchor: first_request",
            Limit::new(first, UNITS, window),
        ),
        ("token_bucket", Limit::token_bucket(UNITS, window)),
        ("leaky_bucket", Limit::leaky_bucket(UNITS, window)),
    ];
    let modes = limits.iter().flat_map(|(name, limit)| {
        let limit = limit.unwrap();
        let modes = [Mode::Strict, Mode::Leased, Mode::WriteBack];
        let modes = modes.into_iter();
        let suiting = modes.filter(move |mode| mode.suits(&limit));
        suiting.map(move |mode| Asked { name, limit, mode })
    });
    modes.collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_clock_that_goes_back_locks_no_key() {
    let wrong = Setup::default().with_clock(-WRONG);
    failover(&Sentinels::start_with(&wrong), -WRONG).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_clock_that_goes_back_locks_no_key_over_tls() {
    let wrong = Setup::default().with_clock(-WRONG);
    failover(&Sentinels::start_over_tls(&wrong), -WRONG).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_clock_that_goes_ahead_gives_every_budget_once_more() {
    let wrong = Setup::default().with_clock(WRONG);
    failover(&Sentinels::start_with(&wrong), WRONG).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_clock_that_goes_ahead_gives_every_budget_once_more_over_tls() {
    let wrong = Setup::default().with_clock(WRONG);
    failover(&Sentinels::start_over_tls(&wrong), WRONG).await;
}

/// Requests more than the limits allow, before, during and after a failover to a clock that is
/// wrong by so many seconds.
async fn failover(sentinels: &Sentinels, seconds: i32) {
    let what = format!("a failover to a clock that is wrong by {seconds:+} s");
    let what = named(&what, sentinels.certificates());
    let config = watched(sentinels);
    let end = Instant::now() + BEFORE + AFTER;
    let store = Arc::new(Redis::connect(&config).unwrap());
    let mut asking = JoinSet::new();
    for (number, asked) in all().into_iter().enumerate() {
        for _ in 0..TASKS {
            let store = Arc::clone(&store);
            asking.spawn(async move { (number, ask(&store, asked, end).await) });
        }
    }
    let stop = Arc::new(AtomicBool::new(false));
    let control = tokio::spawn(ring(Arc::clone(&stop)));
    tokio::time::sleep(BEFORE).await;
    let held = dies_with_a_lease(&config).await;
    let fault = Instant::now();
    let former = sentinels.master().port();
    sentinels.master().kill();
    tokio::task::block_in_place(|| sentinels.wait_for_failover(former));
    let again = Instant::now();
    let back = comes_back(&config, again).await;
    let mut snapshot = vec![Vec::new(); all().len()];
    for (number, part) in asking.join_all().await {
        snapshot[number].extend(part);
    }
    stop.store(true, Ordering::Relaxed);
    let stood = control.await.unwrap().into_iter().max().unwrap();
    println!(
        "{what}: of {held} units that a node held when it died, all were there again {back:.1?} \
         after the failover (timers of {CONTROL:?}: longest {stood:.1?})"
    );
    for (asked, snapshot) in all().iter().zip(&mut snapshot) {
        snapshot.sort();
        asked.tell(snapshot, [fault, again], stood, seconds > 0);
    }
}

async fn ask(store: &Redis, asked: Asked, end: Instant) -> Vec<Snapshot> {
    let mode: &[u8] = match asked.mode {
        Mode::Leased => b"leased",
        Mode::Strict => b"strict",
        Mode::WriteBack => b"write_back",
    };
    let key = store.key([&b"clock"[..], mode, asked.name.as_bytes()].into_iter());
    let mut snapshot = Vec::new();
    while Instant::now() < end {
        let begun = Instant::now();
        let charge = charge(key, &asked.limit, asked.mode, Cost::ONE);
        let outcome = Outcome::of(store.decide(&[charge]).await);
        snapshot.push((begun, Instant::now(), outcome));
        tokio::time::sleep(PAUSE).await;
    }
    snapshot
}

/// The bucket of which an instance has leased units when it is closed without returning them.
fn bucket() -> Limit {
    Limit::token_bucket(UNITS, Span::from(WINDOW)).unwrap()
}

/// Leases units with an instance that is dropped without returning them; returns how many are
/// leased, as Redis has it.
async fn dies_with_a_lease(config: &Config) -> u32 {
    let store = Redis::connect(&patient(config.clone())).unwrap();
    let (limit, key) = (bucket(), store.key([&b"held"[..]].into_iter()));
    for _ in 0..4 {
        let one = charge(key, &limit, Mode::Leased, Cost::ONE);
        assert!(store.decide(&[one]).await.unwrap().is_allowed());
    }
    let held = UNITS - remaining(&store).await.unwrap();
    assert!(held > 4, "{held}");
    held
}

/// How long it takes until the bucket is full and not locked. The new primary may need some of this
/// time to reply at all.
async fn comes_back(config: &Config, from: Instant) -> Duration {
    let store = Redis::connect(&patient(config.clone())).unwrap();
    loop {
        let remaining = remaining(&store).await;
        let waited = from.elapsed();
        if matches!(remaining, Ok(UNITS)) {
            return waited;
        }
        let most = Duration::from(LEASE_LASTS) + WINDOW + SLACK;
        assert!(waited < most, "locked for {waited:?}: {remaining:?}");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

/// What remains as Redis has it: in `leased`, what the store has leased itself would count as free.
async fn remaining(store: &Redis) -> Result<u32, StoreError> {
    let (limit, key) = (bucket(), store.key([&b"held"[..]].into_iter()));
    let peek = charge(key, &limit, Mode::Strict, Cost::Peek(1));
    let verdict = store.decide(&[peek]).await?;
    Ok(verdict.decisions[0].remaining())
}

// === impl Asked ===

impl Asked {
    /// The most units that may be allowed within any window's length if clocks are right.
    fn most(&self) -> usize {
        let units = usize::try_from(UNITS).unwrap();
        match self.limit.algorithm() {
            Algorithm::SlidingLog => units,
            // Two adjacent windows, a full bucket and its refill, or a burst that a sliding window
            // estimates as evenly spread.
            _ => 2 * units,
        }
    }

    fn tell(
        &self,
        snapshot: &[Snapshot],
        [fault, again]: [Instant; 2],
        stood: Duration,
        is_ahead: bool,
    ) {
        let allowed: Vec<&Snapshot> = snapshot
            .iter()
            .filter(|snapshot| snapshot.2 == Outcome::Allowed)
            .collect();
        let next = allowed
            .iter()
            .find(|snapshot| snapshot.0 > again)
            .expect("it is never allowed again");
        let waited = next.1 - again;
        let before: Vec<&Snapshot> = allowed
            .iter()
            .copied()
            .filter(|snapshot| snapshot.1 < fault)
            .collect();
        let [usual, most] = [&before, &allowed].map(|snapshot| most_within(snapshot, WINDOW));
        println!(
            "  {}, {:?}: {} allowed; at most {usual} in {WINDOW:?} before it, {most} over all; \
             allowed again {waited:.1?} after it",
            self.name,
            self.mode,
            allowed.len(),
        );
        assert!(
            waited <= WINDOW + SLACK + stood,
            "{}: locked for {waited:?}",
            self.name
        );
        assert!(usual <= self.most(), "{}: {usual} in {WINDOW:?}", self.name);
        let once_more = if is_ahead {
            usize::try_from(UNITS).unwrap()
        } else {
            0
        };
        assert!(
            most <= self.most() + once_more,
            "{}: {most} in {WINDOW:?}",
            self.name
        );
    }
}

/// The most decisions that were certainly allowed within any period of this length.
fn most_within(allowed: &[&Snapshot], time: Duration) -> usize {
    let within = |from: Instant| {
        let all = allowed.iter();
        all.filter(|(begun, ended, _)| *begun >= from && *ended < from + time)
            .count()
    };
    allowed
        .iter()
        .map(|(begun, ..)| within(*begun))
        .max()
        .unwrap_or(0)
}
