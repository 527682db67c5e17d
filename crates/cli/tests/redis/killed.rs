//! Two services over one Redis, one of which is killed under load.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use tollgate_testbed::{Certificates, Folder, PASSWORD, Redis, USER};

use crate::service::{BOUND, Connection, Service, write_rules};

/// Units of each user, for longer than any test.
const LIMIT: usize = 2_500;
const USERS: usize = 4;
/// Connections to each service.
const CLIENTS: usize = 4;
/// How many requests are allowed before a service is killed, and how many more before it is
/// started again.
const ALLOWED_BEFORE: usize = USERS * LIMIT / 8;
const ALLOWED_MEANWHILE: usize = USERS * LIMIT / 16;
/// How long a client goes on without an allowed request: longer than an instance keeps a denial in
/// its cache if units may be returned.
const QUIET: Duration = Duration::from_secs(3);

#[test]
fn a_killed_service_causes_no_over_admission() {
    kill_one_in_strict(&plain());
}

#[test]
fn a_killed_service_over_tls_causes_no_over_admission() {
    kill_one_in_strict(&encrypted());
}

#[test]
fn a_killed_service_loses_what_it_has_leased_and_no_more() {
    kill_one_in_leased(&plain());
}

#[test]
fn a_killed_service_over_tls_loses_what_it_has_leased_and_no_more() {
    kill_one_in_leased(&encrypted());
}

fn kill_one_in_strict(over: &Over) {
    let [charged, in_flight] = [USERS * LIMIT - kill_one("strict", over), CLIENTS];
    // Each of its clients waited for at most one answer.
    assert!(charged <= in_flight, "{charged} charged without an answer");
}

fn kill_one_in_leased(over: &Over) {
    let charged = USERS * LIMIT - kill_one("leased", over);
    // A lease is at most a quarter of what is free.
    assert!(charged <= USERS * LIMIT / 4 + CLIENTS, "{charged} lost");
}

/// A server, and the setting `store.redis` of the services over it.
struct Over {
    how: &'static str,
    settings: String,
    _redis: Redis,
    folder: Folder,
    _certificates: Option<Certificates>,
}

fn plain() -> Over {
    let redis = Redis::start();
    Over {
        how: "",
        settings: format!("url: 'redis://{}'", redis.address()),
        _redis: redis,
        folder: Folder::new(),
        _certificates: None,
    }
}

fn encrypted() -> Over {
    let (certificates, folder) = (Certificates::new(), Folder::new());
    let redis = certificates.start("tg:");
    std::fs::write(folder.file("password"), PASSWORD).unwrap();
    let (port, authority) = (redis.port(), certificates.authority());
    Over {
        how: ", over TLS",
        settings: format!(
            "url: 'rediss://localhost:{port}', tls: {{ca: '{authority}'}}, \
             username: {USER}, password_file: password"
        ),
        _redis: redis,
        folder,
        _certificates: Some(certificates),
    }
}

/// Kills one of two services under load, starts it again, and goes on until nothing is left.
/// Returns how many requests were allowed.
fn kill_one(mode: &str, over: &Over) -> usize {
    let folder = &over.folder;
    write_rules(folder, LIMIT);
    let services = ["first", "second"];
    let [first, second] = services.map(|name| Service::start(folder, name, mode, &over.settings));
    let allowed: Arc<[AtomicUsize; USERS]> = Arc::default();
    let clients = |port| -> Vec<JoinHandle<usize>> {
        let client = |number| {
            let allowed = Arc::clone(&allowed);
            thread::spawn(move || ask(port, number, &allowed))
        };
        (0..CLIENTS).map(client).collect()
    };
    let (of_first, of_second) = (clients(first.port), clients(second.port));
    let sum = || {
        allowed
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
    let before = reaches(ALLOWED_BEFORE);
    let first = first.killed();
    reaches(before + ALLOWED_MEANWHILE);
    let _first = first.again();
    let broken = |clients: Vec<JoinHandle<usize>>| -> usize {
        clients
            .into_iter()
            .map(|client| client.join().unwrap())
            .sum()
    };
    // The other one never closed a connection.
    assert_eq!(broken(of_second), 0);
    assert!(broken(of_first) >= CLIENTS);
    let most = allowed
        .iter()
        .map(|user| user.load(Ordering::Relaxed))
        .max();
    assert!(most <= Some(LIMIT), "{most:?}");
    let allowed = sum();
    println!(
        "{mode}{}: {before} allowed when one is killed, {allowed} of {} in the end",
        over.how,
        USERS * LIMIT
    );
    allowed
}

/// Sends requests for one user after the other until nothing is left. Returns how often the
/// connection broke.
fn ask(port: u16, number: usize, allowed: &[AtomicUsize; USERS]) -> usize {
    let (start, mut user, mut broken) = (Instant::now(), number, 0);
    let mut last = start;
    let mut connection = None;
    while last.elapsed() < QUIET {
        assert!(start.elapsed() < BOUND, "still allowed after {BOUND:?}");
        user = (user + 1) % USERS;
        let Some(open) = connection.as_mut() else {
            connection = Connection::open(port).ok();
            thread::yield_now();
            continue;
        };
        match open.check(&[user]) {
            Ok(200) => {
                allowed[user].fetch_add(1, Ordering::Relaxed);
                last = Instant::now();
            }
            Ok(status) => assert_eq!(status, 429),
            Err(_) => {
                connection = None;
                broken += 1;
                // The service is killed while units are left, so restart the quiet time.
                last = Instant::now();
            }
        }
    }
    broken
}
