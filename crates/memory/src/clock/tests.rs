#![allow(clippy::unwrap_used)]

use super::*;

/// A clock that does not read the wall clock by itself, however long the test is suspended.
fn undisturbed() -> SystemClock {
    let clock = SystemClock::new();
    clock.next_reading.store(u64::MAX, Ordering::Relaxed);
    clock
}

/// By how much what UTC shows differs from what the wall clock was set to.
fn error_after(step: impl Fn(Moment) -> Moment) -> [Span; 2] {
    let clock = undisturbed();
    let before = clock.now();
    let wall = step(before.utc);
    clock.correct(|| wall);
    let after = clock.now();
    assert!(after.monotonic >= before.monotonic);
    // What passed since the reading, and a test that was suspended for a moment.
    let passed = after.monotonic.since(before.monotonic) + SLACK;
    let ahead = after.utc.since(wall).minus(passed);
    let behind = wall.since(after.utc);
    [ahead, behind]
}

#[test]
fn a_small_step_back_holds_the_moment_still() {
    let clock = undisturbed();
    let before = clock.now();
    for back in [10, 500, 900] {
        clock.correct(|| before.utc - Span::from_millis(back));
        assert!(clock.now().utc >= before.utc, "{back} ms");
    }
    assert!(clock.now().monotonic >= before.monotonic);
}

#[test]
fn a_large_step_back_is_followed() {
    for back in [Span::from_secs(2), Span::HOUR, Span::DAY] {
        assert_eq!(
            error_after(|utc| utc - back),
            [Span::ZERO; 2],
            "{back} back"
        );
    }
}

/// However often it is set back, UTC is never ahead of the wall clock by more than a second.
#[test]
fn small_steps_back_do_not_add_up() {
    let clock = undisturbed();
    let mut wall = clock.now().utc;
    for _ in 0..10 {
        wall = wall - Span::from_millis(700);
        let before = clock.monotonic.now();
        clock.correct(|| wall);
        let now = clock.now();
        let passed = now.monotonic.since(before);
        assert!(now.utc <= wall + ABSORBED_MAX + SLACK + passed);
    }
}

#[test]
fn a_step_forward_counts_at_once() {
    for forward in [Span::NANOSECOND, Span::SECOND, Span::HOUR, Span::DAY] {
        assert_eq!(
            error_after(|utc| utc + forward),
            [Span::ZERO; 2],
            "{forward}"
        );
    }
}

/// The clock is the wall clock's after a step back, and then goes on by itself.
#[test]
fn a_step_back_and_forth_leaves_nothing_behind() {
    let clock = undisturbed();
    let before = clock.now();
    clock.correct(|| before.utc - Span::DAY);
    clock.correct(|| before.utc + Span::DAY);
    clock.correct(|| before.utc - Span::HOUR);
    let after = clock.now().utc;
    assert!(after >= before.utc - Span::HOUR);
    assert!(after < before.utc);
}

/// A thread that is suspended between the readings of both clocks does not know which moment of the
/// counter the wall clock's belongs to: UTC changes only if the wall clock was set.
#[test]
fn a_suspended_reading_sets_nothing_back() {
    let suspended = ABSORBED_MAX + Span::from_millis(100);
    for (forward, back) in [(0, 0), (0, 60), (60, 0)] {
        let clock = undisturbed();
        let before = clock.now();
        let wall = before.utc + Span::from_secs(forward) - Span::from_secs(back);
        clock.correct(|| {
            while clock.monotonic.now().since(before.monotonic) < suspended {
                std::thread::yield_now();
            }
            wall
        });
        let after = clock.now();
        let passed = after.monotonic.since(before.monotonic);
        let case = format!("{forward} s forward, {back} s back");
        assert!(after.utc >= wall && after.utc <= wall + passed, "{case}");
        if forward == back {
            assert_eq!(after.utc.since(before.utc), passed);
        }
    }
}

/// In 2554 a moment no longer holds the time. Nothing overflows: the clock stands still.
#[test]
fn a_wall_clock_beyond_all_moments_stands_still() {
    let clock = undisturbed();
    clock.correct(|| Moment::from_nanos(u64::MAX));
    assert!(clock.now().utc >= Moment::from_nanos(u64::MAX) - Span::DAY);
    clock.correct(|| Moment::from_nanos(u64::MAX));
    assert!(clock.now().utc >= Moment::from_nanos(u64::MAX) - Span::DAY);
}

#[test]
fn a_manual_clock_stops_at_the_last_moment() {
    let clock = ManualClock::at(Moment::from_nanos(u64::MAX - 7));
    clock.advance(Span::HOUR);
    assert_eq!(clock.now(), Now::at(Moment::from_nanos(u64::MAX)));
}
