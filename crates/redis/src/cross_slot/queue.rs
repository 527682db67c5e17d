//! The queues of requests that wait for their round.
//!
//! Of all requests of an instance that share keys, one round at a time is in flight. Requests that
//! arrive meanwhile wait, and go into the next round together. So an instance never blocks itself,
//! and the more requests there are, the fewer calls each of them takes. A request for keys of two
//! queues merges them.
//!
//! Only requests to the same Redis nodes share a queue: a node that does not reply delays only the
//! requests that need it.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard};

use tokio::time::{Duration, Instant};
use tollgate_core::Key;

use super::load::Load;
pub(super) use super::load::RoundTime;
use super::request::{Caller, Demand, Request};
use crate::fit::FittedLimit;
use crate::keys;
use crate::sharded::lock;

/// The most requests that wait for a round, in all queues. More are rejected at once.
const WAITING_MAX: usize = 16 * 1024;
/// The most lines of a round in one slot, not counting those of its first request: a script request
/// counts them in a byte.
const LINES_MAX: usize = 127;

/// The most sets of nodes of which the load is known while no request for them waits.
const IDLE_LOADS_MAX: usize = 64;

const _: () = assert!(LINES_MAX + tollgate_core::CHARGES_MAX <= 255);

/// The queues of an instance.
#[derive(Default)]
pub(crate) struct Queues {
    inner: Mutex<Inner>,
}

#[derive(Default)]
struct Inner {
    queues: BTreeMap<u64, Queue>,
    /// The queue of a key of requests to some nodes, as long as a request for it waits or is in a
    /// round.
    owners: BTreeMap<(Nodes, Key), u64>,
    /// The loads of nodes that have queues, and of others that had: what their rounds have measured
    /// is needed again when the next burst of requests arrives.
    loads: BTreeMap<Nodes, Load>,
    next: u64,
    waiting: usize,
}

struct Queue {
    nodes: Nodes,
    waiting: VecDeque<Member>,
    keys: Vec<Key>,
    /// Whether another instance blocked the last round.
    is_blocked: bool,
}

/// A number that identifies the set of nodes that a request needs.
pub(crate) type Nodes = u64;

/// A request, and the caller that waits for its verdict.
pub(super) struct Member {
    pub(super) request: Request,
    pub(super) caller: Caller,
}

/// The result of adding a request.
pub(super) enum Entry {
    /// It joined an existing queue.
    Joined,
    /// Its queue is new: the caller has to start the task that runs its rounds.
    New(QueueGuard),
    /// Too many requests wait.
    Full,
}

/// The right to run the rounds of one queue. When it is dropped, requests that still wait fail.
pub(super) struct QueueGuard {
    queues: Arc<Queues>,
    id: u64,
    nodes: Nodes,
}

/// The lines of a round while it is assembled, by key: all lines on one key have the same limit.
struct Selection {
    most: usize,
    keys: BTreeMap<Key, (FittedLimit, Vec<Demand>)>,
    /// The number of lines in each slot, not counting those of the first request.
    lines: BTreeMap<u16, usize>,
    requests: usize,
}

// === impl Queues ===

impl Queues {
    /// Adds a request to the queue of its keys, or else to a new one; if its nodes are busy, to any
    /// queue of these nodes.
    pub(super) fn enter(
        self: &Arc<Queues>,
        nodes: Nodes,
        member: Member,
        reply_timeout: Duration,
    ) -> Entry {
        let mut inner = self.inner();
        if inner.waiting >= WAITING_MAX {
            return Entry::Full;
        }
        let is_shareable = member.request.is_shareable();
        let owner = match is_shareable {
            true => inner.owner(nodes, &member.request),
            false => None,
        };
        let id = owner.unwrap_or(inner.next);
        let load = inner.loads.entry(nodes);
        let load = load.or_insert_with(|| Load::new(reply_timeout));
        load.waiting += 1;
        if owner.is_none() {
            load.tasks += 1;
            if is_shareable {
                load.queues.insert(id);
            }
            inner.next += 1;
            inner.queues.insert(id, Queue::new(nodes));
        }
        inner.waiting += 1;
        inner.claim(id, &member.request);
        let queue = inner.queues.get_mut(&id);
        let queue = queue.expect("an owner is a queue, until its guard is dropped");
        member.caller.set_blocked(queue.is_blocked);
        queue.waiting.push_back(member);
        drop(inner);
        match owner {
            Some(_) => Entry::Joined,
            None => Entry::New(QueueGuard {
                queues: Arc::clone(self),
                id,
                nodes,
            }),
        }
    }

    /// Whether one more request to these nodes would wait too long.
    pub(super) fn is_full(&self, nodes: Nodes) -> bool {
        let inner = self.inner();
        inner.waiting >= WAITING_MAX || inner.loads.get(&nodes).is_some_and(Load::is_full)
    }

    /// Whether requests for this key wait for a round, or are in one.
    pub(super) fn has(&self, nodes: Nodes, key: Key) -> bool {
        self.inner().owners.contains_key(&(nodes, key))
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        lock(&self.inner)
    }
}

// === impl Inner ===

impl Inner {
    /// The queue of the request's keys; any queue of its nodes if these are busy. If its keys are
    /// in several queues, these are merged.
    fn owner(&mut self, nodes: Nodes, request: &Request) -> Option<u64> {
        let of = |(demand, _): (&Demand, _)| self.owners.get(&(nodes, demand.key)).copied();
        let owners: BTreeSet<u64> = request.demands().filter_map(of).collect();
        let mut owners = owners.into_iter();
        let Some(owner) = owners.next() else {
            let load = self.loads.get(&nodes).filter(|load| load.is_busy())?;
            return load.queues.first().copied();
        };
        owners.for_each(|other| self.merge(owner, other));
        Some(owner)
    }

    /// Moves the requests that wait in the queue `from` into `into`. The task that runs the rounds
    /// of `from` finds nothing more to do.
    fn merge(&mut self, into: u64, from: u64) {
        let from_id = from;
        let Some(mut from) = self.queues.remove(&from) else {
            return;
        };
        if let Some(load) = self.loads.get_mut(&from.nodes) {
            load.queues.remove(&from_id);
        }
        let into_id = into;
        let into = self.queues.get_mut(&into);
        let into = into.expect("an owner is a queue, until its guard is dropped");
        for key in from.keys.drain(..) {
            self.owners.insert((from.nodes, key), into_id);
            into.keys.push(key);
        }
        for member in from.waiting {
            member.caller.set_blocked(into.is_blocked);
            into.waiting.push_back(member);
        }
    }

    /// Makes this queue the one of the request's keys, unless they have another.
    fn claim(&mut self, id: u64, request: &Request) {
        let Some(queue) = self.queues.get_mut(&id) else {
            return;
        };
        if !request.is_shareable() {
            return;
        }
        for (demand, _) in request.demands() {
            self.owners
                .entry((queue.nodes, demand.key))
                .or_insert_with(|| {
                    queue.keys.push(demand.key);
                    id
                });
        }
    }

    /// Removes a queue; no request joins it until it is put back.
    fn remove(&mut self, id: u64) -> Option<Queue> {
        let mut queue = self.queues.remove(&id)?;
        for key in queue.keys.drain(..) {
            self.owners.remove(&(queue.nodes, key));
        }
        self.waiting -= queue.waiting.len();
        if let Some(load) = self.loads.get_mut(&queue.nodes) {
            load.waiting -= queue.waiting.len();
            load.queues.remove(&id);
        }
        Some(queue)
    }

    /// Drops the loads of idle nodes if there are many.
    fn bound_loads(&mut self) {
        if self.loads.len() > IDLE_LOADS_MAX {
            self.loads.retain(|_, load| load.tasks > 0);
        }
    }

    /// The load of these nodes, which exists while a task runs rounds for them.
    fn load(&mut self, nodes: Nodes) -> &mut Load {
        let load = self.loads.get_mut(&nodes);
        load.expect("the load of nodes is there, until the last guard is dropped")
    }
}

// === impl Queue ===

impl Queue {
    const fn new(nodes: Nodes) -> Queue {
        Queue {
            nodes,
            waiting: VecDeque::new(),
            keys: Vec::new(),
            is_blocked: false,
        }
    }

    /// Takes the requests of the next round: the oldest, or the newest if more wait than can be
    /// answered in time. Then the oldest would miss their deadlines, and so would all after them.
    fn select(&mut self, most: usize, is_overfull: bool) -> Vec<Member> {
        let mut selection = Selection::new(most);
        let (mut selected, mut left) = (Vec::new(), Vec::new());
        let mut waiting: Vec<Member> = std::mem::take(&mut self.waiting).into();
        waiting.retain(|member| member.caller.is_waiting());
        if is_overfull {
            waiting.reverse();
        }
        for member in waiting {
            match selection.add(&member.request) {
                true => selected.push(member),
                false => left.push(member),
            }
        }
        if is_overfull {
            left.reverse();
        }
        self.waiting = left.into();
        selected
    }
}

// === impl Turn ===

impl QueueGuard {
    /// The requests of the next round: those of the last one without a verdict, and those that have
    /// arrived since; `is_blocked` says whether another instance blocked them. Empty if no request
    /// waits; then the queue is removed.
    pub(super) fn next(&self, blocked: Vec<Member>, is_blocked: bool) -> Vec<Member> {
        let mut inner = self.queues.inner();
        let load = inner.load(self.nodes);
        let (most, is_overfull) = (load.round_max(), load.is_overfull());
        // If it was merged into another one, only the blocked requests are left.
        let queue = inner.remove(self.id);
        let mut queue = queue.unwrap_or_else(|| Queue::new(self.nodes));
        queue.is_blocked = is_blocked;
        for member in blocked.into_iter().rev() {
            queue.waiting.push_front(member);
        }
        let selected = queue.select(most, is_overfull);
        if selected.is_empty() {
            return selected;
        }
        let left = std::mem::take(&mut queue.waiting);
        inner.queues.insert(self.id, queue);
        for member in &selected {
            member.caller.set_in_round(true);
        }
        for member in selected.iter().chain(&left) {
            member.caller.set_blocked(is_blocked);
            inner.claim(self.id, &member.request);
        }
        inner.waiting += left.len();
        let load = inner.load(self.nodes);
        load.waiting += left.len();
        if selected.iter().all(|one| one.request.is_shareable()) {
            load.queues.insert(self.id);
        }
        load.begin(selected.len());
        if let Some(queue) = inner.queues.get_mut(&self.id) {
            queue.waiting = left;
        }
        selected
    }

    /// Whether a round has time for a third round trip: see [`Load::is_near`].
    pub(super) fn is_near(&self) -> bool {
        self.queues.inner().load(self.nodes).is_near()
    }

    /// Ends a round of this many requests: see [`Load::end`].
    pub(super) fn end(&self, began_at: Instant, requests: usize, time: RoundTime) {
        let mut inner = self.queues.inner();
        inner.load(self.nodes).end(began_at, requests, time);
    }
}

impl Drop for QueueGuard {
    fn drop(&mut self) {
        let mut inner = self.queues.inner();
        inner.remove(self.id);
        let load = inner.load(self.nodes);
        load.tasks -= 1;
        inner.bound_loads();
    }
}

// === impl Selection ===

impl Selection {
    const fn new(most: usize) -> Selection {
        Selection {
            most,
            keys: BTreeMap::new(),
            lines: BTreeMap::new(),
            requests: 0,
        }
    }

    /// Adds a request if it may share the round, as the first one always may.
    fn add(&mut self, request: &Request) -> bool {
        let is_first = self.requests == 0;
        if !is_first && !self.may_share(request) {
            return false;
        }
        for (demand, fitted) in request.demands() {
            let (_, lines) = self
                .keys
                .entry(demand.key)
                .or_insert_with(|| (*fitted, Vec::new()));
            if !lines.contains(demand) {
                lines.push(*demand);
                let of_slot = self.lines.entry(keys::slot(demand.key)).or_default();
                *of_slot += usize::from(!is_first);
            }
        }
        self.requests += 1;
        true
    }

    /// Whether there is room for a request, and its limits are those of the round.
    fn may_share(&self, request: &Request) -> bool {
        // As if all its lines were new, and in one slot.
        let count = request.demands().count();
        let fits = |(demand, fitted): (&Demand, &FittedLimit)| {
            let of_slot = self.lines.get(&keys::slot(demand.key)).unwrap_or(&0);
            let limit = self.keys.get(&demand.key).map(|(limit, _)| limit);
            limit.is_none_or(|limit| limit == fitted) && of_slot + count <= LINES_MAX
        };
        self.requests < self.most && request.is_shareable() && request.demands().all(fits)
    }
}

#[cfg(test)]
mod tests;
