//! Ports for servers that are processes of their own.

use std::net::TcpListener;
use std::ops::Range;
use std::process;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};

/// The ports that servers are started on.
///
/// They are below those that the system gives to sockets that ask for any port (Linux: 32 768 and
/// above), so that nothing takes the port of a server while it is stopped, before a test starts it
/// again. The nodes of a Redis Cluster also listen on the port 10 000 above.
const PORTS: Range<u16> = 11_000..21_000;

/// How far apart two processes begin that were started one after the other: they may run at once.
const BETWEEN_PROCESSES: usize = 2_081;

/// A port of 127.0.0.1 that is free, and that this process has not returned in its last 10 000
/// calls.
///
/// # Panics
///
/// If none is free.
pub fn free_port() -> u16 {
    static TRIED: OnceLock<AtomicUsize> = OnceLock::new();
    let tried = TRIED.get_or_init(|| {
        let process = usize::try_from(process::id()).expect("32 bits fit");
        AtomicUsize::new(process.wrapping_mul(BETWEEN_PROCESSES))
    });
    for _ in PORTS {
        let index = tried.fetch_add(1, Ordering::Relaxed) % PORTS.len();
        let port = PORTS
            .clone()
            .nth(index)
            .expect("the index is below their number");
        if TcpListener::bind(("127.0.0.1", port)).is_ok() {
            return port;
        }
    }
    panic!("no port of {PORTS:?} is free");
}
