//! Two services over a Cluster, over a primary that sentinels choose, and over TLS with a password.

use std::fs;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value;
use tollgate_testbed::{Certificates, Cluster, Folder, PASSWORD, Redis, Sentinels, USER};

use crate::service::{BOUND, Connection, Service, write_rules};

/// Units of each user.
const LIMIT: usize = 500;
const USERS: usize = 4;
/// Connections to each service.
const CLIENTS: usize = 3;
/// How often each service is asked for a user who has nothing left.
const ASKED_AGAIN: usize = 5;
/// How long after a failover each service decides again.
const BACK_WITHIN: Duration = Duration::from_secs(10);

/// A seed at which nothing listens.
const DEAD: &str = "127.0.0.1:1";

/// How many requests of each user were allowed.
type Allowed = [AtomicUsize; USERS];

#[test]
fn services_over_a_cluster_with_a_dead_seed_share_a_budget_exactly() {
    let (cluster, folder) = (Cluster::start(), Folder::new());
    write_rules(&folder, LIMIT);
    let live = &cluster.addresses()[0];
    let servers = format!("cluster: ['{DEAD}', '{live}']");
    for mode in ["strict", "leased"] {
        let services = two(&folder, mode, &format!("{servers}, prefix: '{mode}:'"));
        spend_all(&services, &Allowed::default());

        let shown = keys(&services[0], "show");
        assert_eq!(fields(&shown, "remaining"), [0; USERS], "{mode}");
        let deleted = keys(&services[1], "reset");
        assert_eq!(fields(&deleted, "deleted"), [true; USERS], "{mode}");
        let shown = keys(&services[0], "show");
        assert_eq!(fields(&shown, "remaining"), [LIMIT; USERS], "{mode}");
        // The services above have denials in their caches; new ones allow the same again.
        let services = two(&folder, mode, &format!("{servers}, prefix: '{mode}:'"));
        spend_all(&services, &Allowed::default());
    }
}

#[test]
fn services_go_on_with_the_primary_that_sentinels_choose() {
    let (sentinels, folder) = (Sentinels::start(), Folder::new());
    write_rules(&folder, LIMIT);
    let addresses = sentinels.addresses().join("', '");
    let name = Sentinels::MASTER;
    let servers = format!("sentinel: {{master: {name}, addresses: ['{addresses}']}}");
    let services = two(&folder, "strict", &servers);
    let allowed = Allowed::default();
    let mut clients = services.each_ref().map(connected);
    for _ in 0..LIMIT / 4 {
        for client in &mut clients {
            assert_eq!(ask(client, &[0], &allowed), 200);
        }
    }
    let former = sentinels.master();
    wait_until("the replica has it all", || is_replicated(former));
    let port = former.port();
    former.kill();
    sentinels.wait_for_failover(port);

    let start = Instant::now();
    for client in &mut clients {
        while ask(client, &[0], &allowed) != 200 {
            assert!(start.elapsed() < BACK_WITHIN, "not after {BACK_WITHIN:?}");
            thread::yield_now();
        }
    }
    println!("decided {:?} after the failover", start.elapsed());
    spend_all(&services, &allowed);

    let wrong = servers.replace(name, "nobody");
    let [service, _] = two(&folder, "strict", &wrong);
    let why = service.keys("show", 1).stderr;
    let why = String::from_utf8(why).unwrap();
    assert!(why.contains("knows no master called `nobody`"), "{why}");
}

#[test]
fn services_share_a_budget_over_tls_with_a_password() {
    let (certificates, folder) = (Certificates::new(), Folder::new());
    write_rules(&folder, LIMIT);
    let redis = certificates.start("tg:");
    let (port, authority) = (redis.port(), certificates.authority());
    fs::write(folder.file("password"), format!("{PASSWORD}\n")).unwrap();
    let servers = format!(
        "url: 'rediss://localhost:{port}', tls: {{ca: '{authority}'}}, \
         username: {USER}, password_file: password"
    );
    let services = two(&folder, "strict", &servers);
    spend_all(&services, &Allowed::default());
    let shown = keys(&services[0], "show");
    assert_eq!(fields(&shown, "remaining"), [0; USERS]);

    fs::write(folder.file("password"), "wrong horse").unwrap();
    let output = services[0].keys("show", 1);
    assert_eq!(output.status.code(), Some(1));
    let why = String::from_utf8(output.stderr).unwrap();
    assert!(why.contains("WRONGPASS") && !why.contains("horse"), "{why}");
}

fn two(folder: &Folder, mode: &str, servers: &str) -> [Service; 2] {
    ["first", "second"].map(|name| Service::start(folder, name, mode, servers))
}

/// Sends requests to both services, for one user or for two at once, until every user's limit is
/// exhausted, and then a few more: each user gets exactly the limit.
fn spend_all(services: &[Service; 2], allowed: &Allowed) {
    let start = Instant::now();
    let is_spent = || {
        let mut users = allowed.iter();
        users.all(|user| user.load(Ordering::Relaxed) >= LIMIT)
    };
    let spend = |service: &Service, number: usize| {
        let mut client = connected(service);
        let mut user = number;
        while !is_spent() {
            assert!(start.elapsed() < BOUND, "{allowed:?} after {BOUND:?}");
            user = (user + 1) % USERS;
            // Keys of two users lie in two slots.
            let together = [user, (user + 1) % USERS];
            let users = &together[..1 + number % 2];
            ask(&mut client, users, allowed);
        }
    };
    thread::scope(|scope| {
        for service in services {
            for number in 0..CLIENTS {
                scope.spawn(move || spend(service, number));
            }
        }
    });
    for service in services {
        let mut client = connected(service);
        for user in 0..USERS {
            for _ in 0..ASKED_AGAIN {
                assert_eq!(ask(&mut client, &[user], allowed), 429);
            }
        }
    }
    let allowed = allowed.each_ref();
    let allowed = allowed.map(|user| user.load(Ordering::Relaxed));
    assert_eq!(allowed, [LIMIT; USERS]);
}

fn connected(service: &Service) -> Connection {
    Connection::open(service.port).unwrap()
}

/// Sends one request for these users; counts it if it is allowed.
fn ask(client: &mut Connection, users: &[usize], allowed: &Allowed) -> u16 {
    let status = client.check(users).unwrap();
    match status {
        200 => {
            for user in users {
                allowed[*user].fetch_add(1, Ordering::Relaxed);
            }
        }
        _ => assert_eq!(status, 429),
    }
    status
}

/// The report of `tollgate keys` about all users.
fn keys(service: &Service, action: &str) -> Value {
    let output = service.keys(action, USERS);
    let why = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{why}");
    serde_json::from_slice(&output.stdout).unwrap()
}

/// A field of every key, in their order.
fn fields<'k>(keys: &'k Value, field: &str) -> Vec<&'k Value> {
    let descriptors = keys["descriptors"].as_array().unwrap();
    let keys = descriptors.iter().map(|found| &found["key"][field]);
    keys.collect()
}

/// Whether the replica has everything that the primary has written.
fn is_replicated(master: &Redis) -> bool {
    let info = master.ask(&["INFO", "replication"]);
    let after = |name: &str| {
        let (_, rest) = info.split_once(name)?;
        let digits = rest.split(|c: char| !c.is_ascii_digit()).next()?;
        digits.parse::<u64>().ok()
    };
    let (master, replica) = (after("master_repl_offset:"), after(",offset="));
    replica.is_some() && replica >= master
}

fn wait_until(what: &str, holds: impl Fn() -> bool) {
    let start = Instant::now();
    while !holds() {
        assert!(start.elapsed() < BOUND, "waited too long until {what}");
        thread::yield_now();
    }
}
