//! The servers start, answer, and end.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use tollgate_testbed::{Certificates, Cluster, Faults, MASTERS, Proxy, Redis, Sentinels, Setup};

fn ping(address: &str) -> std::io::Result<String> {
    let mut connection = TcpStream::connect(address)?;
    connection.write_all(b"PING\r\n")?;
    let mut reply = [0; 7];
    connection.read_exact(&mut reply)?;
    Ok(String::from_utf8_lossy(&reply).into_owned())
}

#[test]
fn a_server_ends_with_its_owner() {
    let redis = Redis::start();
    assert_eq!(redis.ask(&["PING"]), "PONG");
    let address = redis.address();
    drop(redis);
    assert!(ping(&address).is_err());
}

#[test]
fn valkey_runs() {
    let valkey = Redis::start_with(&Setup::valkey());
    assert!(valkey.ask(&["INFO", "server"]).contains("valkey_version"));
}

#[test]
fn a_server_may_be_late_or_early() {
    for seconds in [-90, 90] {
        let right = Redis::start();
        let wrong = Redis::start_with(&Setup::default().with_clock(seconds));
        let difference = i128::from(wrong.clock()) - i128::from(right.clock());
        assert!(
            (difference - i128::from(seconds)).abs() <= 1,
            "{difference}"
        );
        // Scripts and expiries go by the same clock.
        let script = "redis.call('SET', 'key', 1, 'EX', 100) return redis.call('TIME')[1]";
        let reply: u64 = wrong.ask(&["EVAL", script, "0"]).parse().expect("a number");
        let expires: u64 = wrong.ask(&["EXPIRETIME", "key"]).parse().expect("a number");
        assert!(reply.abs_diff(wrong.clock()) <= 1, "{reply}");
        assert!(expires.abs_diff(reply + 100) <= 1, "{expires} {reply}");
    }
}

#[test]
fn a_cluster_has_three_masters_and_moves_slots() {
    let cluster = Cluster::start();
    let [from, to] = [cluster.master_of(0), cluster.master_of(16_383)];
    assert_ne!(from.port(), to.port());
    cluster.move_slots(10, from, to);
    assert_eq!(cluster.master_of(3).port(), to.port());
    let masters = cluster
        .nodes()
        .iter()
        .filter(|node| node.ask(&["ROLE"]).starts_with("master"));
    assert_eq!(masters.count(), MASTERS);
}

#[test]
fn the_sentinels_replace_a_dead_master() {
    let sentinels = Sentinels::start();
    let former = sentinels.master().port();
    sentinels.master().kill();
    sentinels.wait_for_failover(former);
    assert_eq!(sentinels.master().ask(&["PING"]), "PONG");
}

#[test]
fn a_server_speaks_tls_only() {
    let certificates = Certificates::new();
    let redis = certificates.start("tg:");
    assert!(ping(&redis.address()).is_err());
}

#[test]
fn the_proxy_delays_cuts_and_rejects() {
    let redis = Redis::start();
    let proxy = Proxy::to(&redis.address());
    assert_eq!(ping(&proxy.address()).expect("no faults yet"), "+PONG\r\n");
    let delay = Duration::from_millis(20);
    proxy.set(Faults {
        delay,
        ..Faults::default()
    });
    let start = Instant::now();
    assert!(ping(&proxy.address()).is_ok());
    assert!(start.elapsed() >= 2 * delay);
    proxy.set(Faults {
        cut_after: Some(3),
        ..Faults::default()
    });
    assert!(ping(&proxy.address()).is_err());
    proxy.set(Faults {
        closes_new_connections: true,
        ..Faults::default()
    });
    assert!(ping(&proxy.address()).is_err());
}
