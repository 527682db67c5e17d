//! Kinds of traffic.

use tollgate_core::Span;

/// When requests arrive, and which of them have the same key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// At equal distances, with each key in turn.
    Constant(Rate),
    /// At random, independent of each other, each with a random key.
    Poisson(Rate),
    /// So many at the same moment, with each key in turn, and again after each period.
    Bursts { size: u64, period: Span },
    /// At equal distances, each with a key of its own.
    NewKeys(Rate),
    /// From so many clients, each at equal distances that begin at a random moment.
    Botnet { clients: u64, rate: Rate },
}

/// So many requests in a length of time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Rate {
    pub(crate) count: u64,
    pub(crate) per: Span,
}

/// A request that arrives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Arrival {
    /// After the start of the simulation.
    pub(crate) at: Span,
    /// The number of its key.
    pub(crate) key: u64,
}

// === impl Rate ===

impl Rate {
    /// How many requests begin in this length of time.
    pub(crate) fn of(self, length: Span) -> u128 {
        let total = u128::from(self.count) * u128::from(length.as_nanos());
        total.div_ceil(u128::from(self.per.as_nanos().max(1)))
    }

    /// When the request of this number arrives, if the first one arrives at once.
    pub(crate) fn arrival(self, number: u64) -> Span {
        let nanos = u128::from(number) * u128::from(self.per.as_nanos());
        let nanos = nanos / u128::from(self.count.max(1));
        Span::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
    }
}
