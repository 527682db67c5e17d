//! Everything that is measured, by name.

use tollgate::Algorithm;

use crate::contender::Outcome::{self, Allowed, Denied};
use crate::flood::{Flood, Target};
use crate::in_turn::InTurn;
use crate::keys::Distribution::{self, Uniform, Zipf};
use crate::keys::KeyKind;
use crate::lineup::Lineup;
use crate::load::{Effort, Load};
use crate::record::Measured;
use crate::resident::{Holder, Resident};

/// What one process measures.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Scenario {
    Load(Load),
    Resident(Resident),
    Flood(Flood),
    InTurn(InTurn),
}

// === impl Scenario ===

impl Scenario {
    /// What the figures to reach are read from.
    pub(crate) fn quick() -> Vec<Scenario> {
        let load = |keys, kind, outcome| Scenario::load(keys, kind, Uniform, outcome, 2);
        let algorithms = |keys, outcome, threads| {
            Scenario::Load(Load {
                lineup: Lineup::Algorithms,
                keys,
                kind: KeyKind::U64,
                distribution: Uniform,
                outcome,
                threads,
            })
        };
        let resident = |holder, keys| Scenario::Resident(Resident { holder, keys });
        let flood = |target| {
            let new_keys = 100_000_000;
            Scenario::Flood(Flood { new_keys, target })
        };
        let log = Holder::Tollgate(Algorithm::SlidingLog, 500);
        vec![
            load(1_000_000, KeyKind::U64, Allowed),
            load(1_000_000, KeyKind::String, Allowed),
            load(1, KeyKind::U64, Denied),
            load(1, KeyKind::U64, Allowed),
            algorithms(1_000_000, Allowed, 2),
            algorithms(1, Denied, 2),
            algorithms(1, Allowed, 1),
            algorithms(1, Allowed, 2),
            resident(Holder::Tollgate(Algorithm::TokenBucket, 100), 1_000_000),
            resident(Holder::Governor, 1_000_000),
            resident(Holder::Quota, 1_000_000),
            resident(log, 100_000),
            flood(Target::Tollgate(1)),
            flood(Target::Tollgate(100)),
            flood(Target::MixedWindows),
            Scenario::InTurn(InTurn::Ready),
            Scenario::InTurn(InTurn::Queued),
        ]
    }

    /// Everything: the quick ones first.
    pub(crate) fn all() -> Vec<Scenario> {
        let mut all = Scenario::quick();
        let mut add = |keys: &[u64], kind, distributions: &[Distribution], threads: &[usize]| {
            for (keys, distribution) in product(keys, distributions) {
                for (outcome, threads) in product(&[Allowed, Denied], threads) {
                    all.push(Scenario::load(keys, kind, distribution, outcome, threads));
                }
            }
        };
        let keys = [10_000, 1_000_000, 10_000_000];
        add(&[1], KeyKind::U64, &[Uniform], &[1, 2, 8]);
        add(&keys, KeyKind::U64, &[Uniform, Zipf], &[1, 2, 8]);
        add(&keys, KeyKind::String, &[Uniform, Zipf], &[2]);
        add(&[1_000_000], KeyKind::String, &[Uniform], &[1, 8]);
        add(&keys, KeyKind::Ip, &[Uniform, Zipf], &[2]);
        for (keys, holder) in product(&[1_000_000, 10_000_000], &Holder::all()) {
            all.push(Scenario::Resident(Resident { holder, keys }));
        }
        for target in [Target::Governor, Target::Quota] {
            let new_keys = 100_000_000;
            all.push(Scenario::Flood(Flood { new_keys, target }));
        }
        let mut names = std::collections::HashSet::new();
        all.retain(|scenario| names.insert(scenario.name()));
        all
    }

    /// Lets one contender of the scenario with this name decide, in a process whose instructions
    /// are counted.
    pub(crate) fn count(name: &str, contender: &str) -> Result<(), String> {
        let all = Scenario::all();
        let found = all.iter().find(|one| one.name() == name);
        let Some(Scenario::Load(load)) = found else {
            return Err(format!("`{name}` is not a scenario that is counted"));
        };
        match load.count(contender) {
            true => Ok(()),
            false => Err(format!("`{contender}` does not take part in `{name}`")),
        }
    }

    const fn load(
        keys: u64,
        kind: KeyKind,
        distribution: Distribution,
        outcome: Outcome,
        threads: usize,
    ) -> Scenario {
        Scenario::Load(Load {
            lineup: Lineup::Peers,
            keys,
            kind,
            distribution,
            outcome,
            threads,
        })
    }

    /// What one process measures.
    pub(crate) fn name(&self) -> String {
        match self {
            Scenario::Load(load) => load.name(),
            Scenario::Resident(resident) => resident.name(),
            Scenario::Flood(flood) => flood.name(),
            Scenario::InTurn(in_turn) => in_turn.name().to_owned(),
        }
    }

    pub(crate) fn measure(&self, effort: &Effort) -> Vec<Measured> {
        match self {
            Scenario::Load(load) => load.measure(effort),
            Scenario::Resident(resident) => resident.measure(),
            Scenario::Flood(flood) => flood.measure(),
            Scenario::InTurn(in_turn) => in_turn.measure(effort),
        }
    }
}

fn product<A: Copy, B: Copy>(these: &[A], those: &[B]) -> Vec<(A, B)> {
    let pairs = these.iter().flat_map(|a| those.iter().map(|b| (*a, *b)));
    pairs.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_contenders_of_load_scenarios_are_counted() {
        let error = Scenario::count("async-ready-2t", "tollgate").expect_err("it waits");
        assert!(error.contains("not a scenario that is counted"));
        let error = Scenario::count("hot-u64-denied-2t", "nginx").expect_err("it is not a crate");
        assert!(error.contains("does not take part"));
        assert_eq!(Scenario::count("hot-u64-denied-2t", "floor"), Ok(()));
    }
}
