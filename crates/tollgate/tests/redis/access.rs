//! Ways to a Redis, and what happens when the runtime that holds the connections ends.

use tollgate::redis::{Config, OnStoreError, Redis, Secret, Servers, Tls};
use tollgate::{Limit, Span};
use tollgate_testbed as testbed;

use crate::{PATIENT, connect};

async fn decides(config: Config) {
    let redis = connect(config).await;
    let limiter = redis.limiter("api", Limit::per_day(3)).unwrap();
    let limiter = limiter.on_store_error(OnStoreError::Error);
    assert_eq!(limiter.try_check("ann", 1).await.unwrap().remaining(), 2);
    assert_eq!(redis.fallbacks().total(), 0);
}

#[tokio::test]
async fn with_tls_and_a_user() {
    let certificates = testbed::Certificates::new();
    let server = certificates.start("shop:");
    let password = testbed::PASSWORD.replace(' ', "%20");
    let url = format!("rediss://{}:{password}@{}", testbed::USER, server.address());
    let config = Config::from_url(&url).unwrap();
    assert_eq!(config.password, Some(Secret::new(testbed::PASSWORD)));
    let authorities = Some(certificates.authority().into());
    decides(Config {
        tls: Some(Tls {
            authorities,
            ..Tls::default()
        }),
        prefix: "shop:".to_owned(),
        ..config
    })
    .await;
}

#[tokio::test]
async fn under_sentinels() {
    let sentinels = testbed::Sentinels::start();
    decides(Config::new(Servers::Sentinel {
        addresses: sentinels.addresses(),
        master: testbed::Sentinels::MASTER.to_owned(),
    }))
    .await;
}

/// The connections belong to the runtime in which they were opened. Limiters that are used in
/// another one decide without Redis when it ends, and do not wait.
#[test]
fn when_its_runtime_ends_limiters_decide_without_redis() {
    let runtime = || tokio::runtime::Runtime::new().unwrap();
    let server = testbed::Redis::start();
    let first = runtime();
    let config = Config {
        timeout: Span::from_millis(200),
        ..Config::single(server.address())
    };
    let redis = first.block_on(async {
        let redis = Redis::builder(config).local_keys(100).open().unwrap();
        assert!(redis.until_up(PATIENT).await);
        redis
    });
    let limiter = |choice: OnStoreError| {
        let limiter = redis.limiter("api", Limit::per_day(3)).unwrap();
        limiter.on_store_error(choice)
    };
    let (local, failing) = (limiter(OnStoreError::Local), limiter(OnStoreError::Error));
    first.block_on(async { assert!(local.check("ann").await.is_allowed()) });
    drop(first);
    runtime().block_on(async {
        let decide = async {
            assert!(local.check("ann").await.is_allowed());
            assert!(failing.try_check("ann", 1).await.is_err());
            redis.close().await;
        };
        tokio::time::timeout(PATIENT, decide).await.unwrap();
    });
    assert!(redis.fallbacks().local >= 1);
}

/// Two runtimes, each with a thread, use one Redis at once.
#[test]
fn threads_with_their_own_runtimes_share_a_redis() {
    let server = testbed::Redis::start();
    let home = tokio::runtime::Runtime::new().unwrap();
    let redis = home.block_on(connect(Config::single(server.address())));
    let limiter = redis.limiter("api", Limit::per_day(50)).unwrap();
    let limiter = limiter.on_store_error(OnStoreError::Error);
    let count = || {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build();
        runtime.unwrap().block_on(async {
            let mut allowed = 0;
            for _ in 0..100 {
                allowed += u32::from(limiter.try_check("ann", 1).await.unwrap().is_allowed());
            }
            allowed
        })
    };
    let allowed = std::thread::scope(|scope| {
        let threads = [scope.spawn(count), scope.spawn(count)];
        let allowed = threads.map(|thread| thread.join().unwrap());
        allowed.iter().sum::<u32>()
    });
    assert_eq!(allowed, 50);
}
