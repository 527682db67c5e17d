//! Two instances share one budget.

use std::sync::Arc;

use tokio::task::JoinSet;
use tollgate::redis::{Config, Limiter, Mode, Redis, check_all};
use tollgate::{Algorithm, Limit};
use tollgate_testbed as testbed;

use crate::connect;

const REQUESTS: u32 = 200;
const ALLOWED: u32 = 50;

/// How many of [`REQUESTS`] concurrent requests on one key two limiters allow together.
async fn allowed_by(limiters: [Limiter; 2], key: &'static str) -> u32 {
    let limiters = limiters.map(Arc::new);
    let mut requests = JoinSet::new();
    for number in 0..REQUESTS {
        let limiter = Arc::clone(&limiters[usize::from(number % 2 == 0)]);
        requests.spawn(async move { limiter.try_check(key, 1).await.unwrap().is_allowed() });
    }
    let allowed = requests.join_all().await.into_iter();
    allowed.map(u32::from).sum()
}

fn limits() -> [Limit; 5] {
    let day = Limit::per_day(ALLOWED);
    let algorithms = [
        Algorithm::TokenBucket,
        Algorithm::LeakyBucket,
        Algorithm::SlidingLog,
        Algorithm::SlidingWindow(tollgate::Segments::ONE),
        Algorithm::FixedWindow(tollgate::Anchor::FirstRequest),
    ];
    algorithms.map(|algorithm| day.counted_by(algorithm))
}

async fn two_instances_are_exact(config: &Config) {
    let instances = [connect(config.clone()).await, connect(config.clone()).await];
    for limit in limits() {
        let name = limit.to_string();
        let limiters = instances.each_ref();
        let limiters = limiters.map(|redis| redis.limiter(&name, limit).unwrap());
        assert_eq!(allowed_by(limiters, "ann").await, ALLOWED, "{limit}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_instances_allow_exactly_the_limit() {
    let redis = testbed::Redis::start();
    two_instances_are_exact(&Config::single(redis.address())).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn in_a_cluster_as_well() {
    let cluster = testbed::Cluster::start();
    let config = Config::cluster(cluster.addresses());
    two_instances_are_exact(&config).await;
    all_or_nothing(&config).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn several_limits_allow_all_or_nothing() {
    let redis = testbed::Redis::start();
    all_or_nothing(&Config::single(redis.address())).await;
}

/// A user's limit and a smaller one of many addresses, whose keys are in any slot.
async fn all_or_nothing(config: &Config) {
    let instances = [connect(config.clone()).await, connect(config.clone()).await];
    let limiters = instances.each_ref().map(|redis: &Redis| {
        let user = redis.limiter("per user", Limit::per_day(1_000)).unwrap();
        let address = redis.limiter("per address", Limit::per_day(10)).unwrap();
        Arc::new((user, address))
    });
    let mut requests = JoinSet::new();
    for number in 0..REQUESTS {
        let limiters = Arc::clone(&limiters[usize::from(number % 2 == 0)]);
        requests.spawn(async move {
            let (user, address) = &*limiters;
            let asks = [user.ask("ann"), address.ask(&(number % 8))];
            check_all(&asks).await.unwrap()
        });
    }
    let mut allowed = 0;
    for decision in requests.join_all().await {
        allowed += u32::from(decision.is_allowed());
        if !decision.is_allowed() {
            assert_eq!(decision.denied_by(), Some("per address"));
        }
    }
    assert_eq!(allowed, 80, "8 addresses, 10 each");
    let remaining = limiters[0].0.peek("ann", 1).await.remaining();
    assert_eq!(remaining, 920, "no denied request was charged");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn leased_units_are_never_more_than_the_limit() {
    let redis = testbed::Redis::start();
    let config = Config::single(redis.address());
    let instances = [connect(config.clone()).await, connect(config).await];
    let limit = Limit::per_day(ALLOWED);
    let limiters = instances.each_ref();
    let limiters = limiters.map(|redis| {
        let limiter = redis.limiter("leased", limit).unwrap();
        limiter.mode(Mode::Leased)
    });
    let allowed = allowed_by(limiters, "ann").await;
    assert!((1..=ALLOWED).contains(&allowed), "{allowed}");
    // What was leased and not spent is returned: then the two instances have spent all of it.
    for redis in &instances {
        redis.close().await;
    }
    let strict = connect(Config::single(redis.address())).await;
    let strict = strict.limiter("leased", limit).unwrap();
    let decision = strict.check_n("ann", u64::from(ALLOWED - allowed)).await;
    assert!(decision.is_allowed() || allowed == ALLOWED);
    assert!(!strict.check("ann").await.is_allowed());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn local_counts_exceed_the_limit_by_no_more_than_their_bound() {
    let redis = testbed::Redis::start();
    let config = Config::single(redis.address());
    let instances = [connect(config.clone()).await, connect(config).await];
    let limiters = instances.each_ref().map(|redis| {
        let limiter = redis.limiter("counted", Limit::per_day(ALLOWED)).unwrap();
        limiter.mode(Mode::WriteBack)
    });
    let allowed = allowed_by(limiters, "ann").await;
    // One instance more, which may have been asked for as much again.
    assert!((ALLOWED..=2 * ALLOWED).contains(&allowed), "{allowed}");
}
