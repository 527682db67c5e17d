//! The account is an equation: what is charged is what was settled, and what is still reserved.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tollgate::redis::{Config, Limiter, Mode, Reservation};
use tollgate_behaviour::{Random, check};
use tollgate_testbed as testbed;

use super::{algorithms, drop_in_turn, hundred_a_year, remaining};
use crate::{connect, wait_until};

const TASKS: usize = 4;
const STEPS: u64 = 40;
/// More turns than most calls take.
const TURNS_MAX: u32 = 8;

/// Reserves units, and goes away meanwhile or not.
async fn reserve(random: &mut Random, limiter: &Limiter) -> Option<Reservation> {
    let units = random.between(0, 40);
    if random.chance(25) {
        let turns = random.small(0, TURNS_MAX);
        drop_in_turn(turns, limiter.reserve("ann", units)).await;
        return None;
    }
    limiter.reserve("ann", units).await.ok()
}

/// Settles, goes away meanwhile, or drops the reservation; returns what is charged for good.
async fn end(random: &mut Random, reservation: Reservation) -> u64 {
    match random.between(0, 3) {
        0 => 0,
        1 => {
            let actual = random.between(0, reservation.estimate());
            let turns = random.small(0, TURNS_MAX);
            drop_in_turn(turns, reservation.settle(actual)).await;
            actual
        }
        _ => reservation.settle(random.any_size(60)).await.charged,
    }
}

/// Reserves, settles, drops or consumes, at random.
async fn act(
    random: &mut Random,
    limiter: &Limiter,
    open: &mut Vec<Reservation>,
    charged: &AtomicU64,
) {
    let charge = |units| charged.fetch_add(units, Ordering::SeqCst);
    match random.between(0, 5) {
        0..=2 => open.extend(reserve(random, limiter).await),
        3 if limiter.check("ann").await.is_allowed() => drop(charge(1)),
        4.. if !open.is_empty() => {
            let index = usize::try_from(random.word()).unwrap() % open.len();
            charge(end(random, open.swap_remove(index)).await);
        }
        _ => {}
    }
}

async fn consumed(limiter: &Limiter) -> u64 {
    u64::from(100 - remaining(limiter).await)
}

/// Acts, and checks the account after each step: never too little is charged, and in the end
/// exactly what was settled.
async fn act_and_check(random: &mut Random, limiter: &Limiter) {
    let (mut open, charged) = (Vec::new(), AtomicU64::new(0));
    let expected = |open: &[Reservation]| {
        let reserved: u64 = open.iter().map(Reservation::estimate).sum();
        charged.load(Ordering::SeqCst) + reserved
    };
    for _ in 0..STEPS {
        act(random, limiter, &mut open, &charged).await;
        assert!(consumed(limiter).await >= expected(&open), "{limiter:?}");
    }
    wait_until("units are left over", async || {
        consumed(limiter).await == expected(&open)
    })
    .await;
    open.clear();
    wait_until("reserved units are left over", async || {
        consumed(limiter).await == charged.load(Ordering::SeqCst)
    })
    .await;
}

/// Several tasks do so at once, and end with open reservations.
async fn act_at_once(random: &mut Random, limiter: Limiter) {
    let (limiter, charged) = (Arc::new(limiter), Arc::new(AtomicU64::new(0)));
    let tasks = (0..TASKS).map(|_| {
        let (limiter, charged) = (Arc::clone(&limiter), Arc::clone(&charged));
        let mut random = Random::new(random.word());
        tokio::spawn(async move {
            let mut open = Vec::new();
            for _ in 0..STEPS {
                act(&mut random, &limiter, &mut open, &charged).await;
            }
        })
    });
    for task in tasks.collect::<Vec<_>>() {
        task.await.unwrap();
    }
    wait_until("units are left over", async || {
        consumed(&limiter).await == charged.load(Ordering::SeqCst)
    })
    .await;
    assert_eq!(limiter.failures(), 0);
}

fn check_accounts(name: &'static str, config: &Config) {
    check(name, 2, |random| {
        let builder = &mut tokio::runtime::Builder::new_current_thread();
        let runtime = builder.enable_all().build().unwrap();
        runtime.block_on(async {
            let redis = connect(config.clone()).await;
            for algorithm in algorithms() {
                for mode in [Mode::Strict, Mode::Leased] {
                    let name = random.word().to_string();
                    let limiter = hundred_a_year(&redis, &name, algorithm).mode(mode);
                    act_and_check(random, &limiter).await;
                }
                let name = random.word().to_string();
                act_at_once(random, hundred_a_year(&redis, &name, algorithm)).await;
            }
            redis.close().await;
        });
    });
}

#[test]
fn what_is_charged_is_what_was_settled_and_what_is_reserved() {
    let server = testbed::Redis::start();
    let config = Config::single(server.address());
    check_accounts("reservations over Redis", &config);
}

#[test]
fn so_it_is_in_a_cluster() {
    let cluster = testbed::Cluster::start();
    let config = Config::cluster(cluster.addresses());
    check_accounts("reservations in a Cluster", &config);
}
