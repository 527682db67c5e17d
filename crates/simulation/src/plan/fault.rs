//! The faults of a run.

use super::{Setup, index};
use crate::deployment::Topology;
use crate::fault_kind::FaultKind;
use crate::random::Random;

/// The most milliseconds by which a replica is behind its primary.
pub(crate) const LAG_MAX_MS: u64 = 200;

/// The kinds of faults. Each run has only some of them, because faults excuse wrong decisions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Faults(u32);

/// One fault, and for how many milliseconds.
#[derive(Clone, Debug)]
pub(crate) enum Fault {
    /// Messages on a link take up to so long.
    Delay {
        instance: usize,
        shard: usize,
        most: u64,
        lasts: u64,
    },
    /// Nothing arrives on a link for some time, as when packets are lost; then everything does.
    Hold {
        instance: usize,
        shard: usize,
        lasts: u64,
    },
    /// Nothing arrives, and new connections hang.
    Partition {
        instance: usize,
        shard: usize,
        lasts: u64,
    },
    /// Connections break at once.
    Break { instance: usize, shard: usize },
    /// Connections break in the middle of the server's replies.
    Cut {
        instance: usize,
        shard: usize,
        bytes: usize,
    },
    /// A server stops reading and answering.
    Stop { shard: usize, lasts: u64 },
    /// An instance dies, and another one takes its place.
    Crash { instance: usize, lasts: u64 },
    /// An instance shuts down gracefully, and another one takes its place.
    Close { instance: usize },
    /// A server dies and restarts with all its keys.
    Restart { shard: usize, lasts: u64 },
    /// A primary dies, and its replica, which is so far behind, takes over.
    Failover { shard: usize, lag: u64, lasts: u64 },
    /// A planned failover: primary and replica change places.
    Switch { shard: usize, lag: u64 },
    /// The slot of a counter moves.
    Move {
        counter: usize,
        to: usize,
        lasts: u64,
    },
    /// A server's clock is set by so many microseconds.
    Clock { shard: usize, micros: i64 },
    /// An instance's wall clock is set by so many nanoseconds.
    Wall { instance: usize, nanos: i64 },
    /// A server loses its scripts.
    Flush { shard: usize },
    /// A server has no memory left.
    Full { shard: usize, lasts: u64 },
    /// The Cluster is down.
    Down { lasts: u64 },
}

// === impl Fault ===

impl Fault {
    /// What kind of fault this is, for counts by kind.
    pub(crate) const fn kind(&self) -> FaultKind {
        match self {
            Fault::Delay { .. } => FaultKind::Delay,
            Fault::Hold { .. } => FaultKind::Hold,
            Fault::Partition { .. } => FaultKind::Partition,
            Fault::Break { .. } => FaultKind::Break,
            Fault::Cut { .. } => FaultKind::Cut,
            Fault::Stop { .. } => FaultKind::Stop,
            Fault::Crash { .. } => FaultKind::Crash,
            Fault::Close { .. } => FaultKind::Close,
            Fault::Restart { .. } => FaultKind::Restart,
            Fault::Failover { .. } => FaultKind::Failover,
            Fault::Switch { .. } => FaultKind::Switch,
            Fault::Move { .. } => FaultKind::Move,
            Fault::Clock { .. } => FaultKind::Clock,
            Fault::Wall { .. } => FaultKind::Wall,
            Fault::Flush { .. } => FaultKind::Flush,
            Fault::Full { .. } => FaultKind::Full,
            Fault::Down { .. } => FaultKind::Down,
        }
    }
}

// === impl Faults ===

impl Faults {
    pub(crate) const NONE: Faults = Faults(0);
    pub(crate) const CANCEL: u32 = 0;
    const DELAY: u32 = 1;
    const HOLD: u32 = 2;
    const BREAK: u32 = 3;
    const STOP: u32 = 4;
    const CRASH: u32 = 5;
    const RESTART: u32 = 6;
    const FAILOVER: u32 = 7;
    const MOVE: u32 = 8;
    const CLOCK: u32 = 9;
    const FULL: u32 = 10;
    const CLOSE: u32 = 11;
    /// The number of kinds; the last one is that a server loses its scripts.
    const KINDS: u32 = 13;

    /// Draws none to a few kinds.
    pub(crate) fn draw(random: &mut Random) -> Faults {
        let mut faults = Faults(0);
        for _ in 0..random.pick(&[0, 1, 1, 1, 2, 2, 3, 5]) {
            faults.0 |= 1 << random.small(0, Faults::KINDS - 1);
        }
        if random.chance(25) {
            faults.0 |= 1 << Faults::CANCEL;
        }
        faults
    }

    pub(crate) const fn has(self, kind: u32) -> bool {
        self.0 & 1 << kind != 0
    }

    /// Draws one fault of these kinds.
    pub(crate) fn pick(self, random: &mut Random, setup: &Setup, counters: usize) -> Option<Fault> {
        let kinds: Vec<u32> = (1..Faults::KINDS).filter(|kind| self.has(*kind)).collect();
        if kinds.is_empty() {
            return None;
        }
        let is_cluster = setup.topology == Topology::Cluster;
        let instance = index(random, setup.instances);
        let shard = index(random, if is_cluster { 3 } else { 1 });
        let lasts = random.pick(&[5, 30, 200, 800, 1_500]);
        let lag = random.pick(&[0, 1, 10, LAG_MAX_MS]);
        Some(match random.pick(&kinds) {
            Faults::DELAY => {
                let most = random.pick(&[3, 8, 30, 200]);
                Fault::Delay {
                    instance,
                    shard,
                    most,
                    lasts,
                }
            }
            Faults::HOLD if random.chance(50) => Fault::Partition {
                instance,
                shard,
                lasts,
            },
            Faults::HOLD => Fault::Hold {
                instance,
                shard,
                lasts,
            },
            Faults::BREAK if random.chance(50) => Fault::Break { instance, shard },
            Faults::BREAK => {
                let bytes = index(random, 400);
                Fault::Cut {
                    instance,
                    shard,
                    bytes,
                }
            }
            Faults::STOP => Fault::Stop { shard, lasts },
            Faults::CRASH => Fault::Crash { instance, lasts },
            Faults::RESTART => Fault::Restart { shard, lasts },
            Faults::FAILOVER if random.chance(50) => Fault::Switch { shard, lag },
            Faults::FAILOVER => Fault::Failover { shard, lag, lasts },
            Faults::MOVE if is_cluster && random.chance(20) => Fault::Down { lasts },
            Faults::MOVE if is_cluster => {
                let counter = index(random, counters);
                Fault::Move {
                    counter,
                    to: shard,
                    lasts,
                }
            }
            Faults::CLOCK => draw_jump(random, instance, shard),
            Faults::FULL => Fault::Full { shard, lasts },
            Faults::CLOSE => Fault::Close { instance },
            _ => Fault::Flush { shard },
        })
    }
}

fn draw_jump(random: &mut Random, instance: usize, shard: usize) -> Fault {
    let micros = random.pick(&[1, 900, 500_000, 10_000_000, 4_000_000_000]);
    let micros = if random.chance(50) { micros } else { -micros };
    match random.chance(70) {
        true => Fault::Clock { shard, micros },
        false => {
            let nanos = micros * 1_000;
            Fault::Wall { instance, nanos }
        }
    }
}
