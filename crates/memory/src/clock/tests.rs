#![allow(clippy::unwrap_used)]

use super::*;

#[test]
fn a_wall_clock_set_back_holds_the_moment_still() {
    let clock = SystemClock::new();
    let before = clock.now();
    clock.correct(before.utc - Span::HOUR);
    let held = clock.now();
    assert!(held.utc >= before.utc);
    assert!(held.utc.since(before.utc) < Span::MINUTE);
    assert!(held.steady >= before.steady);
}

#[test]
fn a_wall_clock_set_forward_counts_at_once() {
    let clock = SystemClock::new();
    let before = clock.now();
    clock.correct(before.utc + Span::HOUR);
    assert!(clock.now().utc >= before.utc + Span::HOUR);
}
