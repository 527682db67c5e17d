//! Seeds replay exactly, and those that have found defects pass.
#![allow(missing_docs, clippy::unwrap_used, clippy::tests_outside_test_module)]

use tollgate_simulation::{Changes, FaultCounts, FaultKind, run, run_steady};

/// One seed per line, and what it found.
const FOUND: &str = include_str!("found.txt");

#[test]
fn a_seed_replays_exactly() {
    for seed in 0..20 {
        let (first, second) = (run(seed), run(seed));
        assert_eq!(first.history, second.history, "seed {seed}");
        assert_eq!(first, second, "seed {seed}");
    }
}

/// A seed replays exactly on another thread, after other runs.
#[test]
fn a_seed_replays_on_another_thread() {
    let first = run(7);
    let second = std::thread::spawn(|| {
        run(8);
        run(7)
    });
    assert_eq!(first, second.join().unwrap());
}

#[test]
fn what_was_found_stays_fixed() {
    for line in FOUND.lines().filter(|line| !line.starts_with('#')) {
        let seed = line.split(' ').next().unwrap().parse().unwrap();
        for report in [run(seed), run_steady(seed)] {
            let history = report.history.join("\n");
            assert!(
                report.broken.is_empty(),
                "seed {line}:\n{history}\n{:#?}",
                report.broken
            );
        }
    }
}

/// And what counts as the effect of a fault does not happen without one.
#[test]
fn every_kind_of_fault_happens_and_has_an_effect() {
    let mut sum = FaultCounts::default();
    for seed in 0..200 {
        let faults = run(seed).faults;
        for kind in FaultKind::ALL {
            let count = faults.of(kind);
            // A primary that is down, and was to be replaced, may be started again before.
            let is_failover =
                kind == FaultKind::Switch && faults.of(FaultKind::Failover).inflicted > 0;
            let is_explained = count.inflicted > 0 || count.effects == 0 || is_failover;
            assert!(is_explained, "seed {seed}: {kind}: {count:?}");
        }
        sum.add(&faults);
    }
    for kind in FaultKind::ALL {
        let count = sum.of(kind);
        assert!(count.inflicted > 0, "{kind} was never inflicted");
    }
    assert_eq!(sum.find_missing(), []);
}

#[test]
fn reloads_change_more_than_limits() {
    let mut sum = Changes::default();
    for seed in 0..60 {
        let changes = run(seed).changes;
        sum.modes += changes.modes;
        sum.on_store_errors += changes.on_store_errors;
        sum.removed += changes.removed;
        sum.added += changes.added;
        sum.replacements += changes.replacements;
        sum.without_rule += changes.without_rule;
        sum.replaced += changes.replaced;
        sum.kept_for_priority += changes.kept_for_priority;
        sum.denied_without_headroom += changes.denied_without_headroom;
        sum.allowed_with_headroom += changes.allowed_with_headroom;
        sum.settled_below += changes.settled_below;
        sum.settled_above += changes.settled_above;
        assert_eq!(run_steady(seed).changes, Changes::default(), "seed {seed}");
    }
    let Changes {
        modes,
        on_store_errors,
        removed,
        added,
        replacements,
        without_rule,
        replaced,
        kept_for_priority,
        denied_without_headroom,
        allowed_with_headroom,
        settled_below,
        settled_above,
    } = sum;
    let all = [
        modes,
        on_store_errors,
        removed,
        added,
        replacements,
        without_rule,
        replaced,
        kept_for_priority,
        denied_without_headroom,
        allowed_with_headroom,
        settled_below,
        settled_above,
    ];
    assert!(all.iter().all(|count| *count > 0), "{sum:?}");
}
