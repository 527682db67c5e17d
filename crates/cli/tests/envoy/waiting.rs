//! A client that waits as long as the response says is allowed.

use std::thread;
use std::time::{Duration, Instant};

use crate::mesh::{Mesh, Reply};

/// How often each limit is exhausted and waited for.
const ROUNDS: usize = 2;
/// More than any of the limits allows at once.
const ALLOWED_MAX: usize = 100;
/// Two windows, in seconds: the longest that any of the limits takes to reset.
const WAIT_MAX: u64 = 4;

/// Sends requests until one is denied, and returns its response.
fn exhaust(mesh: &Mesh, key: &str) -> Reply {
    let ask = |_| mesh.get(&[(key, "ann")]);
    let denied = (0..ALLOWED_MAX).map(ask).find(|reply| reply.status != 200);
    let denied = denied.expect("the limit ends");
    assert_eq!(denied.status, 429, "{denied:?}");
    denied
}

fn wait(time: Duration) {
    let end = Instant::now() + time;
    while let Some(left) = end.checked_duration_since(Instant::now()) {
        thread::park_timeout(left);
    }
}

#[test]
fn a_client_that_waits_as_long_as_it_should_is_allowed() {
    let mesh = Mesh::start();
    thread::scope(|scope| {
        for key in ["pause", "pause-window", "pause-log", "pause-bucket"] {
            let mesh = &mesh;
            scope.spawn(move || {
                for _ in 0..ROUNDS {
                    let denied = exhaust(mesh, key);
                    let seconds = |name| denied.header(name).parse::<u64>().unwrap();
                    let waits = ["x-ratelimit-reset", "retry-after"].map(seconds);
                    for wait in waits {
                        assert!((1..=WAIT_MAX).contains(&wait), "{key}: {denied:?}");
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
