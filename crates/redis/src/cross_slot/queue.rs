//! Where requests wait for their round.
//!
//! Of all requests of an instance that share keys, one round is on its way at a time; who comes
//! meanwhile waits, and all who wait go into the next round together. So an instance is never in
//! its own way, and the more requests there are, the fewer calls each of them takes.
//!
//! Only requests to the same Redis nodes share a queue: a node that does not answer holds up
//! nobody who does not need it.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard};

use tollgate_core::Key;

use super::request::{Asking, Caller, Request};
use crate::fit::Fitted;
use crate::keys;
use crate::sharded::locked;

/// The most requests that wait for a round, in all queues. More are told at once that there are
/// too many.
const WAITING_MAX: usize = 16 * 1024;
/// The most requests of a round: so few that a round is over long before its requests are too old,
/// also where the processor is busy. At a distance of 5 ms that is 25 000 in a second and queue.
const REQUESTS_MAX: usize = 256;
/// The most lines of a round in one slot, beside those of its first request: a question counts
/// them in a byte.
const LINES_MAX: usize = 127;

const _: () = assert!(LINES_MAX + tollgate_core::CHARGES_MAX <= 255);

/// The queues of an instance.
#[derive(Default)]
pub(crate) struct Queues {
    inner: Mutex<Inner>,
}

#[derive(Default)]
struct Inner {
    queues: BTreeMap<u64, Queue>,
    /// Which queue a key of requests to some nodes belongs to, as long as a request for it waits or
    /// is in a round.
    owners: BTreeMap<(Nodes, Key), u64>,
    next: u64,
    waiting: usize,
}

struct Queue {
    nodes: Nodes,
    waiting: VecDeque<Member>,
    keys: Vec<Key>,
    /// Another instance was in the way of the last round.
    is_blocked: bool,
}

/// Which nodes a request needs: requests to the same ones have the same number.
pub(crate) type Nodes = u64;

/// A request, and who waits for its verdict.
pub(super) struct Member {
    pub(super) request: Request,
    pub(super) caller: Caller,
}

/// What became of a request that came.
pub(super) enum Entered {
    /// It waits for the next round of others.
    Waits,
    /// Its queue is new: somebody has to run its rounds.
    First(Turn),
    /// Too many wait.
    Full,
}

/// The right to run the rounds of one queue. Whoever still waits when it is dropped is told.
pub(super) struct Turn {
    queues: Arc<Queues>,
    id: u64,
}

/// The lines of a round that is put together, by key: all on one key have the same limit.
#[derive(Default)]
struct Selection {
    keys: BTreeMap<Key, (Fitted, Vec<Asking>)>,
    /// How many lines lie in each slot, beside those of the first request.
    lines: BTreeMap<u16, usize>,
    requests: usize,
}

// === impl Queues ===

impl Queues {
    /// Puts a request to where others for one of its keys wait, or else into a queue of its own.
    pub(super) fn enter(self: &Arc<Queues>, nodes: Nodes, member: Member) -> Entered {
        let mut inner = self.inner();
        if inner.waiting >= WAITING_MAX {
            return Entered::Full;
        }
        inner.waiting += 1;
        let is_shareable = member.request.is_shareable();
        let mut keys = member.request.asked().map(|(asking, _)| asking.key);
        let owner = is_shareable
            .then(|| keys.find_map(|key| inner.owners.get(&(nodes, key)).copied()))
            .flatten();
        drop(keys);
        let id = owner.unwrap_or(inner.next);
        if owner.is_none() {
            inner.next += 1;
            inner.queues.insert(id, Queue::new(nodes));
        }
        inner.claim(id, &member.request);
        let queue = inner.queues.get_mut(&id);
        let queue = queue.expect("an owner is a queue, until its turn ends");
        member.caller.set_blocked(queue.is_blocked);
        queue.waiting.push_back(member);
        drop(inner);
        match owner {
            Some(_) => Entered::Waits,
            None => Entered::First(Turn {
                queues: Arc::clone(self),
                id,
            }),
        }
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        locked(&self.inner)
    }
}

// === impl Inner ===

impl Inner {
    /// Has those who come for the request's keys wait in this queue, unless they wait in another.
    fn claim(&mut self, id: u64, request: &Request) {
        let Some(queue) = self.queues.get_mut(&id) else {
            return;
        };
        if !request.is_shareable() {
            return;
        }
        for (asking, _) in request.asked() {
            self.owners
                .entry((queue.nodes, asking.key))
                .or_insert_with(|| {
                    queue.keys.push(asking.key);
                    id
                });
        }
    }

    /// Takes a queue out; nobody comes to it until it is put back.
    fn remove(&mut self, id: u64) -> Option<Queue> {
        let mut queue = self.queues.remove(&id)?;
        for key in queue.keys.drain(..) {
            self.owners.remove(&(queue.nodes, key));
        }
        self.waiting -= queue.waiting.len();
        Some(queue)
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

    /// Takes out the requests of the next round: the first that came; or the last, if more wait
    /// than one round takes. Then the first ones are so old that they would be answered too late,
    /// and so would be all who come after them.
    fn select(&mut self) -> Vec<Member> {
        let mut selection = Selection::default();
        let (mut selected, mut left) = (Vec::new(), Vec::new());
        let mut waiting: Vec<Member> = std::mem::take(&mut self.waiting).into();
        waiting.retain(|member| member.caller.is_here());
        let is_overloaded = waiting.len() > REQUESTS_MAX;
        if is_overloaded {
            waiting.reverse();
        }
        for member in waiting {
            match selection.add(&member.request) {
                true => selected.push(member),
                false => left.push(member),
            }
        }
        if is_overloaded {
            left.reverse();
        }
        self.waiting = left.into();
        selected
    }
}

// === impl Turn ===

impl Turn {
    /// The requests of the next round: those of the last one that do not know yet, and whoever has
    /// come since; `is_blocked` says whether another instance was in the way. None, if nobody waits
    /// any more; then the queue is gone.
    pub(super) fn next(&self, blocked: Vec<Member>, is_blocked: bool) -> Vec<Member> {
        let mut inner = self.queues.inner();
        let Some(mut queue) = inner.remove(self.id) else {
            return Vec::new();
        };
        queue.is_blocked = is_blocked;
        for member in blocked.into_iter().rev() {
            queue.waiting.push_front(member);
        }
        let selected = queue.select();
        if selected.is_empty() {
            return selected;
        }
        let left = std::mem::take(&mut queue.waiting);
        inner.queues.insert(self.id, queue);
        for member in selected.iter().chain(&left) {
            member.caller.set_blocked(is_blocked);
            inner.claim(self.id, &member.request);
        }
        inner.waiting += left.len();
        if let Some(queue) = inner.queues.get_mut(&self.id) {
            queue.waiting = left;
        }
        selected
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        self.queues.inner().remove(self.id);
    }
}

// === impl Selection ===

impl Selection {
    /// Adds a request, if it may share a round with those that are in it: the first one may.
    fn add(&mut self, request: &Request) -> bool {
        let is_first = self.requests == 0;
        if !is_first && !self.may_share(request) {
            return false;
        }
        for (asking, fitted) in request.asked() {
            let (_, lines) = self
                .keys
                .entry(asking.key)
                .or_insert_with(|| (*fitted, Vec::new()));
            if !lines.contains(asking) {
                lines.push(*asking);
                let of_slot = self.lines.entry(keys::slot(asking.key)).or_default();
                *of_slot += usize::from(!is_first);
            }
        }
        self.requests += 1;
        true
    }

    /// Whether there is room for a request, and all its limits are those of the round.
    fn may_share(&self, request: &Request) -> bool {
        // As if all its lines were new, and lay in one slot.
        let count = request.asked().count();
        let fits = |(asking, fitted): (&Asking, &Fitted)| {
            let of_slot = self.lines.get(&keys::slot(asking.key)).unwrap_or(&0);
            let limit = self.keys.get(&asking.key).map(|(limit, _)| limit);
            limit.is_none_or(|limit| limit == fitted) && of_slot + count <= LINES_MAX
        };
        self.requests < REQUESTS_MAX && request.is_shareable() && request.asked().all(fits)
    }
}
