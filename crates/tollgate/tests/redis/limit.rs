//! Names, keys, costs, and limits that change.

use std::error::Error as _;

use tollgate::redis::{Config, LimitsError, Mode, OpenError, Redis, check_all};
use tollgate::{Algorithm, JointError, Limit, Wait};
use tollgate_testbed as testbed;

use crate::connect;

#[tokio::test]
async fn a_name_is_a_budget() {
    let redis = testbed::Redis::start();
    let config = Config::single(redis.address());
    let (here, elsewhere) = (connect(config.clone()).await, connect(config).await);
    let limit = Limit::per_day(3);
    let first = here.limiter("api", limit).unwrap();
    let second = elsewhere.limiter("api", limit).unwrap();
    let other = here.limiter("mail", limit).unwrap();
    assert_eq!(first.check("ann").await.remaining(), 2);
    assert_eq!(second.check("ann").await.remaining(), 1);
    assert_eq!(other.check("ann").await.remaining(), 2);
    assert_eq!(first.check("bob").await.remaining(), 2);
    let keys = redis.ask(&["KEYS", "*"]);
    // Beside the instances' own.
    let counters = keys.lines().filter(|key| !key.contains("{nodes}"));
    assert_eq!(counters.count(), 3, "{keys}");
    assert!(!keys.contains("ann") && !keys.contains("bob"), "{keys}");
}

#[tokio::test]
async fn keys_are_bytes_of_any_length() {
    let redis = testbed::Redis::start();
    let redis = connect(Config::single(redis.address())).await;
    let limiter = redis.limiter("bytes", Limit::per_day(1)).unwrap();
    let long = vec![b'a'; 1 << 20];
    let keys: [&[u8]; 5] = [b"", b"\xff\0\r\n", b"{slot}", &long, &long[1..]];
    for key in keys {
        assert!(limiter.check(key).await.is_allowed());
    }
    for key in keys {
        assert!(!limiter.check(key).await.is_allowed());
    }
    assert!(limiter.check(&()).await.is_allowed());
    assert!(limiter.check(&("", "")).await.is_allowed());
}

#[tokio::test]
async fn costs_are_those_of_a_limiter_in_memory() {
    let redis = testbed::Redis::start();
    let redis = connect(Config::single(redis.address())).await;
    let limit = Limit::per_day(10);
    let limiter = redis.limiter("costs", limit).unwrap();
    assert_eq!(limiter.check_n("ann", 8).await.remaining(), 2);
    assert_eq!(limiter.peek("ann", 2).await.remaining(), 2);
    assert!(!limiter.peek("ann", 3).await.is_allowed());
    assert!(!limiter.check_n("ann", 3).await.is_allowed());
    assert_eq!(limiter.check_n("ann", 11).await.wait(), Some(Wait::Never));
    assert_eq!(
        limiter.check_n("ann", u64::MAX).await.wait(),
        Some(Wait::Never)
    );
    assert_eq!(limiter.refund("ann", 3).await, 5);
    assert_eq!(limiter.check_n("ann", 5).await.remaining(), 0);
    limiter.reset("ann").await;
    assert_eq!(limiter.peek("ann", 1).await.remaining(), 10);
    assert_eq!(limiter.failures(), 0);
}

#[tokio::test]
async fn a_changed_limit_keeps_what_was_consumed() {
    let redis = testbed::Redis::start();
    let config = Config::single(redis.address());
    let (here, elsewhere) = (connect(config.clone()).await, connect(config).await);
    let limiter = here.limiter("api", Limit::per_day(10)).unwrap();
    assert_eq!(limiter.check_n("ann", 8).await.remaining(), 2);
    // Here, while it is in use.
    limiter.set_limit(Limit::per_day(20)).unwrap();
    assert_eq!(limiter.limit(), Limit::per_day(20));
    assert_eq!(limiter.peek("ann", 1).await.remaining(), 12);
    // In the next version of the program.
    let next = elsewhere.limiter("api", Limit::per_day(9)).unwrap();
    assert_eq!(next.peek("ann", 1).await.remaining(), 1);
    let log = Limit::per_day(9).counted_by(Algorithm::SlidingLog);
    let next = elsewhere.limiter("api", log).unwrap();
    assert_eq!(next.check("ann").await.remaining(), 0);
    let too_fast = Limit::per_second(3_000_000);
    let error = limiter.set_limit(too_fast).unwrap_err().to_string();
    assert!(error.contains("in Redis a bucket refills"), "{error}");
    assert_eq!(limiter.limit(), Limit::per_day(20));
}

#[tokio::test]
async fn limits_on_every_request_are_charged_together() {
    let redis = testbed::Redis::start();
    let redis = connect(Config::single(redis.address())).await;
    let build = |name| {
        let limits = redis.limits(name).limit("burst", Limit::per_day(5));
        limits.limit("day", Limit::per_day(8)).build().unwrap()
    };
    let (api, mail) = (build("api"), build("mail"));
    let decision = api.check_n("ann", 5).await;
    assert_eq!(decision.remaining(), Some(0));
    let denied = api.check("ann").await;
    assert_eq!(denied.denied_by(), Some("burst"));
    let names: Vec<&str> = denied.decisions().map(|(name, _)| name).collect();
    assert_eq!(names, ["burst", "day"]);
    let day = api.limiter("day").unwrap();
    assert_eq!(
        day.peek("ann", 1).await.remaining(),
        3,
        "a denial costs nothing"
    );
    assert_eq!(
        mail.check("ann").await.remaining(),
        Some(4),
        "other counters"
    );
    api.refund("ann", 2).await;
    assert_eq!(api.peek("ann", 1).await.remaining(), Some(2));
    assert_eq!(day.peek("ann", 1).await.remaining(), 5);
    api.reset("ann").await;
    assert_eq!(day.peek("ann", 1).await.remaining(), 8);
}

#[tokio::test]
async fn what_cannot_be_built_is_an_error() {
    let error = Redis::open("http://:secret@localhost").unwrap_err();
    let source = error.source().unwrap().to_string();
    assert!(
        source.contains("redis://") && !source.contains("secret"),
        "{source}"
    );
    let config = Config::cluster([]);
    assert!(matches!(
        Redis::builder(config).open(),
        Err(OpenError::Config(_))
    ));
    let huge = Redis::builder(Config::single("127.0.0.1:1")).local_keys(usize::MAX / 64);
    assert!(matches!(huge.open(), Err(OpenError::TooLarge { .. })));
    let outside = std::thread::spawn(|| Redis::open("redis://127.0.0.1:1"));
    assert!(matches!(outside.join().unwrap(), Err(OpenError::NoRuntime)));

    let unconnected = Config::single("127.0.0.1:1");
    let open = || {
        Redis::builder(unconnected.clone())
            .local_keys(100)
            .open()
            .unwrap()
    };
    let (redis, other) = (open(), open());
    let limit = Limit::per_day(1);
    let too_fast = Limit::per_second(3_000_000);
    assert!(redis.limiter("fast", too_fast).is_err());
    let limits = redis.limits("api").limit("fast", too_fast).build();
    assert!(matches!(limits, Err(LimitsError::Unfit { name, .. }) if &*name == "fast"));
    let twice = redis
        .limits("api")
        .limit("a", limit)
        .limit("a", limit)
        .build();
    assert!(matches!(twice, Err(LimitsError::SameName { .. })));
    let many = (0..129).fold(redis.limits("api"), |limits, number| {
        limits.limit(&number.to_string(), limit)
    });
    assert!(matches!(many.build(), Err(LimitsError::TooMany(_))));

    let (first, second) = (redis.limiter("a", limit), other.limiter("b", limit));
    let asks = [first.unwrap(), second.unwrap()];
    let asks = asks.each_ref().map(|limiter| limiter.ask("ann"));
    let apart = check_all(&asks).await.unwrap_err();
    assert!(matches!(apart, JointError::NotSiblings { name } if &*name == "b"));
    assert!(check_all(&[]).await.unwrap().is_allowed());
}

#[tokio::test]
async fn requests_with_priority_use_the_share_in_every_mode() {
    let redis = testbed::Redis::start();
    let redis = connect(Config::single(redis.address())).await;
    for mode in [Mode::Strict, Mode::Leased, Mode::WriteBack] {
        let limit = Limit::per_day(100).priority_share(20);
        let limiter = redis.limiter(&mode.to_string(), limit).unwrap().mode(mode);
        for left in (0..80).rev() {
            assert_eq!(limiter.check("ann").await.remaining(), left, "{mode}");
        }
        assert!(!limiter.check("ann").await.is_allowed());
        assert_eq!(limiter.check_with_priority("ann", 15).await.remaining(), 5);
        let asks = || [limiter.ask_n("ann", 5), limiter.ask_n("bob", 81)];
        assert!(!check_all(&asks()).await.unwrap().is_allowed());
        let asks = asks().map(|ask| ask.with_priority());
        assert!(check_all(&asks).await.unwrap().is_allowed());
        let denied = limiter.check_with_priority("ann", 1).await;
        assert!(
            !denied.is_allowed() && denied.retry_after().is_some(),
            "{mode}"
        );
    }
}
