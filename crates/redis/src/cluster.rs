//! Which node serves which slot.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;
use std::sync::{Arc, Mutex};

use arc_swap::ArcSwap;
use tokio::sync::Notify;
use tokio::time::{Duration, sleep, timeout};

use crate::keys::SLOTS;
use crate::lane::Lane;
use crate::resp::Reply;
use crate::sharded::locked;
use crate::stats::Stats;

/// How often the map is looked at again when nothing asks for it.
const REFRESH_EVERY: Duration = Duration::from_secs(30);
/// The shortest time between two looks.
const REFRESH_PAUSE: Duration = Duration::from_millis(100);
/// How long one node may take to tell the map.
const TOLD_WITHIN: Duration = Duration::from_millis(500);
/// The most nodes of a Cluster; Redis's own bound is 1000.
const NODES_MAX: usize = 1_000;

/// A node and its lanes.
#[derive(Debug)]
pub(crate) struct Node {
    pub(crate) address: String,
    pub(crate) lanes: Vec<Lane>,
}

/// The nodes of a Cluster, as far as they are known.
pub(crate) struct Cluster {
    map: ArcSwap<Map>,
    /// Held while the map is changed.
    changing: Mutex<()>,
    /// The map is known to be wrong.
    pub(crate) stale: Notify,
    seeds: Vec<String>,
    stats: Arc<Stats>,
    open: Box<dyn Fn(&str) -> Node + Send + Sync>,
}

/// Slots that one node serves.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Range {
    /// Within [`SLOTS`].
    pub(crate) slots: RangeInclusive<usize>,
    /// `host:port`.
    pub(crate) address: String,
}

#[derive(Clone, Default)]
struct Map {
    nodes: BTreeMap<String, Arc<Node>>,
    /// For each slot the node that serves it, once it is known.
    slots: Vec<Option<Arc<Node>>>,
}

/// Reads `CLUSTER SLOTS`: for each range its ends, its master and its replicas. Ranges that make
/// no sense are left out, and those beyond one for each slot. `own_host` is the host of whoever
/// tells.
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
        // A node that does not know its own name leaves it out.
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
    /// A Cluster of which these nodes are known; `open` opens the lanes of a node.
    pub(crate) fn new(
        seeds: Vec<String>,
        stats: Arc<Stats>,
        open: impl Fn(&str) -> Node + Send + Sync + 'static,
    ) -> Cluster {
        let cluster = Cluster {
            map: ArcSwap::from_pointee(Map {
                nodes: BTreeMap::new(),
                slots: vec![None; SLOTS],
            }),
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

    /// The node that serves `slot`; any node, as long as nobody knows.
    pub(crate) fn serving(&self, slot: u16) -> Option<Arc<Node>> {
        let map = self.map.load();
        let known = map.slots.get(usize::from(slot)).and_then(Option::as_ref);
        let up = || map.nodes.values().find(|node| node.is_up());
        known.or_else(up).cloned()
    }

    /// The node at `address`, which is connected to if it is new.
    pub(crate) fn node(&self, address: &str) -> Option<Arc<Node>> {
        if let Some(node) = self.map.load().nodes.get(address) {
            return Some(Arc::clone(node));
        }
        self.change(|map| self.known(map, address))
    }

    /// A node says that `slot` is served at `address`.
    pub(crate) fn moved(&self, slot: u16, address: &str) {
        self.change(|map| {
            let node = self.known(map, address);
            if let Some(place) = map.slots.get_mut(usize::from(slot)) {
                *place = node;
            }
        });
        self.stale.notify_one();
    }

    /// Every node that serves slots.
    pub(crate) fn masters(&self) -> Vec<Arc<Node>> {
        let map = self.map.load();
        let mut masters: Vec<Arc<Node>> = map.slots.iter().flatten().cloned().collect();
        masters.sort_by(|one, other| one.address.cmp(&other.address));
        masters.dedup_by(|one, other| Arc::ptr_eq(one, other));
        masters
    }

    /// Keeps the map as it is in the Cluster; never ends.
    pub(crate) async fn keep(&self) {
        loop {
            self.refresh().await;
            sleep(REFRESH_PAUSE).await;
            let everything_served = self.map.load().slots.iter().all(Option::is_some);
            let rest = if everything_served {
                REFRESH_EVERY
            } else {
                REFRESH_PAUSE
            };
            let _due = timeout(rest, self.stale.notified()).await;
        }
    }

    /// Asks one node after the other for the map, until one tells it.
    async fn refresh(&self) {
        let mut nodes: Vec<Arc<Node>> = self.map.load().nodes.values().cloned().collect();
        nodes.sort_by_key(|node| !node.is_up());
        for node in nodes {
            let words: [&[u8]; 2] = [b"CLUSTER", b"SLOTS"];
            let asked = node.lanes[0].command(&words);
            match timeout(TOLD_WITHIN, asked).await {
                Ok(Ok(Reply::Error(said))) => {
                    let said = String::from_utf8_lossy(&said);
                    self.stats.trouble.told(&said);
                }
                Ok(Ok(reply)) if reply.elements().is_empty() => {
                    self.stats.trouble.told(&"no slot of the Cluster is served");
                }
                Ok(Ok(reply)) => {
                    self.change(|map| self.read(map, &node, &reply));
                    return;
                }
                Ok(Err(_)) | Err(_) => {}
            }
        }
    }

    /// Takes over what a node tells of all slots.
    fn read(&self, map: &mut Map, teller: &Node, reply: &Reply) {
        let mut slots: Vec<Option<Arc<Node>>> = vec![None; SLOTS];
        for range in ranges(reply, teller.host()) {
            let node = self.known(map, &range.address);
            slots[range.slots].fill(node);
        }
        // A node that nobody names any more is let go, unless it is where we begin.
        let serves =
            |node: &Arc<Node>| slots.iter().flatten().any(|other| Arc::ptr_eq(other, node));
        map.nodes
            .retain(|address, node| self.seeds.contains(address) || serves(node));
        map.slots = slots;
    }

    fn known(&self, map: &mut Map, address: &str) -> Option<Arc<Node>> {
        if let Some(node) = map.nodes.get(address) {
            return Some(Arc::clone(node));
        }
        if map.nodes.len() >= NODES_MAX {
            return None;
        }
        let node = Arc::new((self.open)(address));
        map.nodes.insert(address.to_owned(), Arc::clone(&node));
        Some(node)
    }

    fn change<T>(&self, change: impl FnOnce(&mut Map) -> T) -> T {
        let _one_at_a_time = locked(&self.changing);
        let mut map = Map::clone(&self.map.load());
        let result = change(&mut map);
        self.map.store(Arc::new(map));
        result
    }
}

// === impl Node ===

impl Node {
    pub(crate) fn is_up(&self) -> bool {
        self.lanes.iter().any(Lane::is_up)
    }

    fn host(&self) -> &str {
        self.address
            .rsplit_once(':')
            .map_or(&*self.address, |(host, _)| host)
    }
}
