//! Callers that send requests continuously, and timers that measure how late the machine is.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use tokio::task::JoinSet;
use tollgate_core::{Charge, Cost, Key, KeyHasher, Limit, Mode, Sharing};
use tollgate_redis::{Config, Redis};

use crate::record::{Outcome, Record, Snapshot};
use crate::wide;

const TASKS: usize = 20;
/// Keys of each kind but write-back, which has few, so that a narrow limit is exceeded.
pub(crate) const KEYS: usize = 128;
pub(crate) const WRITE_BACK_KEYS: usize = 2;
/// Instances that decide in write-back mode; the first of them also decides in the other modes.
pub(crate) const INSTANCES: usize = 2;
/// Timers beside the traffic, as long as a decision's timeout.
const CONTROLS: usize = 8;
pub(crate) const CONTROL: Duration = Duration::from_millis(9);

/// What one caller requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// One unit of one key.
    Strict,
    /// One unit of a key of which no unit is requested in strict mode.
    Leased,
    /// One unit of each of two keys that strict requests charge too; in a Cluster they are in two
    /// slots.
    Pair,
    /// One unit of a key that both instances count locally.
    WriteBack,
}

/// Callers that send requests until they are stopped.
pub(crate) struct Traffic {
    pub(crate) store: Arc<Redis>,
    other: Arc<Redis>,
    config: Config,
    limit: Limit,
    stop: Arc<AtomicBool>,
    callers: JoinSet<Vec<Snapshot>>,
    controls: JoinSet<Vec<Duration>>,
}

// === impl Kind ===

impl Kind {
    const fn of(task: usize) -> Kind {
        match task % 5 {
            0 | 1 => Kind::Strict,
            2 => Kind::Leased,
            3 => Kind::Pair,
            _ => Kind::WriteBack,
        }
    }

    pub(crate) const fn mode(self) -> Mode {
        match self {
            Kind::Strict | Kind::Pair => Mode::Strict,
            Kind::Leased => Mode::Leased,
            Kind::WriteBack => Mode::WriteBack,
        }
    }

    const fn keys(self) -> usize {
        match self {
            Kind::WriteBack => WRITE_BACK_KEYS,
            Kind::Strict | Kind::Leased | Kind::Pair => KEYS,
        }
    }
}

/// The key of this number among those that are decided in this mode.
pub(crate) fn key(store: &Redis, mode: Mode, number: usize) -> Key {
    let mode: &[u8] = match mode {
        Mode::Leased => b"leased",
        Mode::Strict => b"strict",
        Mode::WriteBack => b"write_back",
    };
    store.key([&b"fault"[..], mode, &number.to_le_bytes()].into_iter())
}

pub(crate) fn charge(key: Key, limit: &Limit, mode: Mode, cost: Cost) -> Charge<'_> {
    Charge::new(key, limit, cost).shared(Sharing::in_mode(mode))
}

// === impl Traffic ===

impl Traffic {
    /// Starts the traffic, with this limit for every key.
    pub(crate) fn start(config: &Config, limit: Limit) -> Traffic {
        let [store, other] = [(); INSTANCES].map(|()| Arc::new(Redis::connect(config).unwrap()));
        let stop = Arc::new(AtomicBool::new(false));
        let mut callers = JoinSet::new();
        for task in 0..TASKS {
            let instance = match Kind::of(task) {
                Kind::WriteBack => task / 5 % INSTANCES,
                Kind::Strict | Kind::Leased | Kind::Pair => 0,
            };
            let store = Arc::clone([&store, &other][instance]);
            callers.spawn(ask(store, instance, limit, task, Arc::clone(&stop)));
        }
        let mut controls = JoinSet::new();
        for _ in 0..CONTROLS {
            controls.spawn(ring(Arc::clone(&stop)));
        }
        Traffic {
            store,
            other,
            config: config.clone(),
            limit,
            stop,
            callers,
            controls,
        }
    }

    /// Waits until decisions in 50 slots have succeeded; returns how long the first one took. How
    /// long all of them take depends on the machine, and a single one may be too late on a busy
    /// one: it is made again in the same slot.
    pub(crate) async fn settle(&self) -> Duration {
        let start = Instant::now();
        let limit = wide();
        let (mut answered, mut first) = (0, None);
        while answered < 50_u32 {
            let waited = start.elapsed();
            assert!(
                waited < Duration::from_secs(20),
                "no service for {waited:?}"
            );
            let parts = [&b"settled"[..], b"", &answered.to_le_bytes()];
            let charge = Charge::new(self.store.key(parts.into_iter()), &limit, Cost::ONE);
            let outcome = Outcome::of(self.store.decide(&[charge]).await);
            if outcome.is_answer() {
                answered += 1;
                first = first.or(Some(start.elapsed()));
            }
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        first.unwrap()
    }

    pub(crate) async fn end(self) -> Record {
        self.stop.store(true, Ordering::Relaxed);
        let mut snapshot = self.callers.join_all().await.concat();
        snapshot.sort_by_key(|snapshot| snapshot.at);
        let mut control = self.controls.join_all().await.concat();
        control.sort();
        Record {
            snapshot,
            control,
            instances: [self.store, self.other],
            timeout: self.config.timeout.into(),
            unreported_max: (self.config.sync_interval + self.config.timeout).into(),
            limit: self.limit,
        }
    }
}

async fn ask(
    store: Arc<Redis>,
    instance: usize,
    limit: Limit,
    task: usize,
    stop: Arc<AtomicBool>,
) -> Vec<Snapshot> {
    let kind = Kind::of(task);
    let mut snapshot = Vec::new();
    let mut first = task;
    while !stop.load(Ordering::Relaxed) {
        first = (first * 5 + 7) % kind.keys();
        let second = (kind == Kind::Pair).then_some((first + 1) % KEYS);
        let one = |number| {
            let key = key(&store, kind.mode(), number);
            charge(key, &limit, kind.mode(), Cost::ONE)
        };
        let charges: Vec<Charge<'_>> = [Some(first), second]
            .iter()
            .flatten()
            .copied()
            .map(one)
            .collect();
        let at = Instant::now();
        let outcome = Outcome::of(store.decide(&charges).await);
        let took = at.elapsed();
        snapshot.push(Snapshot {
            at,
            took,
            instance,
            kind,
            keys: [Some(first), second],
            outcome,
        });
        // Callers pause differently, so that requests of different age are in flight when a fault
        // begins.
        let pause = 1 + u64::try_from(task % 4).unwrap();
        tokio::time::sleep(Duration::from_millis(pause)).await;
    }
    snapshot
}

/// Measures how late timers of the length of a decision's timeout are.
pub(crate) async fn ring(stop: Arc<AtomicBool>) -> Vec<Duration> {
    let mut took = Vec::new();
    while !stop.load(Ordering::Relaxed) {
        let start = Instant::now();
        tokio::time::sleep(CONTROL).await;
        took.push(start.elapsed());
    }
    took
}
