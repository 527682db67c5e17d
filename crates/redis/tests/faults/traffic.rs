//! Callers that ask without end, and a clock beside them.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use tokio::task::JoinSet;
use tollgate_core::{Charge, Cost, Key, KeyHasher, Limit, Mode, Sharing};
use tollgate_redis::{Config, Redis};

use crate::record::{Outcome, Record, Snapshot};
use crate::wide;

const TASKS: usize = 20;
/// Of each kind, but for write_back: there they are few, so that a narrow limit is exceeded.
pub(crate) const KEYS: usize = 128;
pub(crate) const WRITE_BACK_KEYS: usize = 2;
/// Nodes that are asked in write_back, the first of them in other modes as well.
pub(crate) const NODES: usize = 2;
/// Timers that ring beside the traffic, as far ahead as a decision's timeout.
const CONTROLS: usize = 8;
pub(crate) const CONTROL: Duration = Duration::from_millis(9);

/// What one caller asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// One unit of one key.
    Strict,
    /// One unit of a key that nobody asks strictly.
    Leased,
    /// One unit of two keys that are asked strictly as well; in a Cluster they are in two slots.
    Pair,
    /// One unit of a key that both nodes count for themselves.
    WriteBack,
}

/// Callers that ask until they are stopped.
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

/// The key of this number among those that are asked in this mode.
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
    /// Begins, with the limit for every key.
    pub(crate) fn start(config: &Config, limit: Limit) -> Traffic {
        let [store, other] = [(); NODES].map(|()| Arc::new(Redis::connect(config).unwrap()));
        let stop = Arc::new(AtomicBool::new(false));
        let mut callers = JoinSet::new();
        for task in 0..TASKS {
            let node = match Kind::of(task) {
                Kind::WriteBack => task / 5 % NODES,
                Kind::Strict | Kind::Leased | Kind::Pair => 0,
            };
            let store = Arc::clone([&store, &other][node]);
            callers.spawn(ask(store, node, limit, task, Arc::clone(&stop)));
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

    /// Lets it run until so many decisions in a row were answered, in as many slots; says after how
    /// long the first one was. How long a whole row of them takes is up to the machine.
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
            answered = if outcome.is_answer() { answered + 1 } else { 0 };
            if outcome.is_answer() {
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
            nodes: [self.store, self.other],
            timeout: self.config.timeout.into(),
            untold: (self.config.sync_interval + self.config.timeout).into(),
            limit: self.limit,
        }
    }
}

async fn ask(
    store: Arc<Redis>,
    node: usize,
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
            node,
            kind,
            keys: [Some(first), second],
            outcome,
        });
        // Not all at once: their requests are to be of different age when something fails.
        let pause = 1 + u64::try_from(task % 4).unwrap();
        tokio::time::sleep(Duration::from_millis(pause)).await;
    }
    snapshot
}

/// How long a timer takes that is set as a decision's is.
pub(crate) async fn ring(stop: Arc<AtomicBool>) -> Vec<Duration> {
    let mut took = Vec::new();
    while !stop.load(Ordering::Relaxed) {
        let start = Instant::now();
        tokio::time::sleep(CONTROL).await;
        took.push(start.elapsed());
    }
    took
}
