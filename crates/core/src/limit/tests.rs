#![allow(clippy::unwrap_used)]

use super::*;

/// How a limit is made, whatever its algorithm.
type Make = fn(u32, Span) -> Result<Limit, InvalidLimit>;

const ALL: [Make; 6] = [
    Limit::fixed_window,
    |count, window| Limit::new(Algorithm::FixedWindow(Anchor::FirstRequest), count, window),
    Limit::sliding_log,
    |count, window| Limit::sliding_window(count, window, 1),
    Limit::token_bucket,
    Limit::leaky_bucket,
];

#[test]
fn a_window_lasts_from_a_nanosecond_to_366_days() {
    let longer = WINDOW_MAX + Span::NANOSECOND;
    for make in ALL {
        assert_eq!(make(1, Span::ZERO), Err(InvalidLimit::Window(Span::ZERO)));
        assert_eq!(make(1, longer), Err(InvalidLimit::Window(longer)));
        assert!(make(1, WINDOW_MAX).is_ok());
        // A bucket's interval has a floor of its own.
        let shortest = make(1, Span::NANOSECOND);
        assert!(matches!(
            shortest,
            Ok(_) | Err(InvalidLimit::TooFast { .. })
        ));
    }
    assert!(Limit::sliding_log(u32::MAX, Span::NANOSECOND).is_ok());
}

#[test]
fn an_interval_is_rounded_up_and_has_a_floor() {
    let third = Limit::token_bucket(3, Span::SECOND).unwrap();
    assert_eq!(third.interval(), Some(Span::from_nanos(333_333_334)));
    let fastest = Limit::leaky_bucket(10_000_000, Span::SECOND).unwrap();
    assert_eq!(fastest.interval(), Some(INTERVAL_MIN));
    assert_eq!(
        Limit::leaky_bucket(10_000_001, Span::SECOND),
        Err(InvalidLimit::TooFast {
            count: 10_000_001,
            window: Span::SECOND,
            count_max: 10_000_000
        })
    );
}

#[test]
fn the_most_that_too_fast_names_is_possible_and_one_more_is_not() {
    for nanos in [100, 199, 200, 991, 1_000, 1_001, 123_456_789] {
        let window = Span::from_nanos(nanos);
        let Err(InvalidLimit::TooFast { count_max, .. }) = Limit::token_bucket(u32::MAX, window)
        else {
            panic!("no window this short has room for so many intervals");
        };
        let limit = Limit::token_bucket(count_max, window).unwrap();
        assert!(Limit::token_bucket(count_max + 1, window).is_err());
        // Rounding up costs at most one per cent.
        let interval = limit.interval().unwrap().as_nanos();
        assert!(u64::from(count_max) * interval * 99 <= nanos * 100);
    }
}

#[test]
fn a_bucket_fills_within_a_century() {
    let slow = Limit::token_bucket(1, WINDOW_MAX).unwrap();
    assert!(slow.with_burst(99).is_ok());
    let refill = WINDOW_MAX.times(100);
    assert_eq!(slow.with_burst(100), Err(InvalidLimit::TooSlow { refill }));
    // The soft part is filled as well.
    let soft = slow.with_burst(99).unwrap().with_soft(2);
    assert_eq!(soft, Err(InvalidLimit::TooSlow { refill }));
    assert!(slow.with_burst(u32::MAX).is_err());
}

#[test]
fn soft_is_rounded_down_and_is_no_part_of_the_limit_reported() {
    let soft = |count, percent| {
        let limit = Limit::fixed_window(count, Span::SECOND).unwrap();
        limit.with_soft(percent).unwrap()
    };
    assert_eq!(soft(100, 10).capacity(), 110);
    assert_eq!(soft(10, 20).capacity(), 12);
    assert_eq!(soft(9, 10).capacity(), 9);
    assert_eq!(soft(1, 199).capacity(), 2);
    assert_eq!(soft(0, u32::MAX).capacity(), 0);
    assert_eq!(soft(100, 10).count(), 100);
    assert_eq!(soft(100, 10).nominal(), 100);
    assert_eq!(soft(100, 10).soft_percent(), 10);
}

#[test]
fn nothing_exceeds_32_bits() {
    let all = Limit::sliding_log(u32::MAX, Span::DAY).unwrap();
    assert_eq!(all.capacity(), u32::MAX);
    for extra_percent in [1, u32::MAX] {
        let nominal = u32::MAX;
        assert_eq!(
            all.with_soft(extra_percent),
            Err(InvalidLimit::TooLarge {
                nominal,
                extra_percent
            })
        );
    }
    assert!(
        Limit::sliding_log(1, Span::DAY)
            .unwrap()
            .with_soft(u32::MAX)
            .is_ok()
    );
}

#[test]
fn burst_and_soft_come_in_any_order() {
    let bucket = Limit::leaky_bucket(4, Span::SECOND).unwrap();
    let one = bucket.with_burst(10).unwrap().with_soft(50).unwrap();
    let other = bucket.with_soft(50).unwrap().with_burst(10).unwrap();
    assert_eq!(one, other);
    assert_eq!((one.capacity(), one.nominal(), one.count()), (15, 10, 4));
    assert_eq!(one.interval(), Some(Span::from_millis(250)));
}

#[test]
fn only_a_bucket_has_a_burst() {
    for make in ALL {
        let limit = make(2, Span::SECOND).unwrap();
        match limit.is_bucket() {
            true => assert_eq!(limit.with_burst(0).unwrap().capacity(), 0),
            false => assert_eq!(limit.with_burst(3), Err(InvalidLimit::NoBurst)),
        }
    }
}

#[test]
fn none_per_window_has_no_capacity_whatever_the_burst() {
    for make in ALL {
        let limit = make(0, Span::SECOND).unwrap();
        assert_eq!((limit.capacity(), limit.interval()), (0, None));
    }
    let bucket = Limit::token_bucket(0, Span::SECOND).unwrap();
    assert_eq!(bucket.with_burst(5).unwrap().capacity(), 0);
}

#[test]
fn segments_divide_the_window() {
    assert_eq!(Segments::new(0), Err(InvalidLimit::Segments(0)));
    assert_eq!(Segments::new(61), Err(InvalidLimit::Segments(61)));
    assert_eq!(Segments::new(60).unwrap().get(), SEGMENTS_MAX);
    assert!(Limit::sliding_window(1, Span::from_nanos(60), 60).is_ok());
    let window = Span::from_nanos(100);
    let segments = 7;
    assert_eq!(
        Limit::sliding_window(1, window, segments),
        Err(InvalidLimit::Indivisible { window, segments })
    );
}

#[test]
fn only_windows_aligned_to_the_epoch_follow_utc() {
    let timelines = ALL.map(|make| make(1, Span::SECOND).unwrap().timeline());
    let (utc, monotonic) = (Timeline::Utc, Timeline::Monotonic);
    assert_eq!(
        timelines,
        [utc, monotonic, monotonic, utc, monotonic, monotonic]
    );
}

#[test]
fn every_error_says_what_and_what_instead() {
    let said = |limit: Result<Limit, InvalidLimit>| limit.unwrap_err().to_string();
    let (second, year) = (Span::SECOND, WINDOW_MAX);
    let slow = Limit::token_bucket(1, year).and_then(|limit| limit.with_burst(100));
    let slowest = Limit::token_bucket(1, year).and_then(|limit| limit.with_burst(u32::MAX));
    let large = Limit::sliding_log(u32::MAX, second).and_then(|limit| limit.with_soft(1));
    let burst = Limit::sliding_log(1, second).and_then(|limit| limit.with_burst(1));
    assert_eq!(
        [
            said(Limit::sliding_log(1, Span::ZERO)),
            said(Limit::token_bucket(20_000_000, second)),
            said(slow),
            said(slowest),
            said(Limit::sliding_window(1, second, 61)),
            said(Limit::sliding_window(1, second, 7)),
            said(large),
            said(burst),
        ],
        [
            "a window of 0s is outside 1ns to 366d",
            "a bucket refills at most one unit in 100ns: 20000000 per 1s is above its 10000000",
            "a bucket must fill within 100 years, and this one takes 36600d",
            "a bucket must fill within 100 years, and this one takes over 500",
            "61 segments are outside 1 to 60",
            "1s does not divide into 7 segments of whole nanoseconds",
            "4294967295 and 1% more exceed 4294967295",
            "only a bucket has a burst or a queue",
        ]
    );
}

#[test]
fn a_limit_is_shown_as_it_is_written() {
    let second = Span::SECOND;
    let burst = Limit::token_bucket(5, second).and_then(|limit| limit.with_burst(9));
    let queue = Limit::leaky_bucket(5, second).and_then(|limit| limit.with_burst(0));
    let first = Algorithm::FixedWindow(Anchor::FirstRequest);
    let shown = [
        (
            Limit::sliding_log(5, Span::from_secs(5_400)),
            "5 per 1h30m sliding_log",
        ),
        (Limit::fixed_window(0, second), "0 per 1s fixed_window"),
        (
            Limit::new(first, 5, second),
            "5 per 1s fixed_window from the first request",
        ),
        (
            Limit::sliding_window(5, second, 1),
            "5 per 1s sliding_window",
        ),
        (
            Limit::sliding_window(5, second, 8),
            "5 per 1s sliding_window in 8 segments",
        ),
        (Limit::token_bucket(5, second), "5 per 1s token_bucket"),
        (burst, "5 per 1s token_bucket burst 9"),
        (queue, "5 per 1s leaky_bucket queue 0"),
    ];
    for (limit, text) in shown {
        let limit = limit.unwrap();
        assert_eq!(limit.to_string(), text);
        assert_eq!(format!("{limit:?}"), text);
        let soft = limit.with_soft(10).unwrap();
        assert_eq!(soft.to_string(), format!("{text} soft 10%"));
    }
}
