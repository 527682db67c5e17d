//! The topology of a Redis Cluster: which node serves which slot.

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::ops::RangeInclusive;
use std::sync::{Arc, Mutex};

use arc_swap::{ArcSwap, ArcSwapOption};
use tokio::sync::Notify;
use tokio::time::{Duration, Instant, sleep, timeout};

use crate::keys::SLOTS;
use crate::request_queue::RequestQueue;
use crate::resp::{Reply, printable};
use crate::sharded::lock;
use crate::stats::Stats;
use crate::watched::Watched;

/// The longest interval between two refreshes of the topology.
const REFRESH_EVERY: Duration = Duration::from_secs(30);
/// The shortest interval between two refreshes.
const REFRESH_PAUSE: Duration = Duration::from_millis(100);
/// How often the task checks that every primary is reachable.
const CHECK_EVERY: Duration = Duration::from_secs(1);
/// Stands for the whole Cluster in reasons and errors.
const NAME: &str = "cluster";
/// How long one node may take to reply to `CLUSTER SLOTS`.
const REPLY_WITHIN: Duration = Duration::from_millis(500);
/// The most nodes of a Cluster; Redis itself recommends at most 1000.
const NODES_MAX: usize = 1_000;

/// A node and its request queues.
#[derive(Debug)]
pub(crate) struct Node {
    pub(crate) address: String,
    pub(crate) queues: Vec<RequestQueue>,
    pub(crate) stats: Arc<Stats>,
}

/// The nodes and slots of a Cluster, as far as they are known.
pub(crate) struct Cluster {
    /// For each slot the node that serves it, once known.
    slots: Box<[ArcSwapOption<Node>]>,
    /// By address.
    nodes: ArcSwap<BTreeMap<String, Arc<Node>>>,
    /// Nodes that serve slots, as of the last refresh.
    masters: ArcSwap<Vec<Arc<Node>>>,
    /// Whether the topology was read at least once.
    is_known: Watched<bool>,
    /// Locked while nodes are added and removed; only a decision that meets a new node waits for
    /// it.
    changing: Mutex<()>,
    /// Notified when the topology is known to be out of date.
    pub(crate) stale: Notify,
    seeds: Vec<String>,
    stats: Arc<Stats>,
    open: Box<dyn Fn(&str) -> Node + Send + Sync>,
}

/// A range of slots that one node serves.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Range {
    /// Within [`SLOTS`].
    pub(crate) slots: RangeInclusive<usize>,
    /// `host:port`.
    pub(crate) address: String,
}

/// Parses the reply to `CLUSTER SLOTS`: for each range its ends, its primary and its replicas.
/// Invalid ranges are skipped, as are those beyond one for each slot. `own_host` is the host of the
/// node that replied.
pub(crate) fn ranges(reply: &Reply, own_host: &str) -> Vec<Range> {
    let read = |range: &Reply| {
        let [Reply::Integer(from), Reply::Integer(to), master, ..] = range.elements() else {
            return None;
        };
        let [host, Reply::Integer(port), ..] = master.elements() else {
            return None;
        };
        let (from, to) = (usize::try_from(*from).ok()?, usize::try_from(*to).ok()?);
        let port = u16::try_from(*port).ok()?;
        // A node that does not know its own host name leaves it out.
        let host = host.text().filter(|host| !host.is_empty() && *host != "?");
        let host = host.unwrap_or(own_host);
        (from <= to && to < SLOTS).then(|| Range {
            slots: from..=to,
            address: format!("{host}:{port}"),
        })
    };
    let ranges = reply.elements().iter().take(SLOTS);
    ranges.filter_map(read).collect()
}

// === impl Cluster ===

impl Cluster {
    /// A Cluster with these seed nodes; `open` opens the request queues of a node.
    pub(crate) fn new(
        seeds: Vec<String>,
        stats: Arc<Stats>,
        open: impl Fn(&str) -> Node + Send + Sync + 'static,
    ) -> Cluster {
        let cluster = Cluster {
            slots: (0..SLOTS).map(|_| ArcSwapOption::empty()).collect(),
            nodes: ArcSwap::default(),
            masters: ArcSwap::default(),
            is_known: Watched::default(),
            changing: Mutex::new(()),
            stale: Notify::new(),
            seeds,
            stats,
            open: Box::new(open),
        };
        for seed in &cluster.seeds {
            cluster.node(seed);
        }
        cluster
    }

    /// The node that serves `slot`; any reachable node, as long as that is unknown.
    pub(crate) fn node_of_slot(&self, slot: u16) -> Option<Arc<Node>> {
        let known = self.slots.get(usize::from(slot));
        let known = known.and_then(ArcSwapOption::load_full);
        known.or_else(|| {
            let nodes = self.nodes.load();
            nodes.values().find(|node| node.is_up()).cloned()
        })
    }

    /// A number that identifies the set of nodes that serve these slots, as far as they are known.
    pub(crate) fn nodes_of(&self, slots: impl Iterator<Item = u16>) -> u64 {
        let serving = slots.filter_map(|slot| self.node_of_slot(slot));
        let mut serving: Vec<Arc<Node>> = serving.collect();
        serving.sort_unstable_by(|one, other| one.address.cmp(&other.address));
        serving.dedup_by(|one, other| one.address == other.address);
        let mut hasher = DefaultHasher::new();
        for node in &serving {
            node.address.hash(&mut hasher);
        }
        hasher.finish()
    }

    /// The node at `address`; connects to it if it is new.
    pub(crate) fn node(&self, address: &str) -> Option<Arc<Node>> {
        if let Some(node) = self.nodes.load().get(address) {
            return Some(Arc::clone(node));
        }
        let _one_at_a_time = lock(&self.changing);
        self.find_or_add(address)
    }

    /// Applies a `MOVED`: `slot` is served at `address`. Changes that slot only, since a failover
    /// causes one such reply for each request in flight; a refresh follows.
    pub(crate) fn move_slot(&self, slot: u16, address: &str) {
        let node = self.node(address);
        if let Some(current) = self.slots.get(usize::from(slot)) {
            current.store(node);
        }
        self.stale.notify_one();
    }

    /// The nodes that serve slots, as of the last refresh.
    pub(crate) fn masters(&self) -> Arc<Vec<Arc<Node>>> {
        self.masters.load_full()
    }

    /// Waits until the topology was read once.
    pub(crate) async fn wait_for_topology(&self) {
        self.is_known.wait_for(|known| known.then_some(())).await;
    }

    /// Keeps the topology up to date; never returns.
    pub(crate) async fn keep(&self) {
        loop {
            self.refresh().await;
            sleep(REFRESH_PAUSE).await;
            let refreshed_at = Instant::now();
            while refreshed_at.elapsed() < REFRESH_EVERY {
                let rest = match self.slots.iter().all(|slot| slot.load().is_some()) {
                    true => CHECK_EVERY,
                    false => REFRESH_PAUSE,
                };
                let is_stale = timeout(rest, self.stale.notified()).await.is_ok();
                // While a primary is unreachable, the other nodes know which node takes over.
                let is_away = self.masters.load().iter().any(|node| !node.is_up());
                if is_stale || is_away || rest == REFRESH_PAUSE {
                    break;
                }
            }
        }
    }

    /// Sends `CLUSTER SLOTS` to one node after the other, until one replies with the topology.
    async fn refresh(&self) {
        let mut nodes: Vec<Arc<Node>> = self.nodes.load().values().cloned().collect();
        nodes.sort_by_key(|node| !node.is_up());
        for node in nodes {
            let words: [&[u8]; 2] = [b"CLUSTER", b"SLOTS"];
            let reply = node.queues[0].command(&words);
            match timeout(REPLY_WITHIN, reply).await {
                Ok(Ok(Reply::Error(text))) => {
                    self.stats.trouble.record_failure(NAME, &printable(&text));
                }
                Ok(Ok(reply)) if reply.elements().is_empty() => {
                    self.stats
                        .trouble
                        .record_failure(NAME, &"no slot of the Cluster is served");
                }
                Ok(Ok(reply)) => {
                    self.stats.trouble.clear_failure(NAME);
                    self.read(&node, &reply);
                    self.is_known
                        .modify(|known| !std::mem::replace(known, true));
                    return;
                }
                Ok(Err(_)) | Err(_) => {}
            }
        }
    }

    /// Replaces the topology by that in a node's reply.
    fn read(&self, source: &Node, reply: &Reply) {
        let _one_at_a_time = lock(&self.changing);
        let mut masters: Vec<Arc<Node>> = Vec::new();
        let mut slots: Vec<Option<Arc<Node>>> = vec![None; SLOTS];
        for range in ranges(reply, source.host()) {
            let node = self.find_or_add(&range.address);
            let is_new = |node: &&Arc<Node>| !masters.iter().any(|one| Arc::ptr_eq(one, node));
            masters.extend(node.as_ref().filter(is_new).cloned());
            slots[range.slots].fill(node);
        }
        for (current, node) in self.slots.iter().zip(slots) {
            let address = |node: &Option<Arc<Node>>| node.as_ref().map(Arc::as_ptr);
            if address(&current.load()) != address(&node) {
                current.store(node);
            }
        }
        // A node that no longer serves slots is dropped, unless it is a seed.
        let mut nodes = BTreeMap::clone(&self.nodes.load());
        let serves = |node: &Arc<Node>| masters.iter().any(|other| Arc::ptr_eq(other, node));
        nodes.retain(|address, node| self.seeds.contains(address) || serves(node));
        self.nodes.store(Arc::new(nodes));
        self.masters.store(Arc::new(masters));
    }

    /// The node at `address`, for a caller that holds the lock `changing`.
    fn find_or_add(&self, address: &str) -> Option<Arc<Node>> {
        let known = self.nodes.load();
        if let Some(node) = known.get(address) {
            return Some(Arc::clone(node));
        }
        if known.len() >= NODES_MAX {
            return None;
        }
        let node = Arc::new((self.open)(address));
        let mut nodes = BTreeMap::clone(&known);
        nodes.insert(address.to_owned(), Arc::clone(&node));
        self.nodes.store(Arc::new(nodes));
        Some(node)
    }
}

// === impl Node ===

impl Node {
    /// Whether every connection is usable: a key always uses the same one.
    pub(crate) fn is_up(&self) -> bool {
        self.queues.iter().all(RequestQueue::is_up)
    }

    /// Completes the address in a redirect from this node: without a host (`:6379`), or with `?` in
    /// its place, the host is the node's own.
    pub(crate) fn full_address(&self, address: &str) -> String {
        match address.rsplit_once(':') {
            Some(("" | "?", port)) => format!("{}:{port}", self.host()),
            _ => address.to_owned(),
        }
    }

    fn host(&self) -> &str {
        self.address
            .rsplit_once(':')
            .map_or(&*self.address, |(host, _)| host)
    }
}
