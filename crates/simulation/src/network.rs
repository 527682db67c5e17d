//! The network between instances and servers: byte streams that delay, stall, break, and stop in
//! the middle of a message.
//!
//! Everything happens in Tokio's paused time, on one thread. A stream is ordered and bounded: as
//! with TCP, a writer waits for a peer that does not read. Half of the streams also buffer writes
//! until they are flushed, as TLS does.

mod pipe;

use std::collections::BTreeMap;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use tokio::time::{Duration, Instant, sleep};

use crate::fault_kind::{FaultCounts, FaultKind};
use crate::random::Random;

pub(crate) use pipe::End;
use pipe::Pipe;

/// The longest delay of a message without a fault, in milliseconds.
const USUAL_DELAY_MAX: u64 = 2;

/// All links and connections.
pub(crate) struct Network {
    state: Mutex<State>,
}

struct State {
    random: Random,
    links: BTreeMap<Link, Condition>,
    connections: Vec<Connection>,
    /// Effects of faults of links.
    faults: FaultCounts,
}

/// The link from an instance to a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Link {
    pub(crate) instance: usize,
    pub(crate) server: usize,
}

/// The condition of a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Condition {
    /// The longest delay of a message, in milliseconds.
    pub(crate) delay_max: u64,
    /// Nothing arrives before this moment, as when lost packets are retransmitted.
    pub(crate) held_until: Option<Instant>,
    /// New connections hang.
    pub(crate) is_silent: bool,
    /// New connections fail at once.
    pub(crate) is_rejected: bool,
}

struct Connection {
    link: Link,
    up: Weak<Pipe>,
    down: Weak<Pipe>,
}

// === impl Network ===

impl Network {
    pub(crate) fn new(random: Random) -> Arc<Network> {
        Arc::new(Network {
            state: Mutex::new(State {
                random,
                links: BTreeMap::new(),
                connections: Vec::new(),
                faults: FaultCounts::default(),
            }),
        })
    }

    /// Opens a stream: the instance's end, and the server's.
    pub(crate) async fn connect(self: &Arc<Network>, link: Link) -> io::Result<(End, End)> {
        let delay = self.delay(link);
        sleep(delay + delay).await;
        let condition = self.condition(link);
        if condition.is_rejected {
            return Err(io::ErrorKind::ConnectionRefused.into());
        }
        if condition.is_silent {
            self.see_effect(FaultKind::Partition);
            std::future::pending::<()>().await;
        }
        let (capacity, is_buffered) = {
            let mut state = self.state();
            let capacity = state.random.pick(&[2_048, 16_384, 65_536]);
            (capacity, state.random.chance(50))
        };
        let pipe = || Arc::new(Pipe::new(capacity));
        let (up, down) = (pipe(), pipe());
        self.state().connections.push(Connection {
            link,
            up: Arc::downgrade(&up),
            down: Arc::downgrade(&down),
        });
        let end = |read: &Arc<Pipe>, write: &Arc<Pipe>, is_buffered| {
            let network = Arc::clone(self);
            End::new(
                network,
                link,
                Arc::clone(read),
                Arc::clone(write),
                is_buffered,
            )
        };
        Ok((end(&down, &up, is_buffered), end(&up, &down, false)))
    }

    pub(crate) fn condition(&self, link: Link) -> Condition {
        self.state().links.get(&link).copied().unwrap_or_default()
    }

    /// Changes a link's condition and wakes the tasks that wait on the link.
    pub(crate) fn change(&self, link: Link, change: impl FnOnce(&mut Condition)) {
        change(self.state().links.entry(link).or_default());
        self.each(|at| at == link, |pipe| pipe.wake());
    }

    /// Ends all faults of links.
    pub(crate) fn heal(&self) {
        let mut state = self.state();
        for condition in state.links.values_mut() {
            *condition = Condition {
                delay_max: condition.delay_max.min(USUAL_DELAY_MAX),
                ..Condition::default()
            };
        }
        drop(state);
        self.each(|_| true, Pipe::wake);
    }

    /// Breaks the connections of links for which `is_meant` holds; returns whether there were any.
    pub(crate) fn break_all(&self, is_meant: impl Fn(Link) -> bool) -> bool {
        let has_any = self.live().iter().any(|(link, ..)| is_meant(*link));
        self.each(is_meant, Pipe::break_off);
        has_any
    }

    /// Breaks the connections of a link after their peers have sent so many more bytes.
    pub(crate) fn cut_after(self: &Arc<Network>, link: Link, bytes: usize) {
        let live = self.live();
        for (_, up, down) in live.into_iter().filter(|(at, ..)| *at == link) {
            down.cut_after(bytes, up, Arc::clone(self));
        }
    }

    /// How long the next message on this link takes.
    fn delay(&self, link: Link) -> Duration {
        let mut state = self.state();
        let most = state.links.get(&link).map_or(0, |link| link.delay_max);
        let drawn = state.random.between(0, most);
        let is_long = drawn > USUAL_DELAY_MAX;
        state.faults.see_effect_if(FaultKind::Delay, is_long);
        Duration::from_millis(drawn)
    }

    /// Effects of faults of links.
    pub(crate) fn faults(&self) -> FaultCounts {
        self.state().faults.clone()
    }

    fn see_effect(&self, kind: FaultKind) {
        self.state().faults.see_effect(kind);
    }

    fn each(&self, is_meant: impl Fn(Link) -> bool, work: impl Fn(&Pipe)) {
        for (link, up, down) in self.live() {
            if is_meant(link) {
                work(&up);
                work(&down);
            }
        }
    }

    fn live(&self) -> Vec<(Link, Arc<Pipe>, Arc<Pipe>)> {
        let mut live = Vec::new();
        self.state().connections.retain(|connection| {
            let both = connection.up.upgrade().zip(connection.down.upgrade());
            let is_live = both.is_some();
            live.extend(both.map(|(up, down)| (connection.link, up, down)));
            is_live
        });
        live
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

// === impl Condition ===

impl Default for Condition {
    fn default() -> Condition {
        Condition {
            delay_max: 1,
            held_until: None,
            is_silent: false,
            is_rejected: false,
        }
    }
}
