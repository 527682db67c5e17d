//! What a key takes in Redis: `MEMORY USAGE` of single keys, and what it leaves out.

use std::error::Error;
use std::sync::Arc;
use std::time::Duration;

use tollgate::redis::{Config, Limiter, OnStoreError, Redis, SharedKey};
use tollgate::{Limit, Span};
use tollgate_testbed as testbed;

use crate::constant::{Constants, Unit};
use crate::library::limits;

/// Keys from whose number follows what `MEMORY USAGE` leaves out.
const KEYS: u32 = 50_000;
/// So long that load on the machine makes no decision fail.
const TIMEOUT: Span = Span::MINUTE;
/// Bytes of a place in each of the two hash tables of a database.
const PLACE_BYTES: u32 = 16;
/// Units of the log that is filled.
const LOG_UNITS: u32 = 500;
/// Segments of the window that is filled, and how long each is.
const SEGMENTS: u8 = 60;
const SEGMENT: Duration = Duration::from_millis(50);
/// Units in each segment: more than a byte holds.
const SEGMENT_UNITS: u64 = 300;

/// Measures every algorithm on a Redis of its own.
pub(crate) fn measure(constants: &mut Constants) -> Result<(), Box<dyn Error>> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    runtime.block_on(async {
        let server = testbed::Redis::start();
        let config = Config {
            timeout: TIMEOUT,
            ..Config::single(server.address())
        };
        // Not decided in this process while the machine is busy.
        let redis = Redis::builder(config).on_store_error(OnStoreError::Error);
        let redis = redis.local_keys(1).open()?;
        if !redis.until_up(Duration::from_secs(30)).await {
            return Err("Redis does not answer".into());
        }
        for (name, limit) in limits() {
            let limiter = redis.limiter(name, limit)?;
            let bytes = usage(&server, &limiter).await?;
            let what = format!("MEMORY USAGE of a key after its first request, {limit}");
            constants.put(&format!("redis.bytes.{name}"), bytes, Unit::Bytes, &what);
        }
        server.ask(&["FLUSHALL"]);
        let idle = used_memory(&server)?;
        let what = "used_memory of a Redis with the scripts, one connected instance, no keys";
        constants.put("redis.idle", idle, Unit::Bytes, what);
        overhead(&server, &redis, constants).await?;
        full_log(&server, &redis, constants).await?;
        full_window(&server, &redis, constants).await?;
        redis.close().await;
        Ok(())
    })
}

/// Bytes of the only key, after one request on it.
async fn usage(server: &testbed::Redis, limiter: &Limiter) -> Result<f64, Box<dyn Error>> {
    server.ask(&["FLUSHALL"]);
    consume(limiter, "user", 1).await?;
    usage_of_only_key(server)
}

/// Consumes units, which must be allowed.
async fn consume<K: SharedKey + ?Sized>(
    limiter: &Limiter,
    key: &K,
    units: u64,
) -> Result<(), Box<dyn Error>> {
    match limiter.try_check(key, units).await?.is_allowed() {
        true => Ok(()),
        false => Err(format!("`{}` denies", limiter.limit()).into()),
    }
}

fn usage_of_only_key(server: &testbed::Redis) -> Result<f64, Box<dyn Error>> {
    let names = server.ask(&["KEYS", "tg:{???}*"]);
    let mut names = names.split_whitespace();
    let (Some(name), None) = (names.next(), names.next()) else {
        return Err("there is not one key".into());
    };
    let bytes = server.ask(&["MEMORY", "USAGE", name]);
    bytes
        .trim()
        .parse()
        .map_err(|_| format!("MEMORY USAGE: {bytes}").into())
}

/// What a key takes beyond `MEMORY USAGE` and its places in the two hash tables, of which each is a
/// power of two: its entry in the second of them, and what the allocator rounds up.
async fn overhead(
    server: &testbed::Redis,
    redis: &Redis,
    constants: &mut Constants,
) -> Result<(), Box<dyn Error>> {
    let (name, limit) = limits()[0];
    server.ask(&["FLUSHALL"]);
    let before = used_memory(server)?;
    let limiter = Arc::new(redis.limiter("many", limit)?);
    for key in 0..KEYS {
        consume(&limiter, &key, 1).await?;
    }
    let size = server.ask(&["DBSIZE"]);
    let size: u32 = size.trim().parse()?;
    // The count of instances may be there as well.
    if !(KEYS..=KEYS + 1).contains(&size) {
        return Err(format!("{size} keys of {KEYS}").into());
    }
    let grown = used_memory(server)? - before;
    let tables = f64::from(PLACE_BYTES) * f64::from(KEYS.next_power_of_two());
    let usage = constants.value(&format!("redis.bytes.{name}"));
    let bytes = ((grown - tables) / f64::from(KEYS) - usage).max(0.0);
    let what = "what a key takes beyond MEMORY USAGE and its places in the hash tables";
    constants.put("redis.bytes.overhead", bytes, Unit::Bytes, what);
    Ok(())
}

/// The most bytes that a unit of a log takes, while the log grows.
async fn full_log(
    server: &testbed::Redis,
    redis: &Redis,
    constants: &mut Constants,
) -> Result<(), Box<dyn Error>> {
    let limit = Limit::sliding_log(LOG_UNITS, Span::HOUR)?;
    let limiter = redis.limiter("log", limit)?;
    let first = usage(server, &limiter).await?;
    let mut most = 0.0_f64;
    for more in 1..LOG_UNITS {
        consume(&limiter, "user", 1).await?;
        most = most.max((usage_of_only_key(server)? - first) / f64::from(more));
    }
    let what = format!("each further unit of a sliding log, at most while it grows to {LOG_UNITS}");
    constants.put("redis.bytes.log_unit", most, Unit::Bytes, &what);
    Ok(())
}

/// The most bytes that a segment of a window takes, while all are filled.
async fn full_window(
    server: &testbed::Redis,
    redis: &Redis,
    constants: &mut Constants,
) -> Result<(), Box<dyn Error>> {
    let window = Span::from(SEGMENT * u32::from(SEGMENTS));
    let limit = Limit::sliding_window(100_000, window, SEGMENTS)?;
    let limiter = redis.limiter("window", limit)?;
    let first = usage(server, &limiter).await?;
    let mut most = first;
    for _segment in 0..2 * SEGMENTS {
        consume(&limiter, "user", SEGMENT_UNITS).await?;
        most = most.max(usage_of_only_key(server)?);
        tokio::time::sleep(SEGMENT).await;
    }
    let bytes = (most - first) / f64::from(SEGMENTS);
    let what = format!("each segment of a full sliding window of {SEGMENTS}");
    constants.put("redis.bytes.segment", bytes, Unit::Bytes, &what);
    Ok(())
}

fn used_memory(server: &testbed::Redis) -> Result<f64, Box<dyn Error>> {
    let reply = server.ask(&["INFO", "memory"]);
    let mut lines = reply.lines();
    let line = lines.find_map(|line| line.strip_prefix("used_memory:"));
    Ok(line.ok_or("INFO has no used_memory")?.trim().parse()?)
}
