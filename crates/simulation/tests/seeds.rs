//! Seeds replay exactly, and those that have found defects pass.
#![allow(missing_docs, clippy::unwrap_used, clippy::tests_outside_test_module)]

use tollgate_simulation::run;

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
        let report = run(seed);
        let history = report.history.join("\n");
        assert!(
            report.broken.is_empty(),
            "seed {line}:\n{history}\n{:#?}",
            report.broken
        );
    }
}
