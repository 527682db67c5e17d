//! Requests on keys of a Cluster that are each in a slot of their own, two keys or one of them,
//! compared with the same requests with all keys in one slot: the same callers, limits and keys,
//! with the default timeout and with one that is long enough for a busy machine.
//!
//! Both loads alternate in short rounds of one run, so that other load on the machine affects both.
//! The figure is the median of the rounds' ratios.

use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio::task::JoinSet;
use tollgate_core::{Charge, Cost, Key, KeyHasher, Limit, Span};
use tollgate_redis::{Config, Redis};
use tollgate_testbed as testbed;

use crate::Figures;
use crate::load::processor_seconds;

/// Callers that send one request after the other: far more than could be served in time one by one.
const CALLERS: u64 = 2_000;
/// How many rounds each load has.
const TURNS: usize = 5;
/// How long a caller pauses after an error, so that errors do not keep the processor busy.
const PAUSE: Duration = Duration::from_millis(20);

/// Which keys a request charges: a first and a second one, unless there are none of these.
#[derive(Clone, Copy)]
struct Pattern {
    /// How many first keys and how many second keys there are to choose from.
    counts: [u64; 2],
    crosses_slots: bool,
}

/// The keys to choose from. They are hashed before the load begins.
struct Keys {
    first: Vec<Key>,
    second: Vec<Key>,
}

/// The results of one round.
#[derive(Default)]
struct Turn {
    allowed: u64,
    unanswered: u64,
    /// Processor time of all servers, and of this process, in seconds.
    spent: [f64; 2],
    /// Script calls, and the requests for a script in them: several for each of the callers'.
    calls: u64,
    asked: u64,
}

pub(crate) fn measure(figures: &mut Figures, lasts: Duration) {
    let cluster = testbed::Cluster::start();
    for node in cluster.nodes() {
        let number = node.process_number().unwrap();
        let pinned = Command::new("taskset").args(["-cp", "0", &number]).output();
        assert!(pinned.unwrap().status.success(), "taskset pins the servers");
    }
    for (name, timeout) in [
        ("slots", tollgate_redis::TIMEOUT),
        ("slots_250ms", Span::from_millis(250)),
    ] {
        let config = Config {
            timeout,
            ..Config::cluster(cluster.addresses())
        };
        compare(figures, name, &config, &cluster, lasts / 5);
    }
}

/// Measures all patterns of keys with one configuration.
fn compare(
    figures: &mut Figures,
    kind: &str,
    config: &Config,
    cluster: &testbed::Cluster,
    lasts: Duration,
) {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build();
    let runtime = runtime.unwrap();
    for (name, counts) in [
        ("one_pair", [1, 1]),
        ("sixteen_pairs", [4, 4]),
        ("one_tenant_10000_users", [1, 10_000]),
        ("10000_pairs", [100, 100]),
        ("10000_keys", [10_000, 0]),
    ] {
        let turns: Vec<[Turn; 2]> = (0..TURNS)
            .map(|_| {
                [false, true].map(|crosses_slots| {
                    let keys = Pattern {
                        counts,
                        crosses_slots,
                    };
                    let turn = run(config, cluster, keys, lasts);
                    runtime.block_on(turn)
                })
            })
            .collect();
        put(figures, &format!("{kind}/{name}"), &turns, lasts);
    }
}

/// Prints the medians of the rounds: rates, processor time for each allowed request, and the ratio.
fn put(figures: &mut Figures, name: &str, turns: &[[Turn; 2]], lasts: Duration) {
    for (place, slots) in ["one_slot", "own_slots"].into_iter().enumerate() {
        let rate = |count: fn(&Turn) -> u64| {
            let rates = turns
                .iter()
                .map(|turn| count(&turn[place]) as f64 / lasts.as_secs_f64());
            median(rates.collect())
        };
        let name = format!("{name}/{slots}");
        figures.put(format!("{name}/allowed_per_s"), rate(|turn| turn.allowed));
        figures.put(
            format!("{name}/unanswered_per_s"),
            rate(|turn| turn.unanswered),
        );
        for (whose, kind) in ["redis", "client"].into_iter().enumerate() {
            let micros = |turn: &[Turn; 2]| {
                turn[place].spent[whose] * 1e6 / turn[place].allowed.max(1) as f64
            };
            let micros = turns.iter().map(micros).collect();
            figures.put(format!("{name}/{kind}_cpu_us"), median(micros));
        }
        let asked = |turn: &[Turn; 2]| turn[place].asked as f64;
        let calls = |turn: &[Turn; 2]| turn[place].calls.max(1) as f64;
        let per_request = turns
            .iter()
            .map(|turn| asked(turn) / turn[place].allowed.max(1) as f64);
        figures.put(
            format!("{name}/requests_per_allowed"),
            median(per_request.collect()),
        );
        let per_call = turns.iter().map(|turn| asked(turn) / calls(turn));
        figures.put(
            format!("{name}/requests_per_call"),
            median(per_call.collect()),
        );
    }
    let ratio = |[one, two]: &[Turn; 2]| two.allowed as f64 / one.allowed.max(1) as f64;
    let ratios = turns.iter().map(ratio).collect();
    figures.put(format!("{name}/own_of_one"), median(ratios));
}

fn median(mut figures: Vec<f64>) -> f64 {
    figures.sort_by(f64::total_cmp);
    figures[figures.len() / 2]
}

/// Runs one round, with a limit that is never reached.
async fn run(config: &Config, cluster: &testbed::Cluster, keys: Pattern, lasts: Duration) -> Turn {
    let store = Arc::new(Redis::connect(config).unwrap());
    let limit = Limit::fixed_window(u32::MAX, Span::DAY).unwrap();
    let keys = Arc::new(keys.keys(&store));
    let (is_measured, is_over) = (flag(), flag());
    let mut callers = JoinSet::new();
    for caller in 0..CALLERS {
        let store = Arc::clone(&store);
        let flags = [Arc::clone(&is_measured), Arc::clone(&is_over)];
        callers.spawn(call(store, Arc::clone(&keys), limit, caller, flags));
    }
    tokio::time::sleep(Duration::from_millis(500)).await;
    is_measured.store(true, Ordering::Relaxed);
    let (before, counts_before) = (processor_time(cluster), store.counts());
    tokio::time::sleep(lasts).await;
    let (after, counts) = (processor_time(cluster), store.counts());
    is_over.store(true, Ordering::Relaxed);
    let mut all = Turn {
        spent: [0, 1].map(|whose| after[whose] - before[whose]),
        calls: counts.calls - counts_before.calls,
        asked: counts.requests - counts_before.requests,
        ..Turn::default()
    };
    for turn in callers.join_all().await {
        all.allowed += turn.allowed;
        all.unanswered += turn.unanswered;
    }
    all
}

/// The processor time that all servers, and this process, have used so far.
fn processor_time(cluster: &testbed::Cluster) -> [f64; 2] {
    let numbers = cluster
        .nodes()
        .iter()
        .filter_map(|node| node.process_number());
    let servers = numbers.map(|number| processor_seconds(&number)).sum();
    [servers, processor_seconds(&std::process::id().to_string())]
}

fn flag() -> Arc<AtomicBool> {
    Arc::new(AtomicBool::new(false))
}

/// One caller: sends requests until the round is over, and counts their outcomes.
async fn call(
    store: Arc<Redis>,
    keys: Arc<Keys>,
    limit: Limit,
    caller: u64,
    [is_measured, is_over]: [Arc<AtomicBool>; 2],
) -> Turn {
    let mut random = caller * 7_919 + 1;
    let mut turn = Turn::default();
    while !is_over.load(Ordering::Relaxed) {
        random = random
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040);
        let charges = keys.draw(random >> 16);
        let charges = charges.map(|key| Charge::new(key, &limit, Cost::ONE));
        let charges: Vec<Charge<'_>> = charges.collect();
        let reply = store.decide(&charges).await;
        if reply.is_err() {
            tokio::time::sleep(PAUSE).await;
        }
        if !is_measured.load(Ordering::Relaxed) {
            continue;
        }
        match reply {
            Ok(verdict) => turn.allowed += u64::from(verdict.is_allowed()),
            Err(_) => turn.unanswered += 1,
        }
    }
    turn
}

impl Pattern {
    /// The slot of a key follows from its parts after the first two: either from all that
    /// distinguishes it, or from nothing.
    fn keys(&self, store: &Redis) -> Keys {
        let named = |which: &[u8], count: u64| {
            let key = |number: u64| {
                let number = number.to_le_bytes();
                let parts = match self.crosses_slots {
                    true => [&b"slots"[..], b"", which, &number],
                    false => [which, &number, b"slots", b""],
                };
                store.key(parts.into_iter())
            };
            (0..count).map(key).collect()
        };
        let [first, second] = self.counts;
        Keys {
            first: named(b"first", first),
            second: named(b"second", second),
        }
    }
}

impl Keys {
    /// The keys of one request.
    fn draw(&self, random: u64) -> impl Iterator<Item = Key> {
        let random = usize::try_from(random).expect("a word is an index");
        let (first, second) = (&self.first, &self.second);
        let place = random / first.len();
        let second = (!second.is_empty()).then(|| second[place % second.len()]);
        [Some(first[random % first.len()]), second]
            .into_iter()
            .flatten()
    }
}
