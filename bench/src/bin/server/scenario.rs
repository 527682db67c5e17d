//! What is measured: which keys, which outcome, how many connections and requests at once.

use crate::budget::Budget;

/// Distinct keys of a load with many.
pub(crate) const KEYS: u32 = 1_000_000;
/// The loads of a short run: keys, outcome, connections, pipeline.
const QUICK: [(Keys, Budget, usize, usize); 5] = [
    (Keys::Uniform, Budget::Large, 64, 1),
    (Keys::Uniform, Budget::Large, 64, 16),
    (Keys::Uniform, Budget::Large, 64, 64),
    (Keys::Hot, Budget::Large, 64, 64),
    (Keys::Hot, Budget::Two, 64, 64),
];

/// The keys of the requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Keys {
    /// Any of [`KEYS`], each as likely as the others.
    Uniform,
    /// One.
    Hot,
}

/// One load.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Scenario {
    pub(crate) keys: Keys,
    pub(crate) budget: Budget,
    pub(crate) connections: usize,
    /// Requests that a connection sends before it waits for all of their replies.
    pub(crate) pipeline: usize,
}

// === impl Scenario ===

impl Scenario {
    /// The load at which latencies are measured, and at half of it.
    pub(crate) const UNPIPELINED: Scenario = Scenario {
        keys: Keys::Uniform,
        budget: Budget::Large,
        connections: 64,
        pipeline: 1,
    };

    /// All, in order, or the few of a short run.
    pub(crate) fn all(is_quick: bool) -> Vec<Scenario> {
        let scenario = |(keys, budget, connections, pipeline)| Scenario {
            keys,
            budget,
            connections,
            pipeline,
        };
        if is_quick {
            return QUICK.map(scenario).to_vec();
        }
        let mut all = Vec::new();
        for keys in [Keys::Uniform, Keys::Hot] {
            for budget in [Budget::Large, Budget::Two] {
                for connections in [1, 64, 512] {
                    let pipelines =
                        [1, 16, 64].map(|pipeline| (keys, budget, connections, pipeline));
                    all.extend(pipelines.map(scenario));
                }
            }
        }
        all
    }

    /// Its name, by which it can be selected.
    pub(crate) fn name(&self) -> String {
        let keys = match self.keys {
            Keys::Uniform => "uniform",
            Keys::Hot => "hot",
        };
        let outcome = match self.is_allowed() {
            true => "allowed",
            false => "denied",
        };
        let Scenario {
            connections,
            pipeline,
            ..
        } = self;
        format!("{keys}-{outcome}-c{connections}-p{pipeline}")
    }

    /// Whether its requests are allowed; else they are denied.
    pub(crate) fn is_allowed(&self) -> bool {
        self.budget == Budget::Large
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_distinct_and_a_short_run_is_a_part() {
        let names: Vec<String> = Scenario::all(false).iter().map(Scenario::name).collect();
        let distinct: std::collections::HashSet<&String> = names.iter().collect();
        assert_eq!((names.len(), distinct.len()), (36, 36));
        let quick = Scenario::all(true);
        assert!(quick.iter().all(|quick| names.contains(&quick.name())));
        assert!(quick.contains(&Scenario::UNPIPELINED));
    }
}
