//! Seeds replay exactly, and those that have found defects pass.
#![allow(missing_docs, clippy::unwrap_used, clippy::tests_outside_test_module)]

use tollgate_simulation::{
    Changes, Draws, FaultCounts, FaultKind, Report, fingerprint, run, run_with,
};

/// One seed per line, its draws, the fingerprint of its plan, and what it found.
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
        let (seed, draws, _) = parse(line);
        assert_passes(line, &run_with(seed, draws));
        if draws != Draws::All {
            assert_passes(line, &run(seed));
        }
    }
}

fn assert_passes(line: &str, report: &Report) {
    let (history, broken) = (report.history.join("\n"), &report.broken);
    assert!(broken.is_empty(), "seed {line}:\n{history}\n{broken:#?}");
}

/// A seed whose plan has changed no longer tests what it found.
#[test]
fn the_plans_of_what_was_found_are_the_same() {
    let mut changed = Vec::new();
    for line in FOUND.lines().filter(|line| !line.starts_with('#')) {
        let (seed, draws, expected) = parse(line);
        let fingerprint = format!("{:016x}", fingerprint(seed, draws));
        if fingerprint != expected {
            changed.push(format!("{line}\n    has now: {fingerprint}"));
        }
    }
    let count = changed.len();
    let all = changed.join("\n");
    assert!(
        changed.is_empty(),
        "The plans of {count} seeds in found.txt are no longer those that found a defect, so the \
         seeds are no longer regression tests. Draw what is new from a stream of its own (see \
         `Draws`). If the plans must change, put each defect back by hand, look for a seed that \
         finds it, and replace the line; if there is none, mark the line as `changed`:\n{all}"
    );
}

/// The seed, the draws and the fingerprint of a line.
fn parse(line: &str) -> (u64, Draws, &str) {
    let words: Vec<&str> = line.splitn(5, ' ').collect();
    let [seed, draws, fingerprint, plan, _] = words[..] else {
        panic!("a line of found.txt has five columns: {line}");
    };
    let is_known = ["found", "unsure", "changed"].contains(&plan);
    assert!(is_known, "{line}: the plan is not {plan}");
    (seed.parse().unwrap(), draws.parse().unwrap(), fingerprint)
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
        let effect = kind.effect();
        assert!(count.effects > 0, "{kind}: it never happened that {effect}");
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
        let others = run_with(seed, Draws::Features).changes;
        assert_eq!(others, Changes::default(), "seed {seed}");
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
