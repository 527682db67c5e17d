//! Several processes, one budget: exactly what the limit says, no more and no less.
//!
//! This program starts itself once more for each process, which is why it has a `main` of its own.
#![allow(clippy::unwrap_used, clippy::print_stdout)]

use std::process::{Command, Stdio};
use std::sync::Arc;

use tokio::task::JoinSet;
use tollgate_core::{Charge, Cost, Key, KeyHasher, Limit, Span};
use tollgate_redis::{Config, Redis};
use tollgate_testbed as testbed;

const PROCESSES: usize = 4;
const TASKS: u32 = 16;
const LIMIT: u32 = 1000;
/// Of each task: together 3200, more than three times the limit.
const ASKS: u32 = 50;

fn main() {
    let words: Vec<String> = std::env::args().skip(1).collect();
    match &words[..] {
        [word, kind, addresses, keys @ ..] if word == "spend" => {
            let runtime = tokio::runtime::Runtime::new().unwrap();
            println!("{}", runtime.block_on(spend(kind, addresses, keys)));
        }
        words if words.iter().any(|word| word == "--list") => {}
        _ => {
            one_redis_admits_exactly_the_limit();
            a_cluster_admits_exactly_the_limit();
            println!("exact: ok");
        }
    }
}

fn one_redis_admits_exactly_the_limit() {
    let redis = testbed::Redis::start();
    assert_eq!(spent("single", &redis.address(), &["one"]), LIMIT);
    assert_eq!(spent("single", &redis.address(), &["two", "three"]), LIMIT);
}

fn a_cluster_admits_exactly_the_limit() {
    let cluster = testbed::Cluster::start();
    let addresses = cluster.addresses().join(",");
    assert_eq!(spent("cluster", &addresses, &["one"]), LIMIT);
    // In slots of different masters.
    assert_eq!(spent("cluster", &addresses, &["two", "three"]), LIMIT);
}

/// How much several processes get together.
fn spent(kind: &str, addresses: &str, keys: &[&str]) -> u32 {
    let start = || {
        Command::new(std::env::current_exe().unwrap())
            .args(["spend", kind, addresses])
            .args(keys)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap()
    };
    let children: Vec<_> = (0..PROCESSES).map(|_| start()).collect();
    let told = children.into_iter().map(|child| {
        let output = child.wait_with_output().unwrap();
        String::from_utf8(output.stdout)
            .unwrap()
            .trim()
            .parse::<u32>()
            .unwrap()
    });
    told.sum()
}

/// Asks for one unit of every key, all or nothing, again and again; says how often it was admitted.
async fn spend(kind: &str, addresses: &str, keys: &[String]) -> u32 {
    let mut addresses = addresses.split(',').map(str::to_owned);
    let config = match kind {
        "cluster" => Config::cluster(addresses),
        _ => Config::single(addresses.next().unwrap()),
    };
    // Nothing is measured here, and the machine is busy.
    let config = Config {
        timeout: Span::from_secs(20),
        ..config
    };
    let store = Arc::new(Redis::connect(&config).unwrap());
    let limit = Limit::fixed_window(LIMIT, Span::DAY).unwrap();
    let key = |name: &String| store.key([&b"spend"[..], b"", name.as_bytes()].into_iter());
    let keys: Vec<Key> = keys.iter().map(key).collect();
    let mut all = JoinSet::new();
    for _ in 0..TASKS {
        let (store, keys) = (Arc::clone(&store), keys.clone());
        all.spawn(async move {
            let charge = |key: &Key| Charge::new(*key, &limit, Cost::ONE);
            let charges: Vec<Charge<'_>> = keys.iter().map(charge).collect();
            let mut admitted = 0;
            for _ in 0..ASKS {
                let verdict = store.decide(&charges).await.unwrap();
                admitted += u32::from(verdict.is_admitted());
            }
            admitted
        });
    }
    all.join_all().await.into_iter().sum()
}
