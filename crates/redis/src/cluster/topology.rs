//! One state of a Cluster's topology, which is replaced as a whole.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::node::Node;
use super::ranges::Range;
use crate::keys::SLOTS;

/// The most nodes of a Cluster; Redis itself recommends at most 1000.
const NODES_MAX: usize = 1_000;
/// Stands for the node of a slot that nobody is known to serve.
const UNKNOWN: u16 = u16::MAX;

/// The known nodes, and which of them serves which slot.
///
/// Readers see one state from the beginning to the end. A copy costs 32 kB and a reference to each
/// node, so that a slot that moves while thousands of requests are in flight can be changed alone.
#[derive(Clone, Debug)]
pub(super) struct Topology {
    /// For each slot the position in `primaries` of the node that serves it, or [`UNKNOWN`].
    slots: Box<[u16]>,
    /// How many of them are unknown.
    unknown: usize,
    /// Nodes that serve slots.
    primaries: Vec<Arc<Node>>,
    /// Every known node by its address: seeds, primaries, and those named in redirections.
    nodes: Arc<BTreeMap<String, Arc<Node>>>,
}

// === impl Topology ===

impl Default for Topology {
    /// No node is known.
    fn default() -> Topology {
        Topology {
            slots: vec![UNKNOWN; SLOTS].into(),
            unknown: SLOTS,
            primaries: Vec::new(),
            nodes: Arc::default(),
        }
    }
}

impl Topology {
    /// The node that serves `slot`, once that is known.
    pub(super) fn node_of_slot(&self, slot: u16) -> Option<&Arc<Node>> {
        let position = *self.slots.get(usize::from(slot))?;
        self.primaries.get(usize::from(position))
    }

    /// Whether a node is known for each slot.
    pub(super) const fn is_complete(&self) -> bool {
        self.unknown == 0
    }

    /// The slots of which no node is known, for people, with their verb: `slots 7-9 are`.
    pub(super) fn gap(&self) -> Option<String> {
        let from = self.slots.iter().position(|node| *node == UNKNOWN)?;
        let run = self.slots[from..]
            .iter()
            .take_while(|node| **node == UNKNOWN);
        let count = run.count();
        let slots = match count {
            1 => format!("slot {from}"),
            _ => format!("slots {from}-{}", from + count - 1),
        };
        Some(match self.unknown - count {
            0 if count == 1 => format!("{slots} is"),
            0 => format!("{slots} are"),
            others => format!("{slots} and {others} more are"),
        })
    }

    /// The node at `address`, once it is known.
    pub(super) fn node(&self, address: &str) -> Option<&Arc<Node>> {
        self.nodes.get(address)
    }

    /// Every known node, ordered by address.
    pub(super) fn nodes(&self) -> impl Iterator<Item = &Arc<Node>> {
        self.nodes.values()
    }

    /// The nodes that serve slots.
    pub(super) fn primaries(&self) -> &[Arc<Node>] {
        &self.primaries
    }

    /// Whether there are fewer nodes than [`NODES_MAX`].
    pub(super) fn has_room(&self) -> bool {
        self.nodes.len() < NODES_MAX
    }

    /// Adds a node, which serves no slot yet.
    pub(super) fn add(&mut self, node: &Arc<Node>) {
        let nodes = Arc::make_mut(&mut self.nodes);
        nodes.insert(node.address.clone(), Arc::clone(node));
    }

    /// `slot` is served by `node`, or by none that is known.
    pub(super) fn move_slot(&mut self, slot: u16, node: Option<&Arc<Node>>) {
        let position = node.map_or(UNKNOWN, |node| self.position(node));
        if let Some(current) = self.slots.get_mut(usize::from(slot)) {
            self.unknown -= usize::from(*current == UNKNOWN);
            *current = position;
            self.unknown += usize::from(*current == UNKNOWN);
        }
    }

    /// Replaces what is known of the slots. Slots in no range are served by no known node, as are
    /// those of a node that was not added.
    pub(super) fn replace_slots(&mut self, ranges: &[Range]) {
        self.primaries.clear();
        self.slots.fill(UNKNOWN);
        for range in ranges {
            let node = self.nodes.get(&range.address).cloned();
            let position = node.map_or(UNKNOWN, |node| self.position(&node));
            self.slots[range.slots.clone()].fill(position);
        }
        let unknown = self.slots.iter().filter(|node| **node == UNKNOWN);
        self.unknown = unknown.count();
    }

    /// Forgets the nodes that serve no slots, but for those that `is_kept` returns true for.
    pub(super) fn forget_idle(&mut self, is_kept: impl Fn(&str) -> bool) {
        let primaries = &self.primaries;
        let serves = |node: &Arc<Node>| primaries.iter().any(|other| Arc::ptr_eq(other, node));
        let nodes = Arc::make_mut(&mut self.nodes);
        nodes.retain(|address, node| is_kept(address) || serves(node));
    }

    /// Where `node` is in `primaries`; it is added if it is not there yet.
    fn position(&mut self, node: &Arc<Node>) -> u16 {
        let is_same = |other: &Arc<Node>| Arc::ptr_eq(other, node);
        let position = self.primaries.iter().position(is_same).unwrap_or_else(|| {
            self.primaries.push(Arc::clone(node));
            self.primaries.len() - 1
        });
        u16::try_from(position).unwrap_or(UNKNOWN)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(address: &str) -> Arc<Node> {
        Arc::new(Node {
            address: address.to_owned(),
            queues: Vec::new(),
            stats: Arc::default(),
        })
    }

    /// A topology of two nodes, each of which serves half of the slots.
    fn halves() -> Topology {
        let mut topology = Topology::default();
        let half = SLOTS / 2;
        let ranges = [("a:1", 0..=half - 1), ("b:1", half..=SLOTS - 1)];
        let ranges = ranges.map(|(address, slots)| Range {
            slots,
            address: address.to_owned(),
        });
        for range in &ranges {
            topology.add(&node(&range.address));
        }
        topology.replace_slots(&ranges);
        topology
    }

    fn address(topology: &Topology, slot: usize) -> Option<&str> {
        let slot = u16::try_from(slot).expect("slots fit");
        topology
            .node_of_slot(slot)
            .map(|node| node.address.as_str())
    }

    #[test]
    fn each_slot_of_a_range_is_served_by_its_node() {
        let topology = halves();
        assert!(topology.is_complete());
        assert_eq!(address(&topology, SLOTS / 2 - 1), Some("a:1"));
        assert_eq!(address(&topology, SLOTS / 2), Some("b:1"));
        assert_eq!(address(&topology, SLOTS), None);
    }

    #[test]
    fn a_moved_slot_changes_alone_and_not_for_earlier_readers() {
        let before = halves();
        let mut after = before.clone();
        let new = node("c:1");
        after.add(&new);
        after.move_slot(7, Some(&new));
        assert_eq!(address(&after, 7), Some("c:1"));
        assert_eq!([6, 8].map(|slot| address(&after, slot)), [Some("a:1"); 2]);
        assert_eq!(address(&before, 7), Some("a:1"));
        assert!(before.node("c:1").is_none());
    }

    /// Thousands of slots can move within a second, and each of them makes a copy.
    #[test]
    fn a_copy_costs_no_reference_for_each_slot() {
        let topology = halves();
        let node = topology.node_of_slot(0).expect("each slot is served");
        let before = Arc::strong_count(node);
        let copies = [(); 10].map(|()| topology.clone());
        let added = Arc::strong_count(node) - before;
        assert!(added <= 2 * copies.len(), "{added} references");
    }

    #[test]
    fn a_slot_without_a_known_node_makes_the_topology_incomplete() {
        let mut topology = halves();
        topology.move_slot(7, None);
        assert_eq!(address(&topology, 7), None);
        assert!(!topology.is_complete());
        assert_eq!(topology.gap().as_deref(), Some("slot 7 is"));
        for slot in [8, 100, 101] {
            topology.move_slot(slot, None);
        }
        topology.move_slot(100, None);
        assert_eq!(topology.gap().as_deref(), Some("slots 7-8 and 2 more are"));
        let node = topology.nodes().next().cloned();
        for slot in [7, 8, 100, 101] {
            topology.move_slot(slot, node.as_ref());
        }
        assert!(topology.is_complete());
        assert_eq!(topology.gap(), None);
    }

    #[test]
    fn idle_nodes_are_removed_but_for_seeds() {
        let mut topology = halves();
        let all = Range {
            slots: 0..=SLOTS - 1,
            address: "b:1".to_owned(),
        };
        topology.add(&node("seed:1"));
        topology.replace_slots(&[all]);
        topology.forget_idle(|address| address == "seed:1");
        let known: Vec<&str> = topology.nodes().map(|node| node.address.as_str()).collect();
        assert_eq!(known, ["b:1", "seed:1"]);
        assert_eq!(topology.primaries().len(), 1);
    }

    #[test]
    fn slots_of_a_node_for_which_there_is_no_room_are_unknown() {
        let mut topology = Topology::default();
        for number in 0..NODES_MAX {
            assert!(topology.has_room());
            topology.add(&node(&format!("node-{number}:1")));
        }
        assert!(!topology.has_room());
        topology.replace_slots(&[Range {
            slots: 0..=9,
            address: "late:1".to_owned(),
        }]);
        assert_eq!(address(&topology, 3), None);
    }
}
