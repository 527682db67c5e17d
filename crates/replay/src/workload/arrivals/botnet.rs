//! Many clients, each of them regular.

use tollgate_core::Span;

use crate::random::Random;
use crate::workload::kind::{Arrival, Rate};

/// Each client sends at equal distances, from a random moment of the first distance on. So all of
/// them send once in each distance, in the same order.
#[derive(Debug)]
pub(super) struct Botnet {
    rate: Rate,
    /// When each client begins, in nanoseconds, and which it is; ascending.
    starts: Vec<(u64, u64)>,
    round: u64,
    next: usize,
}

// === impl Botnet ===

impl Botnet {
    pub(super) fn new(clients: u64, rate: Rate, mut random: Random) -> Botnet {
        let distance = rate.arrival(1).as_nanos();
        let mut starts: Vec<(u64, u64)> = (0..clients)
            .map(|client| (random.below(distance), client))
            .collect();
        starts.sort_unstable();
        Botnet {
            rate,
            starts,
            round: 0,
            next: 0,
        }
    }

    pub(super) fn next(&mut self) -> Arrival {
        if self.next == self.starts.len() {
            self.next = 0;
            self.round += 1;
        }
        let (start, client) = self.starts[self.next];
        self.next += 1;
        Arrival {
            at: self.rate.arrival(self.round) + Span::from_nanos(start),
            key: client,
        }
    }
}
