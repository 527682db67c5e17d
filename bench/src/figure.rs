//! Compares the measurements with the figures to reach.

use std::fmt;

use crate::record::Measured;

/// One promise about the results.
pub(crate) struct Figure {
    what: String,
    wanted: Bound,
    /// `None` if what it needs was not measured.
    got: Option<f64>,
}

#[derive(Clone, Copy)]
enum Bound {
    AtLeast(f64),
    AtMost(f64),
}

/// Finds values in the results.
struct Results<'r>(&'r [Measured]);

/// Scenario, contender, compared with, and the least ratio of their speeds.
const OF_ALGORITHMS: [(&str, &str, &str, f64); 8] = [
    (ALGORITHMS, "fixed_window", "token_bucket", 0.95),
    (ALGORITHMS, "fixed_window", "governor", 2.2),
    (ALGORITHMS, "sliding, 1", "token_bucket", 0.8),
    (ALGORITHMS, "sliding, 10", "token_bucket", 0.4),
    (ALGORITHMS, "sliding_log", "token_bucket", 0.4),
    (ALGORITHMS, "two buckets", "token_bucket", 0.45),
    (HOT_ALGORITHMS_ALONE, "two buckets", "token_bucket", 0.4),
    (HOT_ALGORITHMS, "two buckets", "token_bucket", 0.4),
];
const ALGORITHMS: &str = "algorithms-1M-u64-uniform-allowed-2t";
const HOT_ALGORITHMS_ALONE: &str = "algorithms-hot-u64-allowed-1t";
const HOT_ALGORITHMS: &str = "algorithms-hot-u64-allowed-2t";

// === impl Figure ===

/// All figures to reach.
pub(crate) fn figures(measured: &[Measured]) -> Vec<Figure> {
    let results = Results(measured);
    let mut figures = Vec::new();
    let mut ratio = |scenario: &str, ours: &str, other: &str, at_least: f64| {
        figures.push(Figure {
            what: format!("{scenario}: {ours} / {other}"),
            wanted: Bound::AtLeast(at_least),
            got: results.ratio(scenario, ours, other),
        });
    };
    let load = "1M-u64-uniform-allowed-2t";
    ratio(load, "tollgate", "governor", 3.0);
    ratio(load, "tollgate", "quota", 3.0);
    ratio(load, "tollgate", "floor-clock", 0.8);
    ratio(load, "tollgate-batch", "floor", 0.55);
    ratio("1M-string-uniform-allowed-2t", "tollgate", "governor", 2.2);
    ratio("hot-u64-denied-2t", "tollgate", "governor", 2.5);
    ratio("hot-u64-denied-2t", "tollgate", "quota", 1.0);
    ratio("hot-u64-allowed-2t", "tollgate", "governor", 1.5);
    for (scenario, ours, other, at_least) in OF_ALGORITHMS {
        ratio(scenario, ours, other, at_least);
    }
    let mut at_most = |what: &str, got: Option<f64>, most: f64| {
        figures.push(Figure {
            what: what.to_owned(),
            wanted: Bound::AtMost(most),
            got,
        });
    };
    let memory = results.find("memory-1M-token_bucket", "tollgate");
    let bytes = memory.and_then(|one| one.record.bytes_per_key);
    at_most("memory, 1M live keys: bytes a key", bytes, 24.0);
    let lost = memory.and_then(|one| one.lost_keys).map(float);
    at_most("memory, 1M live keys: keys lost", lost, 9.0);
    let log = results.find("memory-100k-sliding_log-500", "tollgate");
    let bytes = log.and_then(|one| one.record.bytes_per_key);
    at_most("sliding_log, 500 an hour: bytes a key", bytes, 3_000.0);
    let wrong = log.map(|one| {
        if one.note.starts_with("exact") {
            0.0
        } else {
            1.0
        }
    });
    at_most("sliding_log, 500 an hour: inexact", wrong, 0.0);
    for scenario in ["flood-100M-n1", "flood-100M-n100", "flood-100M-mixed"] {
        let flood = results.find(scenario, "tollgate");
        let growth = flood.and_then(|one| one.growth);
        at_most(
            &format!("{scenario}: memory at the end / when full"),
            growth,
            1.01,
        );
        let excess = flood.and_then(|one| one.excess);
        at_most(
            &format!("{scenario}: share beyond the limit"),
            excess,
            0.001,
        );
    }
    let tail = |contender| {
        let found = results.find(load, contender);
        found.and_then(|one| one.record.p9999_ns).map(float)
    };
    let tails = tail("tollgate").zip(tail("floor"));
    let tails = tails.map(|(ours, floor)| ours / floor);
    at_most(&format!("{load}: p99.99, tollgate / floor"), tails, 3.0);
    figures
}

impl fmt::Display for Figure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (sign, bound) = match self.wanted {
            Bound::AtLeast(bound) => (">=", bound),
            Bound::AtMost(bound) => ("<=", bound),
        };
        let Some(got) = self.got else {
            return write!(f, "{:<66} {sign} {bound:<8} not measured", self.what);
        };
        let missed = match self.wanted {
            Bound::AtLeast(bound) => (got < bound).then(|| 1.0 - got / bound),
            Bound::AtMost(bound) => (got > bound).then(|| got / bound - 1.0),
        };
        write!(f, "{:<66} {sign} {bound:<8} {got:<10.4}", self.what)?;
        match missed {
            None => f.write_str(" reached"),
            Some(by) if by.is_finite() => write!(f, " MISSED by {:.1} %", by * 100.0),
            Some(_) => f.write_str(" MISSED"),
        }
    }
}

// === impl Results ===

impl<'r> Results<'r> {
    fn find(&self, scenario: &str, contender: &str) -> Option<&'r Measured> {
        let mut found = self.0.iter();
        found.find(|one| one.record.scenario == scenario && one.record.contender == contender)
    }

    fn ratio(&self, scenario: &str, ours: &str, other: &str) -> Option<f64> {
        let speed = |contender| self.find(scenario, contender)?.record.ops_per_second;
        Some(speed(ours)? / speed(other)?)
    }
}

#[expect(
    clippy::as_conversions,
    reason = "exact below 2^53, which no figure here reaches"
)]
const fn float(number: u64) -> f64 {
    number as f64
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::Record;

    fn one(contender: &str, per_second: f64) -> Measured {
        Measured {
            record: Record {
                scenario: "1M-u64-uniform-allowed-2t".to_owned(),
                contender: contender.to_owned(),
                ops_per_second: Some(per_second),
                ..Record::default()
            },
            ..Measured::default()
        }
    }

    #[test]
    fn a_figure_says_whether_it_was_reached_and_by_how_much_not() {
        let measured = [
            one("tollgate", 30.0),
            one("governor", 10.0),
            one("quota", 20.0),
        ];
        let shown: Vec<String> = figures(&measured).iter().map(Figure::to_string).collect();
        assert!(shown[0].ends_with("3.0000     reached"), "{}", shown[0]);
        assert!(
            shown[1].ends_with("1.5000     MISSED by 50.0 %"),
            "{}",
            shown[1]
        );
        assert!(shown[2].ends_with("not measured"), "{}", shown[2]);
    }
}
