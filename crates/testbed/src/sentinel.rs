//! A primary, its replica, and the three sentinels that watch them.

use std::thread;
use std::time::{Duration, Instant};

use crate::folder::Folder;
use crate::process::Process;
use crate::redis::{Redis, Setup, ask, free_port};

/// How long the sentinels may take to discover each other, or to fail over: after a machine was
/// suspended they distrust their clock for half a minute.
const AGREED_WITHIN: Duration = Duration::from_secs(90);

/// A watched pair of servers.
#[derive(Debug)]
pub struct Sentinels {
    servers: [Redis; 2],
    sentinels: Vec<(u16, Process)>,
    _folder: Folder,
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
        Sentinels::start_with(Setup::default())
    }

    /// As [`Sentinels::start`], with a replica as in `setup`.
    ///
    /// # Panics
    ///
    /// As [`Sentinels::start`].
    pub fn start_with(mut setup: Setup) -> Sentinels {
        let master = Redis::start();
        let port = master.port().to_string();
        let follows = ["--replicaof", "127.0.0.1", &port];
        setup.options.extend(follows.map(str::to_owned));
        let replica = Redis::start_with(&setup);
        let folder = Folder::new();
        wait_until("the replica is in step", || {
            replica
                .ask(&["INFO", "replication"])
                .contains("master_link_status:up")
        });
        let sentinels = (0..3).map(|number| sentinel(&folder, number, &port));
        let sentinels = Sentinels {
            sentinels: sentinels.collect(),
            servers: [master, replica],
            _folder: folder,
        };
        wait_until("the sentinels agree", || {
            sentinels.sentinels.iter().all(|(port, _)| {
                let master = ask(*port, &["SENTINEL", "MASTER", Sentinels::MASTER]);
                let says = |name: &str, value: &str| {
                    let mut lines = master.lines().skip_while(|line| *line != name);
                    lines.nth(1) == Some(value)
                };
                says("num-slaves", "1") && says("num-other-sentinels", "2")
            })
        });
        sentinels
    }

    /// `127.0.0.1:PORT` of every sentinel.
    pub fn addresses(&self) -> Vec<String> {
        let ports = self.sentinels.iter().map(|(port, _)| port);
        ports.map(|port| format!("127.0.0.1:{port}")).collect()
    }

    /// The current primary, according to the sentinels.
    ///
    /// # Panics
    ///
    /// If they name neither of the two.
    pub fn master(&self) -> &Redis {
        let port = self.master_port();
        let master = self.servers.iter().find(|server| server.port() == port);
        master.expect("one of the two is the master")
    }

    /// Starts a failover to the replica, while the primary is healthy.
    ///
    /// # Panics
    ///
    /// If it does not begin.
    pub fn fail_over(&self) {
        let reply = ask(
            self.sentinels[0].0,
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
        wait_until("there is another master", || self.master_port() != former);
    }

    fn master_port(&self) -> u16 {
        let reply = ask(
            self.sentinels[0].0,
            &["SENTINEL", "GET-MASTER-ADDR-BY-NAME", Sentinels::MASTER],
        );
        let port = reply.lines().nth(1).and_then(|port| port.parse().ok());
        port.expect("a sentinel tells an address")
    }
}

fn sentinel(folder: &Folder, number: usize, master_port: &str) -> (u16, Process) {
    loop {
        let port = free_port();
        let file = folder.file(&format!("sentinel-{number}-{port}.conf"));
        let name = Sentinels::MASTER;
        let text = format!(
            "port {port}\nbind 127.0.0.1\n\
             sentinel monitor {name} 127.0.0.1 {master_port} 2\n\
             sentinel down-after-milliseconds {name} 1000\n\
             sentinel failover-timeout {name} 3000\n"
        );
        std::fs::write(&file, text).expect("the folder is writable");
        let words = [file, "--sentinel".to_owned()];
        if let Some(process) = Process::start("redis-server", &words, "+monitor master") {
            return (port, process);
        }
    }
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
