//! The kinds of faults, how often each was inflicted, and how often it had an effect.

use std::collections::BTreeMap;
use std::fmt;

/// A kind of fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum FaultKind {
    /// A caller drops its decision or its settlement.
    Cancel,
    /// A caller drops a decision over several limits before a round has charged anything for it.
    CancelRound,
    /// The same, when a round may have charged something.
    CancelConfirm,
    /// A caller drops a decision on local counts, which waits for a report or for Redis.
    CancelCount,
    /// A caller drops a decision that makes a reservation.
    CancelReserve,
    /// A caller drops a settlement.
    CancelSettle,
    /// Messages take longer.
    Delay,
    /// Nothing arrives for some time, then everything does.
    Hold,
    /// The same, and new connections hang.
    Partition,
    /// Connections break.
    Break,
    /// Connections break after some more bytes.
    Cut,
    /// A server stops reading and answering.
    Stop,
    /// An instance dies.
    Crash,
    /// An instance shuts down gracefully.
    Close,
    /// A server dies and restarts with all its keys.
    Restart,
    /// A primary dies, and its replica takes over.
    Failover,
    /// Primary and replica change places.
    Switch,
    /// The slot of a counter moves.
    Move,
    /// The Cluster is down.
    Down,
    /// A server's clock is set.
    Clock,
    /// An instance's wall clock is set.
    Wall,
    /// A server loses its scripts.
    Flush,
    /// A server has no memory left.
    Full,
}

/// How often a kind of fault happened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FaultCount {
    /// How often it was inflicted.
    pub inflicted: u64,
    /// How often its effect was seen: see [`FaultKind::effect`].
    pub effects: u64,
}

/// How often each kind of fault happened.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FaultCounts {
    counts: BTreeMap<FaultKind, FaultCount>,
}

// === impl FaultKind ===

impl FaultKind {
    /// All kinds.
    pub const ALL: [FaultKind; 23] = [
        FaultKind::Cancel,
        FaultKind::CancelRound,
        FaultKind::CancelConfirm,
        FaultKind::CancelCount,
        FaultKind::CancelReserve,
        FaultKind::CancelSettle,
        FaultKind::Delay,
        FaultKind::Hold,
        FaultKind::Partition,
        FaultKind::Break,
        FaultKind::Cut,
        FaultKind::Stop,
        FaultKind::Crash,
        FaultKind::Close,
        FaultKind::Restart,
        FaultKind::Failover,
        FaultKind::Switch,
        FaultKind::Move,
        FaultKind::Down,
        FaultKind::Clock,
        FaultKind::Wall,
        FaultKind::Flush,
        FaultKind::Full,
    ];

    /// What counts as an effect of such a fault. None of these happens without one.
    pub const fn effect(self) -> &'static str {
        match self {
            FaultKind::Cancel => "a decision or settlement was dropped before its end",
            FaultKind::CancelRound => "it was dropped while a round over several slots reserved",
            FaultKind::CancelConfirm => "it was dropped while a round over several slots confirmed",
            FaultKind::CancelCount => "a decision on local counts was dropped while it waited",
            FaultKind::CancelReserve => "a decision with a reservation was dropped while it waited",
            FaultKind::CancelSettle => "a settlement was dropped while it waited",
            FaultKind::Delay => "a message took longer than without a fault",
            FaultKind::Hold => "a message arrived and was held up",
            FaultKind::Partition => "a message was held up, or a new connection hung",
            FaultKind::Break => "an open connection broke",
            FaultKind::Cut => "a connection broke in the middle of what a server sent",
            FaultKind::Stop => "a request reached a server that had stopped",
            FaultKind::Crash => "an instance died while it was deciding",
            FaultKind::Close => "an instance sent commands while it shut down",
            FaultKind::Restart => "a server with keys was started again",
            FaultKind::Failover => "the new primary lacked a write",
            FaultKind::Switch => "a former primary replied READONLY",
            FaultKind::Move => "ASK, TRYAGAIN, or MOVED to another shard",
            FaultKind::Down => "CLUSTERDOWN",
            FaultKind::Clock => "a command on keys was executed by such a clock",
            FaultKind::Wall => "an instance with such a clock decided without Redis",
            FaultKind::Flush => "NOSCRIPT",
            FaultKind::Full => "OOM",
        }
    }
}

impl fmt::Display for FaultKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = format!("{self:?}").to_lowercase();
        f.pad(&name)
    }
}

// === impl FaultCounts ===

impl FaultCounts {
    /// How often a kind of fault happened.
    pub fn of(&self, kind: FaultKind) -> FaultCount {
        self.counts.get(&kind).copied().unwrap_or_default()
    }

    /// Adds what happened in another run.
    pub fn add(&mut self, other: &FaultCounts) {
        for (kind, count) in &other.counts {
            let sum = self.counts.entry(*kind).or_default();
            sum.inflicted += count.inflicted;
            sum.effects += count.effects;
        }
    }

    /// The kinds that were never inflicted, or never had an effect.
    pub fn find_missing(&self) -> Vec<FaultKind> {
        let is_missing = |kind: &FaultKind| {
            let count = self.of(*kind);
            count.inflicted == 0 || count.effects == 0
        };
        FaultKind::ALL.into_iter().filter(is_missing).collect()
    }

    pub(crate) fn inflict(&mut self, kind: FaultKind) {
        self.counts.entry(kind).or_default().inflicted += 1;
    }

    pub(crate) fn see_effect(&mut self, kind: FaultKind) {
        self.counts.entry(kind).or_default().effects += 1;
    }

    /// Counts an effect if there was one.
    pub(crate) fn see_effect_if(&mut self, kind: FaultKind, is_seen: bool) {
        if is_seen {
            self.see_effect(kind);
        }
    }
}
