//! Everything that is measured, by name.

use crate::contender::Outcome::{self, Admitted, Refused};
use crate::keys::Distribution::{self, Uniform, Zipf};
use crate::keys::KeyKind;
use crate::load::{Effort, Load};
use crate::record::Measured;

/// One process of its own.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Scenario {
    Load(Load),
}

// === impl Scenario ===

impl Scenario {
    /// What the figures to reach are read from.
    pub(crate) fn quick() -> Vec<Scenario> {
        let load = |keys, kind, outcome| {
            Scenario::Load(Load {
                keys,
                kind,
                distribution: Uniform,
                outcome,
                threads: 2,
            })
        };
        vec![
            load(1_000_000, KeyKind::U64, Admitted),
            load(1_000_000, KeyKind::String, Admitted),
            load(1, KeyKind::U64, Refused),
            load(1, KeyKind::U64, Admitted),
        ]
    }

    /// Everything: the quick ones first.
    pub(crate) fn all() -> Vec<Scenario> {
        let mut all = Scenario::quick();
        let mut add = |keys: &[u64], kind, distributions: &[Distribution], threads: &[usize]| {
            for keys in keys {
                for distribution in distributions {
                    for outcome in [Admitted, Refused] {
                        all.extend(loads(*keys, kind, *distribution, outcome, threads));
                    }
                }
            }
        };
        add(&[1], KeyKind::U64, &[Uniform], &[1, 2, 8]);
        let keys = [10_000, 1_000_000, 10_000_000];
        add(&keys, KeyKind::U64, &[Uniform, Zipf], &[1, 2, 8]);
        add(&keys, KeyKind::String, &[Uniform, Zipf], &[2]);
        add(&[1_000_000], KeyKind::String, &[Uniform], &[1, 8]);
        add(&keys, KeyKind::Ip, &[Uniform, Zipf], &[2]);
        let mut names = std::collections::HashSet::new();
        all.retain(|scenario| names.insert(scenario.name()));
        all
    }

    pub(crate) fn name(&self) -> String {
        match self {
            Scenario::Load(load) => load.name(),
        }
    }

    pub(crate) fn measure(&self, effort: &Effort) -> Vec<Measured> {
        match self {
            Scenario::Load(load) => load.measure(effort),
        }
    }
}

fn loads(
    keys: u64,
    kind: KeyKind,
    distribution: Distribution,
    outcome: Outcome,
    threads: &[usize],
) -> impl Iterator<Item = Scenario> {
    threads.iter().map(move |threads| {
        Scenario::Load(Load {
            keys,
            kind,
            distribution,
            outcome,
            threads: *threads,
        })
    })
}
