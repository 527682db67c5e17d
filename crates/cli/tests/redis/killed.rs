//! Two services over one Redis, of which one is killed under load.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use tollgate_testbed::{Folder, Redis};

use crate::service::{BOUND, Connection, Service, write_rules};

/// Units of each user, for longer than any test.
const LIMIT: usize = 2_500;
const USERS: usize = 4;
/// Connections to each service.
const CLIENTS: usize = 4;
/// How much is admitted when a service is killed, and how much more when it is started again.
const WORKS: usize = USERS * LIMIT / 8;
const AWAY: usize = USERS * LIMIT / 16;
/// How long a client asks without being admitted: longer than a node remembers a refusal where
/// units may come back.
const QUIET: Duration = Duration::from_secs(3);

#[test]
fn a_killed_service_over_admits_nothing() {
    let [charged, in_flight] = [USERS * LIMIT - kill_one("strict"), CLIENTS];
    // Each of its clients waited for at most one answer.
    assert!(charged <= in_flight, "{charged} charged without an answer");
}

#[test]
fn a_killed_service_takes_along_what_it_has_leased_and_no_more() {
    let charged = USERS * LIMIT - kill_one("leased");
    // A lease is at most a quarter of what is free.
    assert!(
        charged <= USERS * LIMIT / 4 + CLIENTS,
        "{charged} taken along"
    );
}

/// Kills one of two services under load, starts it again, and goes on until nothing is left; says
/// how much was admitted.
fn kill_one(mode: &str) -> usize {
    let (redis, folder) = (Redis::start(), Folder::new());
    write_rules(&folder, LIMIT);
    let url = format!("url: 'redis://{}'", redis.address());
    let [first, second] = ["first", "second"].map(|name| Service::start(&folder, name, mode, &url));
    let admitted: Arc<[AtomicUsize; USERS]> = Arc::default();
    let clients = |port| -> Vec<JoinHandle<usize>> {
        let client = |number| {
            let admitted = Arc::clone(&admitted);
            thread::spawn(move || ask(port, number, &admitted))
        };
        (0..CLIENTS).map(client).collect()
    };
    let (of_first, of_second) = (clients(first.port), clients(second.port));
    let sum = || {
        admitted
            .iter()
            .map(|user| user.load(Ordering::Relaxed))
            .sum::<usize>()
    };
    let reaches = |goal| {
        let start = Instant::now();
        while sum() < goal {
            assert!(start.elapsed() < BOUND, "less than {goal} after {BOUND:?}");
            thread::yield_now();
        }
        sum()
    };
    let before = reaches(WORKS);
    let first = first.killed();
    reaches(before + AWAY);
    let _first = first.again();
    let broken = |clients: Vec<JoinHandle<usize>>| -> usize {
        clients
            .into_iter()
            .map(|client| client.join().unwrap())
            .sum()
    };
    // The other one never hung up on anybody.
    assert_eq!(broken(of_second), 0);
    assert!(broken(of_first) >= CLIENTS);
    let most = admitted
        .iter()
        .map(|user| user.load(Ordering::Relaxed))
        .max();
    assert!(most <= Some(LIMIT), "{most:?}");
    let admitted = sum();
    println!(
        "{mode}: {before} admitted when one is killed, {admitted} of {} in the end",
        USERS * LIMIT
    );
    admitted
}

/// Asks for one user after the other until nothing is left; says how often the service hung up.
fn ask(port: u16, number: usize, admitted: &[AtomicUsize; USERS]) -> usize {
    let (start, mut user, mut broken) = (Instant::now(), number, 0);
    let mut last = start;
    let mut connection = None;
    while last.elapsed() < QUIET {
        assert!(start.elapsed() < BOUND, "still admitted after {BOUND:?}");
        user = (user + 1) % USERS;
        let Some(open) = connection.as_mut() else {
            connection = Connection::open(port).ok();
            thread::yield_now();
            continue;
        };
        match open.check(&[user]) {
            Ok(200) => {
                admitted[user].fetch_add(1, Ordering::Relaxed);
                last = Instant::now();
            }
            Ok(status) => assert_eq!(status, 429),
            Err(_) => {
                connection = None;
                broken += 1;
                // It is killed in the middle of things, so everybody has something left to ask for.
                last = Instant::now();
            }
        }
    }
    broken
}
