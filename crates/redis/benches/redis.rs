//! The shared store, measured: `cargo bench -p tollgate-redis --bench redis -- [--quick]`.
#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    clippy::float_arithmetic,
    clippy::as_conversions,
    clippy::disallowed_methods
)]

use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use tollgate_core::{Charge, Cost, Key, KeyHasher, Limit, Span};
use tollgate_redis::{Config, Redis};
use tollgate_testbed as testbed;

fn cpu(pid: &str) -> f64 {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    let rest = stat.rsplit_once(')').unwrap().1;
    let fields: Vec<&str> = rest.split_whitespace().collect();
    (fields[11].parse::<f64>().unwrap() + fields[12].parse::<f64>().unwrap()) / 100.0
}

fn ceiling(server: &testbed::Redis, script: &str, blob: &[u8], n: u32) -> f64 {
    let literal: String = blob.iter().map(|b| format!("\\{b:03}")).collect();
    let script = script.replace(
        "local questions, position = ARGV[1], 2",
        &format!("local questions, position = '{literal}', 2"),
    );
    assert!(!script.contains("ARGV[1], 2"));
    let sha = server.ask(&["SCRIPT", "LOAD", &script]);
    let port = server.port().to_string();
    let child = Command::new("taskset")
        .args([
            "-c",
            "1",
            "redis-benchmark",
            "-p",
            &port,
            "-P",
            "64",
            "-c",
            "4",
            "-n",
            &n.to_string(),
            "-r",
            "1000000",
            "--csv",
            "EVALSHA",
            &sha,
            "1",
            "tg:{abc}0000000__rand_int__",
        ])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let out = child.wait_with_output().unwrap();
    let text = String::from_utf8_lossy(&out.stdout);
    let line = text.lines().last().unwrap_or("");
    line.split("\",\"")
        .nth(1)
        .and_then(|f| f.parse().ok())
        .unwrap_or_else(|| panic!("{text}"))
}

fn main() {
    let secs = 3;
    let server = testbed::Redis::start_with(&testbed::Setup {
        processor: Some(0),
        ..testbed::Setup::default()
    });
    let limit = Limit::token_bucket(100, Span::MINUTE).unwrap();
    let blob = {
        let mut b = vec![1u8, 5];
        b.extend(&600_000u64.to_be_bytes()[2..]);
        b.extend(&60_000_000u64.to_be_bytes()[1..]);
        b.push(1);
        b.extend(1u32.to_be_bytes());
        b.extend(1u32.to_be_bytes());
        b
    };
    let pid = server.process_number().unwrap();
    let mypid = std::process::id().to_string();
    let c0 = cpu(&pid);
    let c = ceiling(
        &server,
        include_str!("../src/script/bucket.lua"),
        &blob,
        600_000,
    );
    println!(
        "ceiling {c:.0}/s, redis cpu {:.2} us",
        (cpu(&pid) - c0) * 1e6 / 600_000.0
    );
    server.ask(&["FLUSHALL"]);
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    for (batch, tasks) in [
        (1, 512),
        (16, 512),
        (64, 512),
        (128, 512),
        (64, 64),
        (64, 1),
    ] {
        runtime.block_on(async {
            let store = Redis::connect(&Config { batch, timeout: Span::from_secs(2), ..Config::single(server.address()) }).unwrap();
            let keys: Vec<Key> = (0..1_000_000u32).map(|n| store.key([&b"r"[..], b"1", &n.to_le_bytes()].into_iter())).collect();
            let (store, keys) = (Arc::new(store), Arc::new(keys));
            let stop = Arc::new(std::sync::atomic::AtomicBool::new(false));
            let (r0, m0, start) = (cpu(&pid), cpu(&mypid), Instant::now());
            let handles: Vec<_> = (0..tasks).map(|t| {
                let (store, keys, stop) = (store.clone(), keys.clone(), stop.clone());
                tokio::spawn(async move {
                    let mut x = t as u64 * 7919 + 1;
                    let mut n = 0u64;
                    while !stop.load(std::sync::atomic::Ordering::Relaxed) {
                        x = x.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
                        let key = keys[(x >> 33) as usize % keys.len()];
                        let charge = Charge::new(key, &limit, Cost::ONE);
                        assert!(store.decide(&[charge]).await.is_ok());
                        n += 1;
                    }
                    n
                })
            }).collect();
            tokio::time::sleep(Duration::from_secs(secs)).await;
            stop.store(true, std::sync::atomic::Ordering::Relaxed);
            let mut total = 0;
            for h in handles { total += h.await.unwrap(); }
            let el = start.elapsed().as_secs_f64();
            let counts = store.counts();
            println!("batch {batch} tasks {tasks}: {:.0}/s ratio {:.2}; per decision redis {:.2} us, client {:.2} us; batch size {:.1}, calls per write {:.1}", total as f64 / el, total as f64 / el / c, (cpu(&pid) - r0) * 1e6 / total as f64, (cpu(&mypid) - m0) * 1e6 / total as f64, counts.questions as f64 / counts.calls as f64, counts.calls as f64 / counts.writes as f64);
        });
    }
}
