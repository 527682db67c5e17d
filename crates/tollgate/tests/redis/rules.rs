//! A rules file over Redis.

use tollgate::redis::{Config, Redis, RuleLimiter};
use tollgate::{OnUnknownDomain, RuleError, RuleLimiter as InMemory, Source};
use tollgate_testbed as testbed;

use crate::connect;

const RULES: &str = "
domain: shop
descriptors:
  - key: user
    rate_limit: {requests_per_unit: 3, window: 1d, algorithm: token_bucket}
    descriptors:
      - key: path
        rate_limit: {requests_per_unit: 2, window: 1d, algorithm: sliding_log}
  - key: tenant
    rate_limit: {mode: leased, requests_per_unit: 100, window: 1d, algorithm: token_bucket}
";

#[tokio::test]
async fn rules_are_shared_and_answer_as_in_memory() {
    let server = testbed::Redis::start();
    let config = Config::single(server.address());
    let (here, elsewhere) = (connect(config.clone()).await, connect(config).await);
    let here = RuleLimiter::from_yaml(&here, RULES).unwrap();
    let elsewhere = RuleLimiter::from_yaml(&elsewhere, RULES).unwrap();
    let in_memory = InMemory::from_yaml(RULES).unwrap();
    for (number, limiter) in [&here, &elsewhere].repeat(3).into_iter().enumerate() {
        for entries in [
            &[("user", "ann"), ("path", "/")][..],
            &[("user", "ann")],
            &[],
        ] {
            let answer = limiter.check("shop", entries).await.unwrap();
            let expected = in_memory.check("shop", entries).unwrap();
            assert_eq!(
                answer.is_allowed(),
                expected.is_allowed(),
                "{number}: {entries:?}"
            );
            let remaining = |answer: &tollgate::Answer| {
                let limited = answer.limited().map(|limited| limited.decision.remaining());
                limited.collect::<Vec<_>>()
            };
            assert_eq!(remaining(&answer), remaining(&expected));
        }
    }
    let answer = here.check("shop", &[("tenant", "a")]).await.unwrap();
    assert!(answer.is_allowed());
}

#[tokio::test]
async fn a_reload_keeps_what_was_consumed_and_rejects_what_redis_cannot_keep() {
    let server = testbed::Redis::start();
    let redis = connect(Config::single(server.address())).await;
    let rule = |limit: &str| {
        let text = format!("{{domain: shop, descriptors: [{{key: user, rate_limit: {limit}}}]}}");
        [Source::new("rules", text)]
    };
    let limiter = RuleLimiter::from_sources(&redis, &rule("3/day")).unwrap();
    let ann = [("user", "ann")];
    for _ in 0..2 {
        assert!(limiter.check("shop", &ann).await.unwrap().is_allowed());
    }
    let changes = limiter.reload(&rule("5/day")).unwrap();
    assert_eq!(changes.changed.len(), 1);
    let answer = limiter.check("shop", &ann).await.unwrap();
    let remaining = answer.limited().next().unwrap().decision.remaining();
    assert_eq!(remaining, 2);
    let too_fast = "{algorithm: token_bucket, window: 1s, requests_per_unit: 3000000}";
    let invalid = limiter.reload(&rule(too_fast)).unwrap_err();
    assert!(
        invalid.to_string().contains("in Redis a bucket refills"),
        "{invalid}"
    );
    assert!(InMemory::from_sources(&rule(too_fast), tollgate::Memory::builder().build()).is_ok());
    assert!(limiter.check("shop", &ann).await.unwrap().is_allowed());
}

#[tokio::test]
async fn without_redis_each_rule_does_what_it_says() {
    let rules = "
domain: shop
descriptors:
  - {key: local, rate_limit: {instances: 4, window: 1d, requests_per_unit: 8}}
  - {key: allow, rate_limit: {on_store_error: allow, window: 1d, requests_per_unit: 1}}
  - {key: deny, rate_limit: {on_store_error: deny, window: 1d, requests_per_unit: 8}}
  - {key: error, rate_limit: {on_store_error: error, window: 1d, requests_per_unit: 8}}
";
    let redis = Redis::builder(Config::single("127.0.0.1:1")).local_keys(100);
    let limiter = RuleLimiter::from_yaml(&redis.open().unwrap(), rules).unwrap();
    let limiter = limiter.on_unknown_domain(OnUnknownDomain::Error);
    for (key, expected) in [("local", 2), ("allow", 12), ("deny", 0)] {
        let mut allowed = 0;
        for _ in 0..12 {
            let answer = limiter.check("shop", &[(key, "a")]).await.unwrap();
            allowed += u32::from(answer.is_allowed());
            assert_eq!(answer.is_store_unavailable(), key == "deny");
        }
        assert_eq!(allowed, expected, "{key}");
    }
    let failed = limiter.check("shop", &[("error", "a")]).await;
    assert!(matches!(failed, Err(RuleError::Store(_))), "{failed:?}");
    let unknown = limiter.check("shpo", &[("local", "a")]).await;
    assert!(matches!(unknown, Err(RuleError::UnknownDomain { domain }) if domain == "shpo"));
}
