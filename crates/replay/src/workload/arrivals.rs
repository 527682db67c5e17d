//! The first attempts of a workload's requests, in order of time.

mod botnet;

mod poisson;

use tollgate_core::Span;

use crate::random::Random;
use crate::workload::kind::{Arrival, Kind, Rate};

use botnet::Botnet;
use poisson::Poisson;

/// The arrivals of a workload, in order of time.
#[derive(Debug)]
pub(crate) struct Arrivals {
    pace: Pace,
    offset: Span,
    duration: Span,
}

/// How arrivals follow each other, without an end.
#[derive(Debug)]
enum Pace {
    /// Of `keys` in turn, `burst` at a time.
    InTurn {
        rate: Rate,
        burst: u64,
        keys: u64,
        next: u64,
    },
    Poisson(Poisson),
    Botnet(Botnet),
}

// === impl Arrivals ===

impl Arrivals {
    /// Those of a kind, with so many keys if it has none of its own.
    pub(crate) fn new(
        kind: Kind,
        keys: u64,
        offset: Span,
        duration: Span,
        random: Random,
    ) -> Arrivals {
        let in_turn = |rate, burst, keys| Pace::InTurn {
            rate,
            burst,
            keys,
            next: 0,
        };
        let pace = match kind {
            Kind::Constant(rate) => in_turn(rate, 1, keys),
            Kind::NewKeys(rate) => in_turn(rate, 1, u64::MAX),
            Kind::Bursts { size, period } => {
                let rate = Rate {
                    count: 1,
                    per: period,
                };
                in_turn(rate, size, keys)
            }
            Kind::Poisson(rate) => Pace::Poisson(Poisson::new(rate, keys, random)),
            Kind::Botnet { clients, rate } => Pace::Botnet(Botnet::new(clients, rate, random)),
        };
        Arrivals {
            pace,
            offset,
            duration,
        }
    }
}

impl Iterator for Arrivals {
    type Item = Arrival;

    fn next(&mut self) -> Option<Arrival> {
        let arrival = self.pace.next();
        (arrival.at < self.duration).then(|| Arrival {
            at: self.offset + arrival.at,
            ..arrival
        })
    }
}

// === impl Pace ===

impl Pace {
    fn next(&mut self) -> Arrival {
        match self {
            Pace::Poisson(poisson) => poisson.next(),
            Pace::Botnet(botnet) => botnet.next(),
            Pace::InTurn {
                rate,
                burst,
                keys,
                next,
            } => {
                let number = *next;
                *next += 1;
                Arrival {
                    at: rate.arrival(number / (*burst).max(1)),
                    key: number % (*keys).max(1),
                }
            }
        }
    }
}
