#![allow(clippy::unwrap_used)]

use tollgate_behaviour::{Random, check};
use tollgate_core::Moment;

use super::*;
use crate::response_times::bucket_of;

const PACE: Pace = Pace {
    hold: Span::from_secs(30),
    sample_age_max: Span::from_secs(3),
};

/// An upstream with samples a second apart.
struct Upstream {
    trend: LoadTrend,
    settings: LoadSettings,
    seconds: u64,
    figures: LoadFigures,
}

impl Upstream {
    fn new() -> Upstream {
        Upstream {
            trend: LoadTrend::new(),
            settings: LoadSettings::default(),
            seconds: 0,
            figures: LoadFigures::default(),
        }
    }

    /// A second in which it does this. Whether there is headroom then.
    fn pass(&mut self, sample: &LoadSample) -> bool {
        self.seconds += 1;
        let now = Moment::ZERO + Span::from_secs(self.seconds);
        self.figures = self.trend.step(sample, &self.settings, PACE, now);
        self.figures.has_headroom
    }

    fn pass_times(&mut self, seconds: u64, sample: &LoadSample) {
        for _ in 0..seconds {
            self.pass(sample);
        }
    }

    fn baseline_millis(&self) -> u64 {
        self.figures.baseline_time.unwrap().as_nanos() / 1_000_000
    }
}

/// So many requests, each answered after so long.
fn answers(count: u32, millis: u64) -> LoadSample {
    let mut sample = LoadSample::empty();
    sample.times[bucket_of(Span::from_millis(millis))] = count;
    sample
}

fn with_failures(sample: LoadSample, failures: u32) -> LoadSample {
    LoadSample { failures, ..sample }
}

fn stalled(waiting: u32) -> LoadSample {
    LoadSample {
        waiting,
        ..LoadSample::empty()
    }
}

/// Requests around a time, each up to a tenth faster or slower.
fn around(random: &mut Random, count: u32, millis: u64) -> LoadSample {
    let mut sample = LoadSample::empty();
    for _ in 0..count {
        let millis = random.between(millis * 9 / 10, millis * 11 / 10);
        sample.times[bucket_of(Span::from_millis(millis))] += 1;
    }
    sample
}

#[test]
fn headroom_begins_after_the_hold_time_and_ends_when_requests_take_twice_as_long() {
    let mut upstream = Upstream::new();
    let usual = answers(100, 100);
    upstream.pass_times(30, &usual);
    assert!(!upstream.figures.has_headroom);
    assert!(upstream.pass(&usual));
    upstream.pass_times(600, &usual);
    assert!((94..=106).contains(&upstream.baseline_millis()));
    // 140 ms are below the low threshold, and 180 ms between the two.
    upstream.pass_times(10, &answers(100, 140));
    assert!(upstream.figures.has_headroom);
    upstream.pass_times(10, &answers(100, 180));
    assert!(upstream.figures.has_headroom);
    let mut seconds = 0;
    while upstream.pass(&answers(100, 400)) {
        seconds += 1;
    }
    // As soon as a tenth of the requests that count are so slow.
    assert_eq!(seconds, 1);
    // It comes back after the slow ones count no more, and the hold time.
    let mut seconds = 0;
    while !upstream.pass(&usual) {
        seconds += 1;
    }
    assert!((40..70).contains(&seconds), "{seconds}");
}

#[test]
fn errors_end_headroom_and_usual_ones_do_not() {
    let mut upstream = Upstream::new();
    upstream.pass_times(60, &with_failures(answers(995, 10), 5));
    assert!(upstream.figures.has_headroom);
    let failing = with_failures(answers(900, 10), 100);
    upstream.pass_times(20, &failing);
    assert!(!upstream.figures.has_headroom);
    // Nothing else than errors.
    upstream.pass_times(20, &with_failures(LoadSample::empty(), 50));
    assert!(!upstream.figures.has_headroom);
}

#[test]
fn an_upstream_that_fails_from_the_start_has_no_headroom() {
    let mut upstream = Upstream::new();
    for _ in 0..600 {
        // From the moment when there are enough of them.
        let has_headroom = upstream.pass(&with_failures(LoadSample::empty(), 60));
        assert!(!has_headroom);
    }
}

#[test]
fn an_overload_is_not_learned_as_usual_but_a_lasting_change_is() {
    let mut upstream = Upstream::new();
    upstream.pass_times(1200, &answers(100, 100));
    for minute in 0..60 {
        upstream.pass_times(60, &answers(100, 1000));
        assert!(!upstream.figures.has_headroom, "after {minute} minutes");
    }
    // At most ln 3 of six hours, and the hold time.
    let mut seconds = 3600;
    while !upstream.pass(&answers(100, 1000)) {
        seconds += 1;
    }
    assert!((5 * 3600..7 * 3600).contains(&seconds), "{seconds}");
    // It falls at the usual speed.
    upstream.pass_times(3 * 600, &answers(100, 100));
    assert!(upstream.baseline_millis() < 160);
}

#[test]
fn idleness_keeps_the_baseline_and_brings_headroom_back() {
    let mut upstream = Upstream::new();
    upstream.pass_times(60, &answers(100, 100));
    upstream.pass_times(10, &answers(100, 900));
    assert!(!upstream.figures.has_headroom);
    let baseline = upstream.figures.baseline_time;
    upstream.pass_times(120, &LoadSample::empty());
    assert!(upstream.figures.has_headroom);
    let kept = upstream.figures.baseline_time.unwrap().as_nanos();
    let before = baseline.unwrap().as_nanos();
    // While enough of the slow ones still counted, it has risen, but little.
    assert!(
        (before..before * 11 / 10).contains(&kept),
        "{before} {kept}"
    );
    assert_eq!(upstream.figures.recent_time, None);
    upstream.pass_times(20, &answers(100, 900));
    assert!(!upstream.figures.has_headroom);
}

#[test]
fn requests_that_nothing_answers_end_headroom_after_the_window() {
    let mut upstream = Upstream::new();
    upstream.pass_times(60, &answers(100, 20));
    let mut seconds = 0;
    while upstream.pass(&stalled(50)) {
        seconds += 1;
    }
    assert_eq!(seconds, 9);
    // A single answer shows that it works.
    upstream.pass_times(
        60,
        &LoadSample {
            waiting: 49,
            ..answers(0, 1)
        },
    );
    assert!(upstream.figures.has_headroom);
    for _ in 0..10 {
        upstream.pass_times(9, &stalled(1000));
        upstream.pass(&LoadSample {
            waiting: 1000,
            ..answers(1, 20)
        });
        assert!(upstream.figures.has_headroom);
    }
    // Requests that usually take longer than the window may do so.
    let mut slow = Upstream::new();
    slow.pass_times(60, &answers(100, 20_000));
    slow.pass_times(40, &stalled(50));
    assert!(slow.figures.has_headroom);
    slow.pass_times(5, &stalled(50));
    assert!(!slow.figures.has_headroom);
}

#[test]
fn differences_of_less_than_four_milliseconds_are_no_load() {
    let mut upstream = Upstream::new();
    upstream.settings.samples = 1;
    upstream.pass_times(60, &answers(100, 0));
    for millis in [1, 2, 3, 4] {
        upstream.pass_times(20, &answers(100, millis));
        assert!(upstream.figures.has_headroom, "{millis}");
    }
}

#[test]
fn too_few_requests_say_nothing() {
    check("few requests", 100, |random| {
        let mut upstream = Upstream::new();
        upstream.pass_times(60, &answers(100, 20));
        upstream.pass_times(300, &LoadSample::empty());
        for _ in 0..300 {
            // Never more than 45 in the window, because 10 s of 4 a second are 40 and a bit.
            let sample = match random.chance(50) {
                true => answers(4, random.between(1, 100_000)),
                false => with_failures(LoadSample::empty(), random.small(0, 4)),
            };
            assert!(upstream.pass(&sample));
            assert_eq!(upstream.figures.recent_time, None);
        }
    });
}

#[test]
fn a_load_as_usual_never_ends_headroom() {
    check("usual load", 60, |random| {
        let mut upstream = Upstream::new();
        let (millis, rate) = (random.between(5, 20_000), random.small(20, 200));
        for second in 0..900 {
            let rate = random.small(0, rate * 2);
            let failures = random.small(0, rate / 100);
            let sample = with_failures(around(random, rate, millis), failures);
            let has_headroom = upstream.pass(&sample);
            assert!(
                has_headroom || second < 60,
                "{millis} ms, {rate}/s, {second}"
            );
        }
    });
}

#[test]
fn there_is_no_headroom_while_an_overload_lasts() {
    check("overload", 60, |random| {
        let mut upstream = Upstream::new();
        let (millis, rate) = (random.between(20, 2000), random.small(20, 200));
        for _ in 0..random.between(60, 1200) {
            let sample = around(random, rate, millis);
            upstream.pass(&sample);
        }
        assert!(upstream.figures.has_headroom);
        let factor = random.between(3, 20);
        let (is_slow, is_failing) = match random.between(0, 2) {
            0 => (true, false),
            1 => (false, true),
            _ => (true, true),
        };
        for second in 0..random.between(30, 1800) {
            let millis = if is_slow { millis * factor } else { millis };
            let failures = if is_failing { rate / 4 } else { 0 };
            let sample = with_failures(around(random, rate, millis), failures);
            let has_headroom = upstream.pass(&sample);
            assert!(!has_headroom || second < 15, "after {second} s");
        }
        let mut seconds = 0;
        while !upstream.pass(&around(random, rate, millis)) {
            seconds += 1;
            assert!(seconds < 200);
        }
        assert!(seconds >= 30);
    });
}

#[test]
fn any_samples_are_judged_without_a_panic_and_with_hysteresis() {
    check("any samples", 300, |random| {
        let mut trend = LoadTrend::new();
        let settings = LoadSettings {
            samples: random.small(1, 1_000_000),
            window: Span::from_nanos(random.between(1, Span::HOUR.as_nanos())),
            baseline: Span::from_nanos(random.between(1, Span::DAY.as_nanos())),
            ..LoadSettings::default()
        };
        let mut now = Moment::from_nanos(random.any_size(u64::MAX / 2));
        let (mut ended, mut had) = (None, false);
        for _ in 0..100 {
            let mut sample = LoadSample::empty();
            for _ in 0..random.between(0, 4) {
                let bucket = bucket_of(Span::from_nanos(random.any_size(u64::MAX)));
                sample.times[bucket] = random.small(0, u32::MAX);
            }
            sample.failures = random.pick(&[0, 1, u32::MAX]);
            sample.waiting = random.pick(&[0, 1, u32::MAX]);
            let figures = trend.step(&sample, &settings, PACE, now);
            assert!(figures.recent_errors.is_none_or(|share| share <= MILLION));
            assert!(figures.baseline_errors <= MILLION);
            if had && !figures.has_headroom {
                ended = Some(now);
            } else if let (false, true, Some(ended)) = (had, figures.has_headroom, ended) {
                assert!(now.since(ended) >= PACE.hold);
            }
            had = figures.has_headroom;
            now = match random.chance(95) {
                true => now + Span::from_nanos(random.any_size(Span::SECOND.as_nanos())),
                false => now + Span::from_nanos(random.any_size(Span::DAY.as_nanos())),
            };
        }
    });
}
