//! A Redis Cluster: three primaries, each with a replica.

use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use crate::redis::{Redis, Setup};
use crate::tls::Certificates;

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
    tls: Option<Encrypted>,
}

/// What a cluster has whose nodes talk over TLS to clients and to each other.
#[derive(Debug)]
struct Encrypted {
    certificates: Certificates,
    /// The ports of the nodes that speak TLS. `Redis::ask` uses the others.
    ports: Vec<u16>,
}

// === impl Cluster ===

impl Cluster {
    /// A cluster in which every slot is served, and every primary has a synchronised replica.
    ///
    /// # Panics
    ///
    /// If Redis is not installed, or the cluster does not form.
    pub fn start() -> Cluster {
        let setup = setup();
        let nodes = (0..NODES).map(|_| Redis::start_with(&setup));
        let nodes = nodes.collect();
        Cluster { nodes, tls: None }.form()
    }

    /// The same, but its nodes talk over TLS to each other, and to the clients that it tells of
    /// [`Cluster::addresses`].
    ///
    /// # Panics
    ///
    /// As [`Cluster::start`].
    pub fn start_over_tls() -> Cluster {
        let certificates = Certificates::new();
        let mut setup = setup();
        // With `tls-cluster`, nodes tell clients with TLS of ports with TLS, and `MIGRATE` uses
        // them. Replicas then know only these ports, and so need TLS as well.
        let options = ["--tls-cluster", "yes", "--tls-replication", "yes"];
        setup.options.extend(options.map(str::to_owned));
        let nodes = (0..NODES).map(|_| {
            let (setup, port) = certificates.beside(&setup);
            (Redis::start_with(&setup), port)
        });
        let (nodes, ports) = nodes.unzip();
        let tls = Some(Encrypted {
            certificates,
            ports,
        });
        Cluster { nodes, tls }.form()
    }

    /// Joins the nodes.
    fn form(self) -> Cluster {
        let mut create = vec!["create".to_owned()];
        create.extend(self.addresses());
        create.extend(["--cluster-replicas", "1", "--cluster-yes"].map(str::to_owned));
        self.run(&create);
        self.wait_until("it is whole", Cluster::is_whole);
        self
    }

    /// The certificates of the nodes, if they talk over TLS.
    pub fn certificates(&self) -> Option<&Certificates> {
        self.tls.as_ref().map(|tls| &tls.certificates)
    }

    /// All nodes, primaries and replicas, in the order in which they were started.
    pub fn nodes(&self) -> &[Redis] {
        &self.nodes
    }

    /// `127.0.0.1:PORT` of every node, for clients.
    pub fn addresses(&self) -> Vec<String> {
        match &self.tls {
            None => self.nodes.iter().map(Redis::address).collect(),
            Some(tls) => {
                let ports = tls.ports.iter();
                ports.map(|port| format!("127.0.0.1:{port}")).collect()
            }
        }
    }

    /// That of one node.
    ///
    /// # Panics
    ///
    /// If it is a node of another cluster.
    pub fn address_of(&self, node: &Redis) -> String {
        let mut nodes = self.nodes.iter();
        let index = nodes.position(|other| other.port() == node.port());
        let index = index.expect("it is a node of this cluster");
        self.addresses().swap_remove(index)
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
            self.address_of(from),
            from.ask(&["CLUSTER", "MYID"]),
            to.ask(&["CLUSTER", "MYID"]),
        ];
        let count = count.to_string();
        let check = ["check".to_owned(), from.clone()];
        self.wait_until("its nodes agree", |_| self.tell(&check).is_ok());
        self.run(
            &[
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
        let reply = self.tell(words);
        assert!(reply.is_ok(), "redis-cli {words:?} failed: {reply:?}");
    }

    /// Runs `redis-cli --cluster` with these words; returns its output if it fails.
    fn tell(&self, words: &[String]) -> Result<(), String> {
        let mut command = Command::new("redis-cli");
        if let Some(certificates) = self.certificates() {
            command.args(["--tls", "--cacert", &certificates.authority()]);
        }
        let output = command
            .arg("--cluster")
            .args(words)
            .stdin(Stdio::null())
            .output()
            .expect("redis-cli is installed (apt-get install redis-tools)");
        match output.status.success() {
            true => Ok(()),
            false => Err(String::from_utf8_lossy(&output.stdout).into_owned()),
        }
    }
}

/// The options of a node.
fn setup() -> Setup {
    Setup::with(&[
        "--cluster-enabled",
        "yes",
        "--cluster-node-timeout",
        "1000",
        "--cluster-replica-validity-factor",
        "0",
        "--repl-diskless-sync-delay",
        "0",
    ])
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
