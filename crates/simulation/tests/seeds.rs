//! Seeds replay exactly, and those that have found defects pass.
#![allow(missing_docs, clippy::unwrap_used, clippy::tests_outside_test_module)]

use tollgate_simulation::{Changes, run, run_steady};

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
