//! The memory of Redis for a key, for each algorithm.
//!
//! It is the growth of `used_memory` without the buffers of clients, divided by the number of keys,
//! so it includes Redis's own tables.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::task::JoinSet;
use tollgate_core::{Algorithm, Anchor, Charge, Cost, Key, KeyHasher, Limit, Mode, Sharing, Span};
use tollgate_redis::{Config, Redis};
use tollgate_testbed as testbed;

use crate::Figures;

/// Keys that are charged several times, and keys with a large state.
const BUSY: u32 = 10_000;
const LARGE: u32 = 1_000;
/// Concurrent decisions.
const CALLERS: usize = 64;
const SEGMENTS: u8 = 60;
/// The length of each segment, and how many of the 500 units are charged in it.
const SEGMENT: Span = Span::from_millis(500);
const SEGMENT_UNITS: u64 = 8;

/// The cost of each request to a key, and how many there are.
#[derive(Clone, Copy)]
struct Asks {
    limit: Limit,
    mode: Mode,
    cost: Cost,
    times: u32,
    /// The time between two requests.
    every: Span,
}

/// Records the bytes that Redis needs per key, for each algorithm, empty and full, and in leased
/// mode.
pub(crate) fn measure(figures: &mut Figures, keys: u32) {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build();
    runtime.unwrap().block_on(async {
        let redis = testbed::Redis::start();
        let first = Algorithm::FixedWindow(Anchor::FirstRequest);
        let day = Span::DAY;
        for (name, limit) in [
            ("token_bucket", Limit::token_bucket(500, day)),
            ("leaky_bucket", Limit::leaky_bucket(500, day)),
            ("fixed_window", Limit::fixed_window(500, day)),
            ("fixed_window_first", Limit::new(first, 500, day)),
            ("sliding_window_1", Limit::sliding_window(500, day, 1)),
            ("sliding_window_60", Limit::sliding_window(500, day, 60)),
            ("sliding_log_1_unit", Limit::sliding_log(500, day)),
        ] {
            let bytes = per_key(&redis, Asks::once(limit.unwrap()), keys).await;
            figures.put(format!("memory/{name}"), bytes);
        }
        let leased = |limit: Result<Limit, _>| Asks::of_warm_key(limit.unwrap());
        for (name, asks, keys) in [
            ("sliding_window_60_full", Asks::every_segment(), BUSY),
            ("sliding_log_500_units", Asks::often(500), LARGE),
            (
                "token_bucket_leased",
                leased(Limit::token_bucket(500, day)),
                BUSY,
            ),
            (
                "fixed_window_leased",
                leased(Limit::fixed_window(500, day)),
                BUSY,
            ),
        ] {
            figures.put(format!("memory/{name}"), per_key(&redis, asks, keys).await);
        }
    });
    let redis = testbed::Redis::start();
    for (name, keys, script) in [
        ("incr_expire", keys, INCR_EXPIRE),
        ("hash_of_60_counters", BUSY, HASH),
        ("sorted_set_500", LARGE, SORTED_SET),
    ] {
        let bytes = by_script(&redis, script, keys);
        figures.put(format!("memory/peer_{name}"), bytes);
    }
}

// === impl Asks ===

impl Asks {
    fn once(limit: Limit) -> Asks {
        Asks {
            limit,
            mode: Mode::Strict,
            cost: Cost::ONE,
            times: 1,
            every: Span::ZERO,
        }
    }

    /// As many units at as many different times.
    fn often(times: u32) -> Asks {
        let limit = Limit::sliding_log(500, Span::DAY).unwrap();
        Asks {
            times,
            ..Asks::once(limit)
        }
    }

    /// Some units in each segment.
    fn every_segment() -> Asks {
        let window = SEGMENT.times(SEGMENTS.into());
        let limit = Limit::sliding_window(500, window, SEGMENTS).unwrap();
        Asks {
            cost: Cost::Take(SEGMENT_UNITS),
            times: SEGMENTS.into(),
            every: SEGMENT,
            ..Asks::once(limit)
        }
    }

    /// As many requests as make a key warm; it is measured while some of its units are leased.
    fn of_warm_key(limit: Limit) -> Asks {
        Asks {
            mode: Mode::Leased,
            times: 3,
            ..Asks::once(limit)
        }
    }

    fn charge(&self, key: Key) -> Charge<'_> {
        Charge::new(key, &self.limit, self.cost).shared(Sharing::in_mode(self.mode))
    }
}

/// The bytes that one key takes in Redis: writes `keys` of them as `asks` says, and divides the
/// growth of Redis's memory by their number.
async fn per_key(redis: &testbed::Redis, asks: Asks, keys: u32) -> f64 {
    redis.ask(&["FLUSHALL"]);
    let config = Config {
        timeout: Span::from_secs(20),
        ..Config::single(redis.address())
    };
    let store = Arc::new(Redis::connect(&config).unwrap());
    let peek = Charge::new(store.key([].into_iter()), &asks.limit, Cost::Peek(1));
    // The scripts and the connection exist already.
    assert!(store.decide(&[peek]).await.unwrap().is_allowed());
    let before = used(redis);
    let key = |n: u32| store.key([&b"memory"[..], b"", &n.to_le_bytes()].into_iter());
    let all: Vec<Key> = (0..keys).map(key).collect();
    let part = all.len().div_ceil(CALLERS);
    let start = Instant::now();
    for time in 0..asks.times {
        let due = Duration::from(asks.every.times(time.into()));
        tokio::time::sleep_until((start + due).into()).await;
        let mut callers = JoinSet::new();
        for keys in all.chunks(part) {
            let (store, keys) = (Arc::clone(&store), keys.to_vec());
            callers.spawn(async move {
                for key in keys {
                    let verdict = store.decide(&[asks.charge(key)]).await;
                    assert!(verdict.unwrap().is_allowed());
                }
            });
        }
        callers.join_all().await;
    }
    if asks.mode == Mode::Leased {
        // Two keys may share a counter of the sketch that decides which keys are warm, and one of
        // them stays cold.
        let leases = store.counts().leases;
        assert!(leases >= u64::from(keys) * 9 / 10, "{leases} leases");
    }
    assert_eq!(redis.ask(&["DBSIZE"]), keys.to_string());
    (used(redis) - before) / f64::from(keys)
}

/// A counter under a readable name, as it is commonly written by hand.
const INCR_EXPIRE: &str = "\
    for i = 1, tonumber(ARGV[1]) do \
      local key = 'ratelimit:user:' .. i \
      redis.call('INCR', key) \
      redis.call('EXPIRE', key, 86400) \
    end";

/// A counter for each minute of an hour.
const HASH: &str = "\
    for i = 1, tonumber(ARGV[1]) do \
      local key = 'ratelimit:user:' .. i \
      for j = 1, 60 do redis.call('HINCRBY', key, 29395000 + j, 8) end \
      redis.call('EXPIRE', key, 86400) \
    end";

/// One member for each request.
const SORTED_SET: &str = "\
    for i = 1, tonumber(ARGV[1]) do \
      local key = 'ratelimit:user:' .. i \
      for j = 1, 500 do redis.call('ZADD', key, 1763700000000 + j, '1763700000000-' .. j) end \
      redis.call('EXPIRE', key, 86400) \
    end";

/// What other limiters keep in Redis: a script writes it for so many keys.
fn by_script(redis: &testbed::Redis, script: &str, keys: u32) -> f64 {
    redis.ask(&["FLUSHALL"]);
    let before = used(redis);
    redis.ask(&["EVAL", script, "0", &keys.to_string()]);
    assert_eq!(redis.ask(&["DBSIZE"]), keys.to_string());
    (used(redis) - before) / f64::from(keys)
}

fn used(redis: &testbed::Redis) -> f64 {
    let reply = redis.ask(&["INFO", "memory"]);
    let figure = |name: &str| -> f64 {
        let line = reply.lines().find_map(|line| line.strip_prefix(name));
        line.and_then(|bytes| bytes.trim().parse().ok()).unwrap()
    };
    figure("used_memory:") - figure("mem_clients_normal:")
}
