use tollgate_behaviour::{Random, check};

use super::*;

const THRESHOLDS: Thresholds = Thresholds {
    low: 600,
    high: 800,
};
const PACE: Pace = Pace {
    hold: Span::from_secs(10),
    sample_age_max: Span::from_secs(3),
};

fn at(seconds: u64) -> Moment {
    Moment::ZERO + Span::from_secs(seconds)
}

/// Whether there is headroom after each of these samples, a second apart.
fn run(pressures: &[Option<u32>]) -> Vec<bool> {
    let mut state = Hysteresis::default();
    let mut seconds = 0;
    let step = |pressure: &Option<u32>| {
        seconds += 1;
        state = state.step(THRESHOLDS.level(*pressure), PACE, at(seconds));
        state.has_headroom()
    };
    pressures.iter().map(step).collect()
}

#[test]
fn levels() {
    for (pressure, level) in [
        (Some(0), Level::Low),
        (Some(600), Level::Low),
        (Some(601), Level::Between),
        (Some(799), Level::Between),
        (Some(800), Level::High),
        (Some(u32::MAX), Level::High),
        (None, Level::High),
    ] {
        assert_eq!(THRESHOLDS.level(pressure), level, "{pressure:?}");
    }
    assert_eq!(Level::Low.max(Level::Between).max(Level::High), Level::High);
}

#[test]
fn headroom_begins_after_the_hold_time_and_ends_at_once() {
    let mut samples = vec![Some(100); 11];
    samples.extend([Some(700), Some(799), Some(600), Some(800), Some(100)]);
    let mut expected = vec![false; 10];
    expected.extend([true, true, true, true, false, false]);
    assert_eq!(run(&samples), expected);
}

#[test]
fn one_sample_above_the_low_threshold_starts_the_hold_time_again() {
    let mut samples = vec![Some(100); 10];
    samples.push(Some(601));
    samples.extend([Some(100); 10]);
    assert_eq!(run(&samples), [false; 21]);
}

#[test]
fn a_pressure_that_is_not_known_ends_headroom() {
    let mut samples = vec![Some(0); 11];
    samples.push(None);
    assert_eq!(run(&samples)[10..], [true, false]);
}

#[test]
fn a_pause_between_samples_ends_headroom() {
    let mut state = Hysteresis::default();
    for second in 1..=11 {
        state = state.step(Level::Low, PACE, at(second));
    }
    assert!(state.step(Level::Low, PACE, at(14)).has_headroom());
    let after = state.step(Level::Low, PACE, at(14) + Span::NANOSECOND);
    assert!(!after.has_headroom());
    // The hold time begins with that sample.
    assert_eq!(after.low_since, Some(at(14) + Span::NANOSECOND));
}

/// Samples at any distance that jump about the thresholds, as a load does that is close to them.
fn sample(random: &mut Random, now: &mut Moment) -> Option<u32> {
    *now = *now + Span::from_millis(random.between(1, 3_500));
    match random.between(0, 19) {
        0 => None,
        1 => Some(random.small(0, 2_000)),
        2..=4 => Some(random.small(550, 850)),
        _ => Some(random.small(500, 620)),
    }
}

#[test]
fn headroom_never_begins_twice_within_the_hold_time() {
    check("hysteresis", 300, |random| {
        let (mut now, mut state) = (Moment::ZERO, Hysteresis::default());
        let mut last_end: Option<Moment> = None;
        for _ in 0..300 {
            let pressure = sample(random, &mut now);
            let next = state.step(THRESHOLDS.level(pressure), PACE, now);
            match (state.has_headroom(), next.has_headroom()) {
                (false, true) => {
                    let rested = last_end.is_none_or(|end| now.since(end) >= PACE.hold);
                    assert!(rested, "it began at {now:?}, and had ended at {last_end:?}");
                }
                (true, false) => last_end = Some(now),
                _ => {}
            }
            state = next;
        }
    });
}

#[test]
fn headroom_never_goes_with_a_high_or_unknown_pressure() {
    check("hysteresis in overload", 300, |random| {
        let (mut now, mut state) = (Moment::ZERO, Hysteresis::default());
        let mut low_for = None;
        for _ in 0..300 {
            let before = now;
            let pressure = sample(random, &mut now);
            let is_low = pressure.is_some_and(|pressure| pressure <= THRESHOLDS.low);
            let goes_on = now.since(before) <= PACE.sample_age_max;
            low_for = match (is_low, low_for) {
                (false, _) => None,
                (true, Some(span)) if goes_on => Some(span + now.since(before)),
                (true, _) => Some(Span::ZERO),
            };
            let had = state.has_headroom();
            state = state.step(THRESHOLDS.level(pressure), PACE, now);
            if pressure.is_none_or(|pressure| pressure >= THRESHOLDS.high) {
                assert!(!state.has_headroom(), "{pressure:?} at {now:?}");
            }
            // It only begins after a whole hold time of low samples.
            if state.has_headroom() && !had {
                assert!(low_for.is_some_and(|span| span >= PACE.hold), "{low_for:?}");
            }
        }
    });
}

#[test]
fn headroom_comes_at_last_if_the_pressure_stays_low() {
    check("hysteresis at rest", 300, |random| {
        let (mut now, mut state) = (Moment::ZERO, Hysteresis::default());
        for _ in 0..random.between(0, 100) {
            let pressure = sample(random, &mut now);
            state = state.step(THRESHOLDS.level(pressure), PACE, now);
        }
        let until = now + PACE.hold + PACE.sample_age_max.times(2);
        while now < until {
            now = now + Span::from_millis(random.between(1, 3_000));
            state = state.step(Level::Low, PACE, now);
        }
        assert!(state.has_headroom());
    });
}
