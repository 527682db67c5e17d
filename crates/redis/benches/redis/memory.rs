//! What a key costs Redis, of each algorithm.

use tollgate_core::{Algorithm, Anchor, Charge, Cost, KeyHasher, Limit, Span};
use tollgate_redis::{Config, Redis};
use tollgate_testbed as testbed;

use crate::Figures;

/// Keys with a full log, which are large.
const LARGE: u32 = 500;

pub(crate) fn measure(figures: &mut Figures, keys: u32) {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build();
    runtime.unwrap().block_on(async {
        let redis = testbed::Redis::start();
        let first = Algorithm::FixedWindow(Anchor::FirstRequest);
        let day = Span::DAY;
        for (name, limit, keys, units) in [
            ("token_bucket", Limit::token_bucket(500, day), keys, 1),
            ("leaky_bucket", Limit::leaky_bucket(500, day), keys, 1),
            ("fixed_window", Limit::fixed_window(500, day), keys, 1),
            ("fixed_window_first", Limit::new(first, 500, day), keys, 1),
            (
                "sliding_window_1",
                Limit::sliding_window(500, day, 1),
                keys,
                1,
            ),
            (
                "sliding_window_60",
                Limit::sliding_window(500, day, 60),
                keys,
                1,
            ),
            ("sliding_log_1_unit", Limit::sliding_log(500, day), keys, 1),
            (
                "sliding_log_500_units",
                Limit::sliding_log(500, day),
                LARGE,
                500,
            ),
        ] {
            let bytes = per_key(&redis, &limit.unwrap(), keys, units).await;
            figures.put(format!("memory/{name}"), bytes);
        }
        figures.put("memory/peer_incr_expire", incr_expire(&redis, keys));
        figures.put("memory/peer_sorted_set_500", sorted_set(&redis));
    });
}

async fn per_key(redis: &testbed::Redis, limit: &Limit, keys: u32, units: u32) -> f64 {
    redis.ask(&["FLUSHALL"]);
    let config = Config {
        timeout: Span::from_secs(20),
        ..Config::single(redis.address())
    };
    let store = Redis::connect(&config).unwrap();
    let before = used(redis);
    for n in 0..keys {
        let key = store.key([&b"memory"[..], b"", &n.to_le_bytes()].into_iter());
        for _ in 0..units {
            let verdict = store.decide(&[Charge::new(key, limit, Cost::ONE)]).await;
            assert!(verdict.unwrap().is_admitted());
        }
    }
    assert_eq!(redis.ask(&["DBSIZE"]), keys.to_string());
    (used(redis) - before) / f64::from(keys)
}

/// A counter under a readable name, as many do it.
fn incr_expire(redis: &testbed::Redis, keys: u32) -> f64 {
    redis.ask(&["FLUSHALL"]);
    let before = used(redis);
    let script = "for i = 1, tonumber(ARGV[1]) do local key = 'ratelimit:user:' .. i \
                  redis.call('INCR', key) redis.call('EXPIRE', key, 86400) end";
    redis.ask(&["EVAL", script, "0", &keys.to_string()]);
    (used(redis) - before) / f64::from(keys)
}

/// One member for each request, as many do it.
fn sorted_set(redis: &testbed::Redis) -> f64 {
    redis.ask(&["FLUSHALL"]);
    let before = used(redis);
    let script = "for i = 1, tonumber(ARGV[1]) do for j = 1, 500 do \
                  redis.call('ZADD', 'log:' .. i, 1763700000000 + j, '1763700000000-' .. j) \
                  end end";
    redis.ask(&["EVAL", script, "0", &LARGE.to_string()]);
    (used(redis) - before) / f64::from(LARGE)
}

fn used(redis: &testbed::Redis) -> f64 {
    let told = redis.ask(&["INFO", "memory"]);
    let line = told
        .lines()
        .find_map(|line| line.strip_prefix("used_memory:"));
    line.and_then(|bytes| bytes.trim().parse().ok()).unwrap()
}
