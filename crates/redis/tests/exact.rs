//! Several processes share one limit: together they are allowed exactly its units.
//!
//! This program starts itself once more for each process, which is why it has a `main` of its own.
#![allow(clippy::unwrap_used, clippy::print_stdout)]

use std::io::{Read, Write};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::task::JoinSet;
use tollgate_core::{Charge, Cost, Key, KeyHasher, Limit, Mode, Sharing, Span};
use tollgate_redis::{Config, Redis};
use tollgate_testbed as testbed;

const PROCESSES: usize = 4;
/// What a process prints once it has been allowed a unit of each kind of request.
const READY: [u8; 6] = *b"ready\n";
const TASKS: usize = 16;
const LIMIT: u32 = 1000;
/// How long a task keeps trying without being allowed: in leased mode, an instance caches a denial
/// for a second, and each process that keeps trying uses up its lease.
const QUIET_STRICT: Duration = Duration::from_millis(300);
const QUIET_LEASED: Duration = Duration::from_secs(3);
const PAUSE: Duration = Duration::from_millis(2);
/// How long a process may take in all.
const BOUND: Duration = Duration::from_secs(60);

/// The keys that the tasks of a process request, in turn: `one two,three` are tasks that charge one
/// key, and tasks that charge two others, all or nothing.
type Asks = &'static str;

fn main() {
    let words: Vec<String> = std::env::args().skip(1).collect();
    match &words[..] {
        [word, kind, mode, addresses, asks @ ..] if word == "spend" => {
            let mode = if mode == "leased" {
                Mode::Leased
            } else {
                Mode::Strict
            };
            let runtime = tokio::runtime::Runtime::new().unwrap();
            let spent = runtime.block_on(spend(kind, mode, addresses, asks));
            let spent: Vec<String> = spent.iter().map(u32::to_string).collect();
            println!("{}", spent.join(" "));
        }
        words if words.iter().any(|word| word == "--list") => {}
        _ => {
            alone(&testbed::Redis::start(), "Redis");
            alone(
                &testbed::Redis::start_with(&testbed::Setup::valkey()),
                "Valkey",
            );
            in_a_cluster();
            println!("exact: ok");
        }
    }
}

fn alone(redis: &testbed::Redis, name: &str) {
    for mode in ["strict", "leased"] {
        redis.ask(&["FLUSHALL"]);
        let spent = |asks| spent("single", mode, &redis.address(), asks);
        is_exact(name, mode, "one", &spent("one"));
        is_exact(name, mode, "two,three", &spent("two,three"));
    }
}

fn in_a_cluster() {
    let cluster = testbed::Cluster::start();
    let addresses = cluster.addresses().join(",");
    for mode in ["strict", "leased"] {
        for node in cluster.nodes() {
            node.ask(&["FLUSHALL"]);
        }
        let spent = |asks| spent("cluster", mode, &addresses, asks);
        is_exact("Cluster", mode, "one", &spent("one"));
        // In slots of different primaries.
        is_exact("Cluster", mode, "two,three", &spent("two,three"));
        // One of two keys is also charged alone, so that units are leased while others are
        // reserved.
        let both = spent("four four,five");
        is_exact("Cluster", mode, "four, and four,five", &[both.iter().sum()]);
    }
}

fn is_exact(name: &str, mode: &str, asks: &str, spent: &[u32]) {
    println!("{name}, {mode}, {asks}: {spent:?} allowed");
    assert_eq!(spent, [LIMIT]);
}

/// How many units several processes are allowed together, for each kind of request.
fn spent(kind: &str, mode: &str, addresses: &str, asks: Asks) -> Vec<u32> {
    let start = || {
        Command::new(std::env::current_exe().unwrap())
            .args(["spend", kind, mode, addresses])
            .args(asks.split(' '))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap()
    };
    let mut children: Vec<Child> = (0..PROCESSES).map(|_| start()).collect();
    let mut ready = [0; READY.len()];
    for child in &mut children {
        let stdout = child.stdout.as_mut().unwrap();
        stdout.read_exact(&mut ready).unwrap();
        assert_eq!(ready, READY);
    }
    // All of them at once: the end of its input lets a process begin.
    children
        .iter_mut()
        .for_each(|child| drop(child.stdin.take()));
    let mut all = vec![0; asks.split(' ').count()];
    for child in children {
        let output = child.wait_with_output().unwrap();
        assert!(output.status.success(), "{asks}: {}", output.status);
        let reply = String::from_utf8(output.stdout).unwrap();
        let reply = reply
            .split_whitespace()
            .map(|word| word.parse().unwrap())
            .collect::<Vec<u32>>();
        assert_eq!(reply.len(), all.len(), "{asks}: {reply:?}");
        all.iter_mut()
            .zip(reply)
            .for_each(|(all, reply)| *all += reply);
    }
    all
}

/// Says that this process is ready, and waits until the others are.
fn until_all_are_ready() {
    let mut stdout = std::io::stdout();
    stdout.write_all(&READY).unwrap();
    stdout.flush().unwrap();
    std::io::stdin().read_to_end(&mut Vec::new()).unwrap();
}

/// Charges one unit of every key, all or nothing, until nothing remains; returns how often each
/// kind of request was allowed.
async fn spend(kind: &str, mode: Mode, addresses: &str, asks: &[String]) -> Vec<u32> {
    let mut addresses = addresses.split(',').map(str::to_owned);
    let config = match kind {
        "cluster" => Config::cluster(addresses),
        _ => Config::single(addresses.next().unwrap()),
    };
    // A long timeout: the machine is busy, and no time is measured here.
    let config = Config {
        timeout: Span::from_secs(20),
        ..config
    };
    let store = Arc::new(Redis::connect(&config).unwrap());
    let key = |name: &str| store.key([&b"spend"[..], b"", name.as_bytes()].into_iter());
    let keys = |ask: &String| ask.split(',').map(key).collect::<Vec<Key>>();
    // A process that is late, on a busy machine, would find nothing left to compete for.
    let mut allowed = vec![1; asks.len()];
    for ask in asks {
        until_allowed(&store, mode, &keys(ask)).await;
    }
    until_all_are_ready();
    let mut tasks = JoinSet::new();
    for task in 0..TASKS {
        let way = task % asks.len();
        let keys = keys(&asks[way]);
        let store = Arc::clone(&store);
        tasks.spawn(async move { (way, ask(&store, mode, &keys).await) });
    }
    for (way, units) in tasks.join_all().await {
        allowed[way] += units;
    }
    store.close().await;
    allowed
}

/// Waits until one request is allowed: the units that another process has leased come back.
async fn until_allowed(store: &Redis, mode: Mode, keys: &[Key]) {
    let start = Instant::now();
    while !is_allowed(store, mode, keys).await {
        assert!(start.elapsed() < BOUND, "not allowed after {BOUND:?}");
        tokio::time::sleep(PAUSE).await;
    }
}

/// How often one task is allowed.
async fn ask(store: &Redis, mode: Mode, keys: &[Key]) -> u32 {
    let quiet = match mode {
        Mode::Leased => QUIET_LEASED,
        Mode::Strict | Mode::WriteBack => QUIET_STRICT,
    };
    let (start, mut allowed) = (Instant::now(), 0);
    let mut last = start;
    while last.elapsed() < quiet {
        assert!(start.elapsed() < BOUND, "still allowed after {BOUND:?}");
        if is_allowed(store, mode, keys).await {
            allowed += 1;
            last = Instant::now();
        } else {
            tokio::time::sleep(PAUSE).await;
        }
    }
    allowed
}

/// Whether one unit of every key is allowed.
async fn is_allowed(store: &Redis, mode: Mode, keys: &[Key]) -> bool {
    let limit = Limit::fixed_window(LIMIT, Span::HOUR.times(testbed::window_hours())).unwrap();
    let sharing = Sharing::in_mode(mode);
    let charge = |key: &Key| Charge::new(*key, &limit, Cost::ONE).shared(sharing);
    let charges: Vec<Charge<'_>> = keys.iter().map(charge).collect();
    store.decide(&charges).await.unwrap().is_allowed()
}
