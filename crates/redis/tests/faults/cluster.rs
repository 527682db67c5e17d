//! Faults of a Cluster, and of a primary with a replica under Sentinel.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use tokio::task::JoinSet;
use tollgate_core::{Cost, KeyHasher, Limit, Mode, Span, StoreEvent};
use tollgate_redis::{Config, Redis, Servers};
use tollgate_testbed as testbed;

use crate::record::{Outcome, WAY_BACK};
use crate::traffic::{CONTROL, Traffic, charge, ring};
use crate::{named, narrow, over, patient, wide};

/// A configuration that finds the nodes of the cluster.
fn known(cluster: &testbed::Cluster) -> Config {
    over(Config::cluster(cluster.addresses()), cluster.certificates())
}

/// A configuration that finds the primary through the sentinels.
pub(crate) fn watched(sentinels: &testbed::Sentinels) -> Config {
    let config = Config::new(Servers::Sentinel {
        addresses: sentinels.addresses(),
        master: testbed::Sentinels::MASTER.to_owned(),
    });
    over(config, sentinels.certificates())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_replica_takes_over_from_a_dead_master() {
    take_over(&testbed::Cluster::start()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_replica_takes_over_from_a_dead_master_over_tls() {
    take_over(&testbed::Cluster::start_over_tls()).await;
}

async fn take_over(cluster: &testbed::Cluster) {
    let traffic = Traffic::start(&known(cluster), wide());
    traffic.settle().await;
    let dead = cluster.master_of(0);
    let fault = Instant::now();
    dead.kill();
    let former = dead.port();
    tokio::task::block_in_place(|| {
        cluster.wait_until("a replica serves the slots", |cluster| {
            cluster
                .server_of(0)
                .is_some_and(|node| node.port() != former)
        });
    });
    // The slots of all keys must be served again, not only those that `settle` uses.
    tokio::time::sleep(Duration::from_secs(2)).await;
    traffic.settle().await;
    let record = traffic.end().await;
    let what = "a Cluster's master is killed";
    record.tell(&named(what, cluster.certificates()), fault);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn slots_move_while_they_are_asked() {
    move_slots(&testbed::Cluster::start()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn slots_move_while_they_are_asked_over_tls() {
    move_slots(&testbed::Cluster::start_over_tls()).await;
}

async fn move_slots(cluster: &testbed::Cluster) {
    let config = known(cluster);
    for config in [patient(config.clone()), config] {
        let masters = [0, 8_191, 16_383].map(|slot| cluster.master_of(slot));
        for master in masters {
            master.ask(&["FLUSHALL"]);
        }
        let traffic = Traffic::start(&config, narrow());
        traffic.settle().await;
        let fault = Instant::now();
        for (from, to) in [(0, 2), (2, 1), (1, 0)] {
            let [from, to] = [from, to].map(|place: usize| masters[place]);
            tokio::task::block_in_place(|| cluster.move_slots(500, from, to));
        }
        traffic.settle().await;
        let record = traffic.end().await;
        let what = format!("1500 slots move, within {}", config.timeout);
        record.tell(&named(&what, cluster.certificates()), fault);
        assert!(record.store().counts().redirections > 0);
        if config.timeout > tollgate_redis::TIMEOUT {
            assert_eq!(record.failed(), 0);
        }
        record.is_exact().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_sentinels_new_master_is_followed() {
    follow(&testbed::Sentinels::start()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_sentinels_new_master_is_followed_over_tls() {
    follow(&over_tls()).await;
}

/// A pair of servers and their sentinels, with TLS.
fn over_tls() -> testbed::Sentinels {
    testbed::Sentinels::start_over_tls(&testbed::Setup::default())
}

async fn follow(sentinels: &testbed::Sentinels) {
    let traffic = Traffic::start(&watched(sentinels), wide());
    traffic.settle().await;
    let fault = Instant::now();
    let former = sentinels.master().port();
    sentinels.master().kill();
    tokio::task::block_in_place(|| sentinels.wait_for_failover(former));
    traffic.settle().await;
    let what = named("Sentinel changes the master", sentinels.certificates());
    traffic.end().await.tell(&what, fault);
}

/// The number of callers, and how long each pauses between two requests.
const CROWD: u64 = 4_000;
const REST: Duration = Duration::from_secs(1);
/// How long the callers send requests.
const CROWD_ASKS: Duration = Duration::from_secs(10);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_failover_stalls_nobody_who_asks_the_other_masters() {
    stall(&testbed::Cluster::start()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_failover_over_tls_stalls_nobody_who_asks_the_other_masters() {
    stall(&testbed::Cluster::start_over_tls()).await;
}

async fn stall(cluster: &testbed::Cluster) {
    for node in cluster.nodes() {
        // By default, Redis stops serving all slots until the failover.
        node.ask(&["CONFIG", "SET", "cluster-require-full-coverage", "no"]);
    }
    let config = known(cluster);
    let store = Arc::new(Redis::connect(&config).unwrap());
    let end = Instant::now() + CROWD_ASKS;
    let mut crowd = JoinSet::new();
    for caller in 0..CROWD {
        crowd.spawn(ask_until(Arc::clone(&store), caller, end));
    }
    let stop = Arc::new(AtomicBool::new(false));
    let control = tokio::spawn(ring(Arc::clone(&stop)));
    tokio::time::sleep(Duration::from_secs(3)).await;
    let fault = Instant::now();
    cluster.master_of(0).kill();
    let snapshot = crowd.join_all().await.concat();
    stop.store(true, Ordering::Relaxed);
    let stood = control.await.unwrap().into_iter().max().unwrap();
    let what = format!("a Cluster's master is killed under {CROWD} callers");
    let what = named(&what, cluster.certificates());
    // By thirds of the slots; the first third is that of the killed primary.
    for third in 0..3 {
        let of_third = || snapshot.iter().filter(move |asked| asked.third == third);
        let [before, after] = [true, false].map(|is_before| {
            let some = of_third().filter(|asked| (asked.at < fault) == is_before);
            let failed = some.clone().filter(|asked| !asked.outcome.is_answer());
            100 * failed.count() / some.count()
        });
        let took = of_third().filter(|asked| asked.at > fault);
        let longest = took.map(|asked| asked.took).max().unwrap();
        println!(
            "{what}, third {third} of the slots: \
             longest {longest:.1?}, without an answer {before} % before it, {after} % after it \
             (timers of {CONTROL:?}: longest {stood:.1?})",
        );
        let most = Duration::from(config.timeout) + 2 * (stood - CONTROL) + WAY_BACK;
        assert!(longest <= most, "{longest:?} of {most:?}");
        // On a busy machine, decisions time out before the fault as well.
        assert!(third == 0 || after <= before + 10, "{before} %, {after} %");
    }
}

/// One decision of a caller.
#[derive(Clone, Copy)]
struct Asked {
    at: Instant,
    took: Duration,
    third: u16,
    outcome: Outcome,
}

async fn ask_until(store: Arc<Redis>, caller: u64, end: Instant) -> Vec<Asked> {
    let limit = wide();
    let key = store.key([&b"crowd"[..], b"", &caller.to_le_bytes()].into_iter());
    let third = slot(&store.name_of(key)) / 5_462;
    let mut snapshot = Vec::new();
    // Callers start spread over a second.
    tokio::time::sleep(REST / 4_000 * u32::try_from(caller).unwrap()).await;
    while Instant::now() < end {
        let at = Instant::now();
        let charge = charge(key, &limit, Mode::Strict, Cost::ONE);
        let outcome = Outcome::of(store.decide(&[charge]).await);
        let took = at.elapsed();
        snapshot.push(Asked {
            at,
            took,
            third,
            outcome,
        });
        tokio::time::sleep(REST).await;
    }
    snapshot
}

/// The slot of a key's name: CRC-16 (XMODEM) of its hash tag.
fn slot(name: &str) -> u16 {
    let (_, tag) = name.split_once('{').unwrap();
    let (tag, _) = tag.split_once('}').unwrap();
    let crc = tag.bytes().fold(0_u16, |crc, byte| {
        (0..8).fold(crc ^ (u16::from(byte) << 8), |crc, _| {
            let shifted = crc << 1;
            if crc & 0x8000 == 0 {
                shifted
            } else {
                shifted ^ 0x1021
            }
        })
    });
    crc % 16_384
}

/// The limit's units in a planned failover, and the requests per second. The former primary accepts
/// writes for ten seconds after the new one does.
const PLANNED_UNITS: u32 = 1_000;
const PLANNED_RATE: u32 = 100;
/// The seconds by which the change may be noticed late: a sentinel checks the new primary once a
/// second, and announces it to the instances at once. The rest of the two is the sentinel's own
/// timer, and a machine with much other work. An instance that only asked the sentinels, once a
/// second, would need more.
const PLANNED_LATE: u32 = 2;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_planned_failover_leaves_the_old_primary_at_once() {
    plan(&testbed::Sentinels::start()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_planned_failover_leaves_the_old_primary_at_once_over_tls() {
    plan(&over_tls()).await;
}

async fn plan(sentinels: &testbed::Sentinels) {
    let config = patient(watched(sentinels));
    let store = Redis::connect(&config).unwrap();
    let limit =
        Limit::fixed_window(PLANNED_UNITS, Span::HOUR.times(testbed::window_hours())).unwrap();
    let key = store.key([&b"planned"[..]].into_iter());
    let former = sentinels.master_address();
    let mut allowed = 0;
    let start = Instant::now();
    // Until the limit is exhausted and the former primary has long been demoted.
    for asked in 0..25 * PLANNED_RATE {
        if asked == 2 * PLANNED_RATE {
            sentinels.fail_over();
        }
        let charge = charge(key, &limit, Mode::Strict, Cost::ONE);
        let outcome = Outcome::of(store.decide(&[charge]).await);
        allowed += u32::from(outcome == Outcome::Allowed);
        tokio::time::sleep_until(
            (start + (asked + 1) * Duration::from_secs(1) / PLANNED_RATE).into(),
        )
        .await;
    }
    let changes: Vec<StoreEvent> = store.events();
    let what = named("a planned failover", sentinels.certificates());
    println!("{what}: {allowed} of {PLANNED_UNITS} allowed; {changes:?}");
    assert!(sentinels.master_address() != former, "no failover");
    let is_change = |event: &StoreEvent| match event {
        StoreEvent::PrimaryChanged { from, .. } => *from == former,
        _ => false,
    };
    assert!(changes.iter().any(is_change), "{changes:?}");
    assert!(allowed >= PLANNED_UNITS, "{allowed}");
    let most = PLANNED_UNITS + PLANNED_LATE * PLANNED_RATE;
    assert!(allowed <= most, "{allowed} of {most}");
}
