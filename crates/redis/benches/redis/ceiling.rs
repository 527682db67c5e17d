//! The most calls of the plain script that Redis can serve: redis-benchmark, 64 calls at a time.

use std::process::Command;

use tollgate_testbed::Redis;

use crate::load::processor_seconds;

pub(crate) struct Ceiling {
    pub(crate) per_second: f64,
    /// Processor time of Redis for one call.
    pub(crate) redis_micros: f64,
}

/// Calls the script `calls` times, on a million keys.
///
/// redis-benchmark cannot send zero bytes, so the request is part of the script, and as many other
/// bytes are sent: the same work as in a real call.
pub(crate) fn measure(redis: &Redis, calls: u32) -> Ceiling {
    let clock = include_str!("../../src/script/clock.lua");
    let script = [clock, include_str!("../../src/script/plain.lua")].concat();
    let escaped: String = request()
        .iter()
        .map(|byte| format!("\\{byte:03}"))
        .collect();
    let (asked, written) = ("local questions = ARGV[1]", format!("'{escaped}'"));
    assert!(script.contains(asked));
    let script = script.replace(
        asked,
        &asked.replace("ARGV[1]", &format!("ARGV[1] and {written}")),
    );
    let sha = redis.ask(&["SCRIPT", "LOAD", &script]);
    let (port, calls_shown) = (redis.port().to_string(), calls.to_string());
    let number = redis.process_number().unwrap();
    let before = processor_seconds(&number);
    let output = Command::new("redis-benchmark")
        .args([
            "-p",
            &port,
            "-P",
            "64",
            "-c",
            "4",
            "-n",
            &calls_shown,
            "-r",
            "1000000",
            "--csv",
        ])
        .args(["EVALSHA", &sha, "1", "tg:{abc}0000000__rand_int__"])
        .arg("x".repeat(request().len()))
        .output()
        .unwrap();
    let spent = processor_seconds(&number) - before;
    let text = String::from_utf8_lossy(&output.stdout);
    let last = text.lines().last().unwrap_or_default();
    let per_second = last
        .split("\",\"")
        .nth(1)
        .and_then(|figure| figure.parse().ok());
    redis.ask(&["FLUSHALL"]);
    Ceiling {
        per_second: per_second.unwrap_or_else(|| panic!("redis-benchmark: {text}")),
        redis_micros: spent * 1e6 / f64::from(calls),
    }
}

/// One unit of a bucket of 100 a minute, as `plain.lua` reads it.
fn request() -> Vec<u8> {
    let mut request = vec![1, 1, 5];
    request.extend(&600_000_u64.to_be_bytes()[2..]);
    request.extend(&60_000_000_u64.to_be_bytes()[1..]);
    request.push(1);
    request.extend(1_u32.to_be_bytes());
    request.extend(1_u32.to_be_bytes());
    request
}
