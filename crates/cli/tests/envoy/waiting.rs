//! Whoever waits as long as told is let through.

use std::thread;
use std::time::{Duration, Instant};

use crate::mesh::{Mesh, Reply};

/// How often each limit is exhausted and waited for.
const ROUNDS: usize = 2;
/// More than any of the limits allows at once.
const ALLOWED_MAX: usize = 100;
/// Two windows, in seconds: the longest that any of the limits takes to forget everything.
const WAIT_MAX: u64 = 4;

/// Asks until the limit says no.
fn exhaust(mesh: &Mesh, key: &str) -> Reply {
    let ask = |_| mesh.get(&[(key, "ann")]);
    let refused = (0..ALLOWED_MAX).map(ask).find(|reply| reply.status != 200);
    let refused = refused.expect("the limit ends");
    assert_eq!(refused.status, 429, "{refused:?}");
    refused
}

fn wait(time: Duration) {
    let end = Instant::now() + time;
    while let Some(left) = end.checked_duration_since(Instant::now()) {
        thread::park_timeout(left);
    }
}

#[test]
fn whoever_waits_as_told_is_allowed() {
    let mesh = Mesh::start();
    thread::scope(|scope| {
        for key in ["pause", "pause-window", "pause-log", "pause-bucket"] {
            let mesh = &mesh;
            scope.spawn(move || {
                for _ in 0..ROUNDS {
                    let refused = exhaust(mesh, key);
                    let told = |name| refused.header(name).parse::<u64>().unwrap();
                    let waits = ["x-ratelimit-reset", "retry-after"].map(told);
                    for wait in waits {
                        assert!((1..=WAIT_MAX).contains(&wait), "{key}: {refused:?}");
                    }
                    let least = Duration::from_secs(waits[0].min(waits[1]));
                    wait(least);
                    let reply = mesh.get(&[(key, "ann")]);
                    assert_eq!(reply.status, 200, "{key}: after {least:?}: {reply:?}");
                }
            });
        }
    });
}
