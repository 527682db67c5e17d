//! One instance: a process of its own.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use tokio::task::JoinSet;
use tollgate_core::{Charge, Cost, KeyHasher, Limit, Mode, Sharing, Span};
use tollgate_redis::{Config, Redis, Tls};
use tollgate_testbed::Cluster;

use crate::log::{Ask, Line, Log, Outcome, now};

/// Callers of each kind.
pub(crate) const KEYS: usize = 8;
const TASKS: usize = 8;
const PAUSE: Duration = Duration::from_millis(1);

/// How an instance reaches the Cluster: the words of its command line.
#[derive(Clone)]
pub(crate) struct Way {
    /// The file of the authority of the nodes' certificates, if they talk over TLS.
    authority: Option<String>,
    addresses: Vec<String>,
}

/// What stands for the authority where there is no TLS.
const PLAIN: &str = "plain";

/// A running instance; killed when dropped.
pub(crate) struct Instance {
    child: Child,
    log: PathBuf,
}

// === impl Way ===

impl Way {
    pub(crate) fn to(cluster: &Cluster) -> Way {
        let certificates = cluster.certificates();
        Way {
            authority: certificates.map(tollgate_testbed::Certificates::authority),
            addresses: cluster.addresses(),
        }
    }

    /// As [`Way::words`] were given to an instance.
    pub(crate) fn read(words: &[String]) -> Way {
        let (authority, addresses) = words.split_first().unwrap();
        Way {
            authority: (authority != PLAIN).then(|| authority.clone()),
            addresses: addresses.to_vec(),
        }
    }

    fn words(&self) -> impl Iterator<Item = &str> {
        let authority = self.authority.as_deref().unwrap_or(PLAIN);
        let addresses = self.addresses.iter().map(String::as_str);
        [authority].into_iter().chain(addresses)
    }

    pub(crate) fn config(&self) -> Config {
        let tls = self.authority.as_ref().map(|authority| Tls {
            authorities: Some(authority.into()),
            ..Tls::default()
        });
        Config {
            tls,
            ..Config::cluster(self.addresses.clone())
        }
    }
}

// === impl Instance ===

impl Instance {
    pub(crate) fn start(log: String, way: &Way) -> Instance {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["instance", &log]).args(way.words());
        let child = command.stdin(Stdio::piped()).spawn().unwrap();
        let log = log.into();
        Instance { child, log }
    }

    /// Kills it with all that it has leased or reserved (SIGKILL).
    pub(crate) fn kill(mut self) -> Vec<Line> {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
        Log::read(&self.log)
    }

    /// Lets it return its leases and end.
    pub(crate) fn stop(mut self) -> Vec<Line> {
        drop(self.child.stdin.take());
        assert!(self.child.wait().unwrap().success());
        Log::read(&self.log)
    }
}

impl Drop for Instance {
    fn drop(&mut self) {
        let _ended_already = self.child.kill();
    }
}

/// A window that does not end within the test. The limit is exhausted some time after the last
/// kill.
pub(crate) fn limit(mode: Mode) -> Limit {
    let units = match mode {
        Mode::Leased => 2_500,
        Mode::Strict => 4_000,
        Mode::WriteBack => 2_000,
    };
    Limit::fixed_window(units, Span::HOUR.times(tollgate_testbed::window_hours())).unwrap()
}

pub(crate) fn charge<'l>(
    store: &Redis,
    limit: &'l Limit,
    mode: Mode,
    number: usize,
    cost: Cost,
) -> Charge<'l> {
    let kind: &[u8] = match mode {
        Mode::Leased => b"leased",
        Mode::Strict => b"pair",
        Mode::WriteBack => b"write_back",
    };
    let key = store.key([&b"death"[..], kind, &number.to_le_bytes()].into_iter());
    Charge::new(key, limit, cost).shared(Sharing::in_mode(mode))
}

/// Sends requests until its standard input is closed.
pub(crate) async fn work(log: &Path, way: &Way) {
    let store = Arc::new(Redis::connect(&way.config()).unwrap());
    let log = Arc::new(Log::open(log));
    let stop = Arc::new(AtomicBool::new(false));
    let mut tasks = JoinSet::new();
    for task in 0..TASKS {
        let (store, log, stop) = (Arc::clone(&store), Arc::clone(&log), Arc::clone(&stop));
        tasks.spawn(async move {
            let mut turn = task;
            while !stop.load(Ordering::Relaxed) {
                turn = turn * 5 + 7;
                let number = turn % KEYS;
                turn %= 1_000_003;
                let ask = match task % 4 {
                    0 => Ask::Leased(number),
                    1 => Ask::WriteBack(number),
                    _ => Ask::Pair(number),
                };
                decide(&store, &log, ask).await;
                tokio::time::sleep(PAUSE).await;
            }
        });
    }
    let input = tokio::task::spawn_blocking(|| std::io::stdin().read_line(&mut String::new()));
    let _ended = input.await;
    stop.store(true, Ordering::Relaxed);
    tasks.join_all().await;
    store.close().await;
}

async fn decide(store: &Redis, log: &Log, ask: Ask) {
    let (mode, numbers) = match ask {
        Ask::Leased(number) => (Mode::Leased, vec![number]),
        Ask::WriteBack(number) => (Mode::WriteBack, vec![number]),
        Ask::Pair(first) => (Mode::Strict, vec![first, (first + 1) % KEYS]),
    };
    let limit = limit(mode);
    let one = |number| charge(store, &limit, mode, number, Cost::ONE);
    let charges: Vec<Charge<'_>> = numbers.into_iter().map(one).collect();
    let write = |outcome, took| {
        let at = now();
        log.write(Line {
            ask,
            outcome,
            took,
            at,
        });
    };
    write(Outcome::Begun, Duration::ZERO);
    let start = Instant::now();
    let outcome = Outcome::of(store.decide(&charges).await);
    write(outcome, start.elapsed());
}
