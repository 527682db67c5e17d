//! A primary, its replica, and the three sentinels that watch them.

use std::thread;
use std::time::{Duration, Instant};

use crate::folder::Folder;
use crate::port::free_port;
use crate::process::Process;
use crate::redis::{Redis, Setup, ask};
use crate::tls::Certificates;

/// How long the sentinels may take to discover each other, or to fail over: after a machine was
/// suspended they distrust their clock for half a minute.
const AGREED_WITHIN: Duration = Duration::from_secs(90);

/// A watched pair of servers.
#[derive(Debug)]
pub struct Sentinels {
    servers: [Server; 2],
    sentinels: Vec<Sentinel>,
    /// Of all of them, if they talk over TLS to clients and to each other.
    certificates: Option<Certificates>,
    _folder: Folder,
}

#[derive(Debug)]
struct Server {
    redis: Redis,
    /// The port for clients, sentinels and replicas: another one if it speaks TLS.
    client_port: u16,
}

#[derive(Debug)]
struct Sentinel {
    /// The port for `redis-cli`.
    port: u16,
    client_port: u16,
    _process: Process,
}

// === impl Sentinels ===

impl Sentinels {
    /// The name of the primary in the sentinels' configuration.
    pub const MASTER: &'static str = "tollgate";

    /// A primary with a synchronised replica, and three sentinels that agree on both.
    ///
    /// # Panics
    ///
    /// If Redis is not installed, or they do not agree.
    pub fn start() -> Sentinels {
        Sentinels::start_with(&Setup::default())
    }

    /// As [`Sentinels::start`], with a replica as in `setup`.
    ///
    /// # Panics
    ///
    /// As [`Sentinels::start`].
    pub fn start_with(setup: &Setup) -> Sentinels {
        Sentinels::start_as(setup, None)
    }

    /// The same, but all of them talk over TLS to each other, and to the clients that they tell of
    /// [`Sentinels::addresses`].
    ///
    /// # Panics
    ///
    /// As [`Sentinels::start`].
    pub fn start_over_tls(setup: &Setup) -> Sentinels {
        Sentinels::start_as(setup, Some(Certificates::new_earlier()))
    }

    /// As [`Sentinels::start_with`], over TLS if there are certificates.
    fn start_as(setup: &Setup, certificates: Option<Certificates>) -> Sentinels {
        let certified = certificates.as_ref();
        let master = Server::start(&Setup::default(), certified);
        let port = master.client_port.to_string();
        let mut setup = setup.clone();
        let follows = ["--replicaof", "127.0.0.1", &port];
        setup.options.extend(follows.map(str::to_owned));
        let replica = Server::start(&setup, certified);
        let folder = Folder::new();
        wait_until("the replica is in step", || {
            replica
                .redis
                .ask(&["INFO", "replication"])
                .contains("master_link_status:up")
        });
        let sentinels = (0..3).map(|number| Sentinel::start(&folder, number, &port, certified));
        let sentinels = Sentinels {
            sentinels: sentinels.collect(),
            servers: [master, replica],
            certificates,
            _folder: folder,
        };
        wait_until("the sentinels agree", || {
            sentinels.sentinels.iter().all(|sentinel| {
                let master = ask(sentinel.port, &["SENTINEL", "MASTER", Sentinels::MASTER]);
                let says = |name: &str, value: &str| {
                    let mut lines = master.lines().skip_while(|line| *line != name);
                    lines.nth(1) == Some(value)
                };
                says("num-slaves", "1") && says("num-other-sentinels", "2")
            })
        });
        sentinels
    }

    /// The certificates of all of them, if they talk over TLS.
    pub const fn certificates(&self) -> Option<&Certificates> {
        self.certificates.as_ref()
    }

    /// `127.0.0.1:PORT` of every sentinel, for clients.
    pub fn addresses(&self) -> Vec<String> {
        let ports = self.sentinels.iter().map(|sentinel| sentinel.client_port);
        ports.map(address).collect()
    }

    /// The current primary, according to the sentinels.
    ///
    /// # Panics
    ///
    /// If they name neither of the two.
    pub fn master(&self) -> &Redis {
        let port = self.master_port();
        let mut servers = self.servers.iter();
        let master = servers.find(|server| server.client_port == port);
        &master.expect("one of the two is the master").redis
    }

    /// `127.0.0.1:PORT` of the current primary, for clients.
    ///
    /// # Panics
    ///
    /// If the sentinels do not name one.
    pub fn master_address(&self) -> String {
        address(self.master_port())
    }

    /// Starts a failover to the replica, while the primary is healthy.
    ///
    /// # Panics
    ///
    /// If it does not begin.
    pub fn fail_over(&self) {
        let reply = ask(
            self.sentinels[0].port,
            &["SENTINEL", "FAILOVER", Sentinels::MASTER],
        );
        assert_eq!(reply, "OK", "the failover does not begin");
    }

    /// Waits until the sentinels name another primary than `former`.
    ///
    /// # Panics
    ///
    /// If they do not within a minute and a half.
    pub fn wait_for_failover(&self, former: u16) {
        wait_until("there is another master", || self.master().port() != former);
    }

    fn master_port(&self) -> u16 {
        let reply = ask(
            self.sentinels[0].port,
            &["SENTINEL", "GET-MASTER-ADDR-BY-NAME", Sentinels::MASTER],
        );
        let port = reply.lines().nth(1).and_then(|port| port.parse().ok());
        port.expect("a sentinel tells an address")
    }
}

// === impl Server ===

impl Server {
    fn start(setup: &Setup, certificates: Option<&Certificates>) -> Server {
        let Some(certificates) = certificates else {
            let redis = Redis::start_with(setup);
            let client_port = redis.port();
            return Server { redis, client_port };
        };
        let (mut setup, client_port) = certificates.beside(setup);
        let replicates = ["--tls-replication", "yes"];
        setup.options.extend(replicates.map(str::to_owned));
        let redis = Redis::start_with(&setup);
        Server { redis, client_port }
    }
}

// === impl Sentinel ===

impl Sentinel {
    /// Starts one that watches the primary on `master_port`, over TLS if there are certificates.
    fn start(
        folder: &Folder,
        number: usize,
        master_port: &str,
        certificates: Option<&Certificates>,
    ) -> Sentinel {
        loop {
            let port = free_port();
            let file = folder.file(&format!("sentinel-{number}-{port}.conf"));
            let name = Sentinels::MASTER;
            // With `tls-replication`, a sentinel talks over TLS to servers and other sentinels.
            let (tls, client_port) = match certificates {
                None => (String::new(), port),
                Some(certificates) => {
                    let (lines, port) = certificates.lines_beside();
                    (format!("{lines}tls-replication yes\n"), port)
                }
            };
            let text = format!(
                "port {port}\nbind 127.0.0.1\n{tls}\
                 sentinel monitor {name} 127.0.0.1 {master_port} 2\n\
                 sentinel down-after-milliseconds {name} 1000\n\
                 sentinel failover-timeout {name} 3000\n"
            );
            std::fs::write(&file, text).expect("the folder is writable");
            let words = [file, "--sentinel".to_owned()];
            if let Some(process) = Process::start("redis-server", &words, "+monitor master") {
                return Sentinel {
                    port,
                    client_port,
                    _process: process,
                };
            }
        }
    }
}

/// `127.0.0.1:PORT`.
fn address(port: u16) -> String {
    format!("127.0.0.1:{port}")
}

#[expect(
    clippy::disallowed_methods,
    reason = "polls a real process from a thread of its own"
)]
fn wait_until(what: &str, holds: impl Fn() -> bool) {
    let start = Instant::now();
    while !holds() {
        assert!(
            start.elapsed() < AGREED_WITHIN,
            "waited too long until {what}"
        );
        thread::sleep(Duration::from_millis(50));
    }
}
