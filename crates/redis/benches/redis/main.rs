//! The shared store, measured: `cargo xtask bench redis [--quick] [--json PATH]`.
//!
//! Redis runs on processor 0, everything else on processor 1. All figures come from one run. Beside
//! each rate is the processor time for a decision on both sides, which varies less on a machine
//! with other load.
#![allow(
    clippy::disallowed_methods,
    clippy::float_arithmetic,
    clippy::as_conversions,
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "reads real clocks and computes figures for people; nothing here decides"
)]

mod ceiling;

mod load;

mod memory;

mod slots;

mod write_back;

use std::fmt::Write as _;
use std::time::Duration;

use tollgate_core::{Limit, Mode, Span};
use tollgate_redis::{BATCH, CONNECTIONS, Config};
use tollgate_testbed as testbed;

use load::{Load, Measured, Popularity};

/// How long a decision may take: long enough that a machine that stalls because of other load does
/// not abort the run.
const REPLY_TIMEOUT: Span = Span::HOUR;

/// Named figures, in the order in which they were measured.
#[derive(Default)]
struct Figures {
    rows: Vec<(String, f64)>,
}

impl Figures {
    fn put(&mut self, name: impl Into<String>, figure: f64) {
        let name = name.into();
        println!("{name}: {figure:.3}");
        self.rows.push((name, figure));
    }

    fn put_all(&mut self, name: &str, measured: &Measured, ceiling: f64) {
        self.put(format!("{name}/decisions_per_s"), measured.per_second);
        self.put(format!("{name}/of_ceiling"), measured.per_second / ceiling);
        self.put(format!("{name}/redis_cpu_us"), measured.redis_micros);
        self.put(format!("{name}/client_cpu_us"), measured.client_micros);
        self.put(format!("{name}/decisions_per_call"), measured.per_call);
        self.put(format!("{name}/p50_us"), measured.p50_micros);
        self.put(format!("{name}/p99_us"), measured.p99_micros);
    }

    fn json(&self) -> String {
        let mut text = String::from("{\n");
        for (place, (name, figure)) in self.rows.iter().enumerate() {
            let comma = if place + 1 < self.rows.len() { "," } else { "" };
            writeln!(text, "  \"{name}\": {figure:.3}{comma}").unwrap();
        }
        text + "}\n"
    }
}

/// Runs all benchmarks, or the one of `--only`, pinned to one processor. `--quick` shortens each,
/// `--json` names a file for the figures.
fn main() {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let is_quick = words.iter().any(|word| word == "--quick");
    let path = words
        .iter()
        .position(|word| word == "--json")
        .map(|at| words[at + 1].clone());
    let number = std::process::id().to_string();
    let pinned = std::process::Command::new("taskset")
        .args(["-cp", "1", &number])
        .output();
    assert!(
        pinned.is_ok_and(|output| output.status.success()),
        "taskset (util-linux) pins us"
    );
    println!(
        "leases last {} and hold a quarter of what is free, of at most {} keys; leased load is \
         measured after {} s of the same load, in its steady state",
        tollgate_redis::LEASE_LASTS,
        tollgate_redis::LEASE_KEYS_MAX,
        warm_up(Mode::Leased).as_secs()
    );
    let lasts = Duration::from_secs(if is_quick { 2 } else { 10 });
    let mut figures = Figures::default();
    let only = words
        .iter()
        .position(|word| word == "--only")
        .map(|at| words[at + 1].as_str());
    let is_asked = |name: &str| only.is_none_or(|only| only == name);
    if is_asked("strict") {
        measure_strict(&mut figures, lasts);
    }
    for (name, keys, popularity) in [
        ("zipf", 1_000_000, Popularity::Zipf),
        ("one_hot_key", 1, Popularity::Uniform),
    ] {
        if is_asked(name) {
            measure_leased(&mut figures, lasts, name, (keys, popularity));
        }
    }
    if is_asked("far_away") {
        far_away(&mut figures, lasts);
    }
    if is_asked("slots") {
        slots::measure(&mut figures, lasts);
    }
    if is_asked("memory") {
        memory::measure(&mut figures, if is_quick { 20_000 } else { 100_000 });
    }
    if is_asked("write_back") {
        write_back::measure(&mut figures, lasts);
    }
    if let Some(path) = path {
        std::fs::write(path, figures.json()).unwrap();
    }
}

fn start_pinned_redis() -> testbed::Redis {
    testbed::Redis::start_with(&testbed::Setup {
        processor: Some(0),
        ..testbed::Setup::default()
    })
}

/// One script call for each decision, and shared calls, against the ceiling of the same script.
fn measure_strict(figures: &mut Figures, lasts: Duration) {
    let redis = start_pinned_redis();
    let ceiling = ceiling::measure(
        &redis,
        if lasts.as_secs() < 5 {
            400_000
        } else {
            2_000_000
        },
    );
    figures.put("ceiling/redis_benchmark_per_s", ceiling.per_second);
    figures.put("ceiling/redis_cpu_us", ceiling.redis_micros);
    for (name, batch, callers, connections) in [
        ("strict/one_call_each", 1, 512, CONNECTIONS),
        ("strict/one_call_each_1_connection", 1, 512, 1),
        ("strict/one_call_each_4_connections", 1, 512, 4),
        ("strict/shared_calls", BATCH, 512, CONNECTIONS),
        ("strict/shared_calls_1_connection", BATCH, 512, 1),
        ("strict/shared_calls_4_connections", BATCH, 512, 4),
        ("strict/shared_calls_large", 250, 1_024, CONNECTIONS),
        ("strict/one_caller", BATCH, 1, CONNECTIONS),
    ] {
        let config = Config {
            batch,
            connections,
            timeout: REPLY_TIMEOUT,
            ..Config::single(redis.address())
        };
        let load = Load {
            mode: Mode::Strict,
            limit: Limit::token_bucket(100, Span::MINUTE).unwrap(),
            keys: 1_000_000,
            popularity: Popularity::Uniform,
            callers,
            warms_up: Duration::from_millis(500),
            lasts,
        };
        let measured = load.run(&config, &redis);
        figures.put_all(name, &measured, ceiling.per_second);
    }
}

/// Leases last for ten seconds, so for as long keys still take their first ones.
fn warm_up(mode: Mode) -> Duration {
    match mode {
        Mode::Leased => Duration::from(tollgate_redis::LEASE_LASTS) + Duration::from_secs(2),
        Mode::Strict | Mode::WriteBack => Duration::from_millis(500),
    }
}

/// Warm keys on leased units, against strict decisions: with one script call each, which is the
/// base of the ratios, and with shared calls.
fn measure_leased(
    figures: &mut Figures,
    lasts: Duration,
    name: &str,
    (keys, popularity): (u32, Popularity),
) {
    let redis = start_pinned_redis();
    // Larger than the load can exhaust: a bucket refills at most one unit in a microsecond, which
    // is too slow here.
    let limit = Limit::fixed_window(u32::MAX, Span::DAY).unwrap();
    let mut base = None;
    for (kind, mode, batch) in [
        ("strict_one_call_each", Mode::Strict, 1),
        ("strict", Mode::Strict, BATCH),
        ("leased", Mode::Leased, BATCH),
    ] {
        redis.ask(&["FLUSHALL"]);
        let config = Config {
            timeout: REPLY_TIMEOUT,
            batch,
            ..Config::single(redis.address())
        };
        let load = Load {
            mode,
            limit,
            keys,
            popularity,
            callers: 512,
            warms_up: warm_up(mode),
            lasts,
        };
        let measured = load.run(&config, &redis);
        let strict = *base.get_or_insert(measured.per_second);
        for (figure, value) in [
            ("decisions_per_s", measured.per_second),
            ("of_one_call_each", measured.per_second / strict),
            ("calls_per_decision", 1.0 / measured.per_call),
            ("on_lease", measured.on_lease),
            ("asked", measured.asked),
            ("redis_cpu_us", measured.redis_micros),
            ("client_cpu_us", measured.client_micros),
            ("p50_us", measured.p50_micros),
        ] {
            figures.put(format!("{kind}/{name}/{figure}"), value);
        }
    }
}

/// A network with a round trip of five milliseconds.
fn far_away(figures: &mut Figures, lasts: Duration) {
    let redis = start_pinned_redis();
    let proxy = testbed::Proxy::to(&redis.address());
    proxy.set(testbed::Faults {
        delay: Duration::from_micros(2_500),
        ..testbed::Faults::default()
    });
    let limit = Limit::token_bucket(1_000_000, Span::SECOND).unwrap();
    for (name, mode, keys) in [
        ("strict", Mode::Strict, 10_000),
        ("leased", Mode::Leased, 16),
    ] {
        let config = Config {
            timeout: REPLY_TIMEOUT,
            ..Config::single(proxy.address())
        };
        let load = Load {
            mode,
            limit,
            keys,
            popularity: Popularity::Uniform,
            callers: 512,
            warms_up: Duration::from_secs(2),
            lasts,
        };
        let measured = load.run(&config, &redis);
        let name = format!("{name}/far_away");
        figures.put(format!("{name}/decisions_per_s"), measured.per_second);
        figures.put(format!("{name}/p50_us"), measured.p50_micros);
        figures.put(format!("{name}/p99_us"), measured.p99_micros);
    }
}
