//! Requests at a constant rate.

use std::error::Error;
use std::io::{BufReader, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{JoinHandle, sleep, spawn};
use std::time::{Duration, Instant};

use tollgate_bench::check_call;

/// Requests a second, over all connections.
pub(crate) const RATE: u32 = 10_000;
/// Each has a thread, which sends a request when it is due, after the answer to the one before.
const CONNECTIONS: u32 = 4;
/// How many keys each limit has.
const KEYS: u64 = 10_000;
/// Longer than any answer takes.
const TIMEOUT: Duration = Duration::from_secs(10);

/// Connections that send requests.
pub(crate) struct Load {
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<Result<(), String>>>,
}

#[derive(Default)]
struct Shared {
    answered: AtomicU64,
    is_over: AtomicBool,
}

// === impl Load ===

impl Load {
    /// Sends requests to this port until [`Load::stop`].
    pub(crate) fn start(port: u16) -> Result<Load, Box<dyn Error>> {
        let shared = Arc::<Shared>::default();
        let mut threads = Vec::new();
        for number in 0..CONNECTIONS {
            let stream = TcpStream::connect(("127.0.0.1", port))?;
            stream.set_nodelay(true)?;
            stream.set_read_timeout(Some(TIMEOUT))?;
            let shared = Arc::clone(&shared);
            let send = move || send(&shared, stream, number).map_err(|error| error.to_string());
            threads.push(spawn(send));
        }
        Ok(Load { shared, threads })
    }

    /// How many requests were answered so far.
    pub(crate) fn count_answered(&self) -> u64 {
        self.shared.answered.load(Ordering::Relaxed)
    }

    /// Ends the connections; the first error that one of them met.
    pub(crate) fn stop(self) -> Result<(), Box<dyn Error>> {
        self.shared.is_over.store(true, Ordering::Relaxed);
        for thread in self.threads {
            thread
                .join()
                .map_err(|_| "a connection's thread panicked")??;
        }
        Ok(())
    }
}

/// Sends a request when it is due. What is late is sent at once.
fn send(shared: &Shared, stream: TcpStream, number: u32) -> Result<(), Box<dyn Error>> {
    let (mut output, mut input) = (stream.try_clone()?, BufReader::new(stream));
    let every = Duration::from_secs(1) * CONNECTIONS / RATE;
    let mut due = Instant::now() + every * number / CONNECTIONS;
    let mut state = u64::from(number) + 1;
    while !shared.is_over.load(Ordering::Relaxed) {
        sleep(due.saturating_duration_since(Instant::now()));
        due += every;
        output.write_all(request(next(&mut state), next(&mut state)).as_bytes())?;
        check_call::read_allowed(&mut input)?;
        shared.answered.fetch_add(1, Ordering::Relaxed);
    }
    Ok(())
}

/// The next random number: xorshift, with the constants of Marsaglia's paper of 2003.
fn next(state: &mut u64) -> u64 {
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    *state
}

fn request(user: u64, client: u64) -> String {
    let (user, client) = (user % KEYS, client % KEYS);
    let body =
        format!(r#"{{"domain":"d","descriptors":[{{"user":"{user}"}},{{"client":"{client}"}}]}}"#);
    check_call::request(&body)
}
