//! A Redis Cluster: three primaries, each with a replica.

use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use crate::redis::{Redis, Setup};

/// The servers of a cluster.
pub const NODES: usize = 6;
/// How many of them are primaries.
pub const MASTERS: usize = 3;
/// How long a cluster may take to form.
const WHOLE_WITHIN: Duration = Duration::from_secs(30);

/// A running cluster.
#[derive(Debug)]
pub struct Cluster {
    nodes: Vec<Redis>,
}

// === impl Cluster ===

impl Cluster {
    /// A cluster in which every slot is served, and every primary has a synchronised replica.
    ///
    /// # Panics
    ///
    /// If Redis is not installed, or the cluster does not form.
    pub fn start() -> Cluster {
        let setup = Setup::with(&[
            "--cluster-enabled",
            "yes",
            "--cluster-node-timeout",
            "1000",
            "--cluster-replica-validity-factor",
            "0",
            "--repl-diskless-sync-delay",
            "0",
        ]);
        let nodes: Vec<Redis> = (0..NODES).map(|_| Redis::start_with(&setup)).collect();
        let cluster = Cluster { nodes };
        let mut create = vec!["--cluster".to_owned(), "create".to_owned()];
        create.extend(cluster.nodes.iter().map(Redis::address));
        create.extend(["--cluster-replicas", "1", "--cluster-yes"].map(str::to_owned));
        cluster.run(&create);
        cluster.wait_until("it is whole", Cluster::is_whole);
        cluster
    }

    /// All nodes, primaries and replicas, in the order in which they were started.
    pub fn nodes(&self) -> &[Redis] {
        &self.nodes
    }

    /// `127.0.0.1:PORT` of every node.
    pub fn addresses(&self) -> Vec<String> {
        self.nodes.iter().map(Redis::address).collect()
    }

    /// The Redis node that serves `slot` now.
    ///
    /// # Panics
    ///
    /// If none does.
    pub fn master_of(&self, slot: u16) -> &Redis {
        self.server_of(slot).expect("the slot is served")
    }

    /// The Redis node that serves `slot` now, if there is one.
    pub fn server_of(&self, slot: u16) -> Option<&Redis> {
        self.nodes.iter().find(|node| {
            let ranges = slots_of(node);
            ranges
                .iter()
                .any(|(from, to)| (*from..=*to).contains(&slot))
        })
    }

    /// Moves `count` slots from the primary `from` to the primary `to` (their indexes among the
    /// primaries), as an operator does, and returns when they have moved.
    ///
    /// # Panics
    ///
    /// If `redis-cli` fails.
    pub fn move_slots(&self, count: u16, from: &Redis, to: &Redis) {
        let [from, id_from, id_to] = [
            from.address(),
            from.ask(&["CLUSTER", "MYID"]),
            to.ask(&["CLUSTER", "MYID"]),
        ];
        let count = count.to_string();
        self.wait_until("its nodes agree", |_| {
            succeeds(&["--cluster", "check", &from])
        });
        self.run(
            &[
                "--cluster",
                "reshard",
                &from,
                "--cluster-from",
                &id_from,
                "--cluster-to",
                &id_to,
                "--cluster-slots",
                &count,
                "--cluster-yes",
            ]
            .map(str::to_owned),
        );
    }

    /// Polls until `holds` returns true.
    ///
    /// # Panics
    ///
    /// If it does not within half a minute.
    #[expect(
        clippy::disallowed_methods,
        reason = "polls a real process from a thread of its own"
    )]
    pub fn wait_until(&self, what: &str, holds: impl Fn(&Cluster) -> bool) {
        let start = Instant::now();
        while !holds(self) {
            assert!(
                start.elapsed() < WHOLE_WITHIN,
                "waited too long until {what}"
            );
            thread::sleep(Duration::from_millis(50));
        }
    }

    fn is_whole(&self) -> bool {
        self.nodes.iter().all(|node| {
            let replication = node.ask(&["INFO", "replication"]);
            let in_step = replication.contains("state=online")
                || replication.contains("master_link_status:up");
            in_step && node.ask(&["CLUSTER", "INFO"]).contains("cluster_state:ok")
        })
    }

    fn run(&self, words: &[String]) {
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        let reply = tell(&words);
        assert!(reply.is_ok(), "redis-cli {words:?} failed: {reply:?}");
    }
}

fn succeeds(words: &[&str]) -> bool {
    tell(words).is_ok()
}

/// Runs `redis-cli`; returns its output if it fails.
fn tell(words: &[&str]) -> Result<(), String> {
    let output = Command::new("redis-cli")
        .args(words)
        .stdin(Stdio::null())
        .output()
        .expect("redis-cli is installed (apt-get install redis-tools)");
    match output.status.success() {
        true => Ok(()),
        false => Err(String::from_utf8_lossy(&output.stdout).into_owned()),
    }
}

/// The ranges of slots that a node reports as its own.
fn slots_of(node: &Redis) -> Vec<(u16, u16)> {
    let nodes = node.ask(&["CLUSTER", "NODES"]);
    let own = nodes.lines().find(|line| line.contains("myself"));
    let words = own.unwrap_or("").split_whitespace().skip(8);
    let ranges = words.filter_map(|word| {
        let (from, to) = word.split_once('-').unwrap_or((word, word));
        Some((from.parse().ok()?, to.parse().ok()?))
    });
    ranges.collect()
}
