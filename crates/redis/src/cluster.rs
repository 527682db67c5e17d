//! The topology of a Redis Cluster, kept up to date: which node serves which slot.

mod node;
mod ranges;
mod topology;

use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use arc_swap::ArcSwap;
use tokio::sync::Notify;
use tokio::time::{Duration, Instant, sleep, timeout};

pub(crate) use node::Node;
pub(crate) use ranges::ranges;
use topology::Topology;

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

/// The nodes and slots of a Cluster, as far as they are known.
pub(crate) struct Cluster {
    topology: ArcSwap<Topology>,
    /// Whether the topology was read at least once.
    is_known: Watched<bool>,
    /// Locked while the topology changes; only a decision that meets a new node or a moved slot
    /// waits for it.
    changing: Mutex<()>,
    /// Notified when the topology is known to be out of date.
    pub(crate) stale: Notify,
    seeds: Vec<String>,
    /// How often the topology was refreshed.
    refreshes: AtomicUsize,
    stats: Arc<Stats>,
    open: Box<dyn Fn(&str) -> Node + Send + Sync>,
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
            topology: ArcSwap::default(),
            is_known: Watched::default(),
            changing: Mutex::new(()),
            stale: Notify::new(),
            seeds,
            refreshes: AtomicUsize::default(),
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
        let topology = self.topology.load();
        let reachable = || topology.nodes().find(|node| node.is_up());
        topology.node_of_slot(slot).or_else(reachable).cloned()
    }

    /// The node that serves all these slots, if they are known to be served by one.
    pub(crate) fn common_node(&self, mut slots: impl Iterator<Item = u16>) -> Option<Arc<Node>> {
        let topology = self.topology.load();
        let node = topology.node_of_slot(slots.next()?)?;
        let is_same = |slot| {
            let other = topology.node_of_slot(slot);
            other.is_some_and(|other| Arc::ptr_eq(node, other))
        };
        slots.all(is_same).then(|| Arc::clone(node))
    }

    /// A number that identifies the set of nodes that serve these slots, as far as they are known.
    pub(crate) fn nodes_of(&self, slots: impl Iterator<Item = u16>) -> u64 {
        let topology = self.topology.load();
        let serving = slots.filter_map(|slot| topology.node_of_slot(slot));
        // Where a node is in memory tells it from all others as long as it is there.
        let mut serving: Vec<usize> = serving.map(|node| Arc::as_ptr(node).addr()).collect();
        serving.sort_unstable();
        serving.dedup();
        let mut hasher = DefaultHasher::new();
        serving.hash(&mut hasher);
        hasher.finish()
    }

    /// The node at `address`; connects to it if it is new.
    pub(crate) fn node(&self, address: &str) -> Option<Arc<Node>> {
        if let Some(node) = self.topology.load().node(address) {
            return Some(Arc::clone(node));
        }
        self.change(|topology| self.find_or_add(topology, address))
    }

    /// Applies a `MOVED`: `slot` is served at `address`. Changes that slot only, since a failover
    /// causes one such reply for each request in flight; a refresh follows.
    pub(crate) fn move_slot(&self, slot: u16, address: &str) {
        let is_applied = {
            let topology = self.topology.load();
            let serving = topology.node_of_slot(slot);
            serving.is_some_and(|node| node.address == address)
        };
        if !is_applied {
            self.change(|topology| {
                let node = self.find_or_add(topology, address);
                topology.move_slot(slot, node.as_ref());
            });
        }
        self.stale.notify_one();
    }

    /// Whether a node is known to serve the slot.
    pub(crate) fn serves(&self, slot: u16) -> bool {
        self.topology.load().node_of_slot(slot).is_some()
    }

    /// Whether every slot is served, and every node that serves slots is reachable.
    pub(crate) fn is_up(&self) -> bool {
        let topology = self.topology.load();
        topology.is_complete() && topology.primaries().iter().all(|node| node.is_up())
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
                let rest = match self.topology.load().is_complete() {
                    true => CHECK_EVERY,
                    false => REFRESH_PAUSE,
                };
                let is_stale = timeout(rest, self.stale.notified()).await.is_ok();
                // While a primary is unreachable, the other nodes know which node takes over.
                if is_stale || !self.is_up() || rest == REFRESH_PAUSE {
                    break;
                }
            }
        }
    }

    /// Sends `CLUSTER SLOTS` to one node after the other, until one replies with the topology.
    async fn refresh(&self) {
        let mut nodes: Vec<Arc<Node>> = self.topology.load().nodes().cloned().collect();
        // Another one first each time: one node may know only how the Cluster was.
        let first = self.refreshes.fetch_add(1, Ordering::Relaxed) % nodes.len().max(1);
        nodes.rotate_left(first);
        // Each is looked at once: a sort may panic if the order changes meanwhile.
        nodes.sort_by_cached_key(|node| !node.is_up());
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
                    self.read(&node, &reply);
                    match self.topology.load().gap() {
                        Some(slots) => {
                            let reason = format!("{slots} served by no node");
                            self.stats.trouble.record_failure(NAME, &reason);
                        }
                        None => self.stats.trouble.clear_failure(NAME),
                    }
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
        let ranges = ranges(reply, source.host());
        self.change(|topology| {
            for range in &ranges {
                self.find_or_add(topology, &range.address);
            }
            topology.replace_slots(&ranges);
            topology.forget_idle(|address| self.seeds.iter().any(|seed| seed == address));
        });
    }

    /// The node at `address`, which is opened if it is new; `None` if there are too many.
    fn find_or_add(&self, topology: &mut Topology, address: &str) -> Option<Arc<Node>> {
        if let Some(node) = topology.node(address) {
            return Some(Arc::clone(node));
        }
        topology.has_room().then(|| {
            let node = Arc::new((self.open)(address));
            topology.add(&node);
            node
        })
    }

    /// Replaces the topology by a changed copy; one change at a time.
    fn change<T>(&self, change: impl FnOnce(&mut Topology) -> T) -> T {
        let _one_at_a_time = lock(&self.changing);
        let mut topology = Topology::clone(&self.topology.load());
        let result = change(&mut topology);
        self.topology.store(Arc::new(topology));
        result
    }
}
