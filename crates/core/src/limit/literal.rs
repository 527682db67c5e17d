//! Limits written in source code. An invalid one is a bug, so these constructors panic.

use std::time::Duration;

use super::{Algorithm, InvalidLimit, Limit, Segments};
use crate::span::Span;

/// Limits whose numbers are written in source code.
///
/// An invalid limit panics; in a constant, it does not compile. For numbers from elsewhere use
/// [`Limit::new`], [`Limit::token_bucket`] and the other fallible constructors,
/// [`Limit::with_burst`] and [`Limit::with_soft`], which return [`InvalidLimit`].
///
/// # Example
///
/// ```
/// use std::time::Duration;
/// use tollgate_core::{Algorithm, Anchor, Limit, Span};
///
/// const QUARTER: Duration = Duration::from_secs(15 * 60);
/// const API: Limit = Limit::per_second(10).burst(20);
/// const LOGIN: Limit = Limit::per(3, QUARTER).counted_by(Algorithm::SlidingLog);
/// const MAIL: Limit = Limit::per_minute(30).counted_by(Algorithm::LeakyBucket).burst(5);
/// const PAGES: Limit = Limit::per_hour(1_000).counted_by(Algorithm::sliding_window(6));
/// const TRIAL: Limit = Limit::per_day(5).counted_by(Algorithm::FixedWindow(Anchor::FirstRequest));
/// assert_eq!(API.capacity(), 20);
/// assert_eq!(LOGIN.window(), Span::MINUTE * 15);
/// ```
impl Limit {
    /// A token bucket of `count` tokens that refills at `count` per second.
    ///
    /// # Panics
    ///
    /// If `count` is above 10 000 000: a bucket refills at most one unit in 100 ns. A window has no
    /// such bound; see [`Limit::counted_by`] and [`Limit::new`].
    #[track_caller]
    pub const fn per_second(count: u32) -> Limit {
        Limit::bucket(count, Span::SECOND)
    }

    /// A token bucket of `count` tokens that refills at `count` per minute.
    ///
    /// # Panics
    ///
    /// If `count` is above 600 000 000: a bucket refills at most one unit in 100 ns.
    #[track_caller]
    pub const fn per_minute(count: u32) -> Limit {
        Limit::bucket(count, Span::MINUTE)
    }

    /// A token bucket of `count` tokens that refills at `count` per hour. Never panics.
    #[track_caller]
    pub const fn per_hour(count: u32) -> Limit {
        Limit::bucket(count, Span::HOUR)
    }

    /// A token bucket of `count` tokens that refills at `count` per day of 24 hours. Never panics.
    #[track_caller]
    pub const fn per_day(count: u32) -> Limit {
        Limit::bucket(count, Span::DAY)
    }

    /// A token bucket of `count` tokens that refills at `count` per `window`.
    ///
    /// # Panics
    ///
    /// If the window is zero or longer than 366 days, or if `count` is above one unit in 100 ns.
    /// [`Limit::token_bucket`] returns these as errors.
    #[track_caller]
    pub const fn per(count: u32, window: Duration) -> Limit {
        Limit::bucket(count, Span::from_duration(window))
    }

    /// The same bucket with room for `burst` at once (the queue of a leaky bucket).
    ///
    /// # Panics
    ///
    /// If the limit is not a bucket, or if the bucket would take more than 100 years to fill.
    /// [`Limit::with_burst`] returns these as errors.
    #[track_caller]
    pub const fn burst(self, burst: u32) -> Limit {
        valid(self.with_burst(burst))
    }

    /// The same limit with a soft part: `percent` more of its capacity is allowed and marked.
    ///
    /// # Panics
    ///
    /// If the sum exceeds 2^32 - 1, or if the bucket would take more than 100 years to fill.
    /// [`Limit::with_soft`] returns these as errors.
    #[track_caller]
    pub const fn soft(self, percent: u32) -> Limit {
        valid(self.with_soft(percent))
    }

    /// The same limit with an elastic part: `percent` more of its capacity while there is headroom.
    ///
    /// # Panics
    ///
    /// As [`Limit::soft`]. [`Limit::with_elastic`] returns these as errors.
    #[track_caller]
    pub const fn elastic(self, percent: u32) -> Limit {
        valid(self.with_elastic(percent))
    }

    /// The same limit with `percent` of it, rounded up, kept for requests with priority.
    ///
    /// # Panics
    ///
    /// If that is above 100. [`Limit::with_priority_share`] returns this as an error.
    ///
    /// # Example
    ///
    /// ```
    /// use tollgate_core::Limit;
    ///
    /// const API: Limit = Limit::per_second(10).priority_share(25);
    /// assert_eq!((API.available(), API.for_priority().available()), (7, 10));
    /// ```
    #[track_caller]
    pub const fn priority_share(self, percent: u8) -> Limit {
        valid(self.with_priority_share(percent))
    }

    /// The same units per window, counted by another algorithm. The soft or elastic part, the
    /// share for requests with priority, and the burst or queue are kept.
    ///
    /// # Panics
    ///
    /// If the window does not divide into the segments of a sliding window, if a bucket would
    /// refill more than one unit in 100 ns, or if the limit has a burst and the algorithm has none:
    /// set the burst after the algorithm. [`Limit::new`] returns the first two as errors.
    #[track_caller]
    pub const fn counted_by(self, algorithm: Algorithm) -> Limit {
        let mut limit = valid(Limit::new_const(algorithm, self.count(), self.window()));
        if self.nominal() != self.count() {
            limit = limit.burst(self.nominal());
        }
        valid(limit.with_parts_of(&self))
    }

    #[track_caller]
    const fn bucket(count: u32, window: Span) -> Limit {
        valid(Limit::new_const(Algorithm::TokenBucket, count, window))
    }
}

impl Algorithm {
    /// A sliding window of `segments` segments, from 1 to 60.
    ///
    /// # Panics
    ///
    /// If there are none, or more than 60. [`Segments::new`] returns that as an error.
    #[track_caller]
    pub const fn sliding_window(segments: u8) -> Algorithm {
        match Segments::new(segments) {
            Ok(segments) => Algorithm::SlidingWindow(segments),
            Err(_) => panic!("a sliding window has 1 to 60 segments"),
        }
    }
}

/// The limit. If it is invalid, panics and says why.
#[track_caller]
const fn valid(limit: Result<Limit, InvalidLimit>) -> Limit {
    let invalid = match limit {
        Ok(limit) => return limit,
        Err(invalid) => invalid,
    };
    // The texts of `Display`, which a constant cannot run.
    match invalid {
        InvalidLimit::Window(_) => panic!("a limit's window is 1 ns to 366 days"),
        InvalidLimit::TooFast { .. } => panic!("a bucket refills at most one unit in 100 ns"),
        InvalidLimit::TooSlow { .. } => panic!("a bucket must fill within 100 years"),
        InvalidLimit::Segments(_) => panic!("a sliding window has 1 to 60 segments"),
        InvalidLimit::Indivisible { .. } => {
            panic!("the window does not divide into segments of whole nanoseconds")
        }
        InvalidLimit::TooLarge { .. } => {
            panic!("with its soft or elastic part the limit exceeds 2^32 - 1")
        }
        InvalidLimit::NoBurst => panic!("only a bucket has a burst or a queue"),
        InvalidLimit::PriorityShare(_) => panic!("a share of a limit is at most 100 %"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn literals_are_the_limits_that_their_checked_forms_make() {
        let minute = Limit::token_bucket(100, Span::MINUTE);
        assert_eq!(Ok(Limit::per_minute(100)), minute);
        let burst = minute.and_then(|limit| limit.with_burst(7));
        assert_eq!(Ok(Limit::per_minute(100).burst(7)), burst);
        let soft = minute.and_then(|limit| limit.with_soft(10));
        assert_eq!(Ok(Limit::per_minute(100).soft(10)), soft);
        let log = Limit::sliding_log(100, Span::MINUTE);
        assert_eq!(
            Ok(Limit::per_minute(100).counted_by(Algorithm::SlidingLog)),
            log
        );
        let _never_panics = (Limit::per_hour(u32::MAX), Limit::per_day(u32::MAX));
    }

    #[test]
    #[should_panic(expected = "at most one unit in 100 ns")]
    fn a_literal_that_is_too_fast_panics() {
        let _limit = Limit::per_second(10_000_001);
    }

    #[test]
    #[should_panic(expected = "only a bucket has a burst")]
    fn a_burst_of_a_window_panics() {
        let _limit = Limit::per_second(1)
            .counted_by(Algorithm::SlidingLog)
            .burst(2);
    }

    #[test]
    fn another_algorithm_keeps_the_burst_and_the_soft_part() {
        let token = Limit::per_minute(100).burst(7).soft(50);
        let leaky = token.counted_by(Algorithm::LeakyBucket);
        assert_eq!((leaky.nominal(), leaky.capacity()), (7, 10));
        assert_eq!(leaky.counted_by(Algorithm::TokenBucket), token);
        let log = Limit::per_minute(100).soft(50);
        assert_eq!(log.counted_by(Algorithm::SlidingLog).capacity(), 150);
        let shared = log.priority_share(10);
        let log = shared.counted_by(Algorithm::SlidingLog);
        assert_eq!((log.available(), log.priority_percent()), (140, 10));
        let with_priority = shared.for_priority().counted_by(Algorithm::SlidingLog);
        assert_eq!(with_priority, log.for_priority());
    }

    #[test]
    #[should_panic(expected = "at most 100 %")]
    fn a_share_of_more_than_everything_panics() {
        let _limit = Limit::per_second(1).priority_share(101);
    }

    #[test]
    #[should_panic(expected = "only a bucket has a burst")]
    fn a_burst_does_not_disappear_in_a_window() {
        let _limit = Limit::per_minute(100)
            .burst(7)
            .counted_by(Algorithm::SlidingLog);
    }

    #[test]
    #[should_panic(expected = "1 to 60 segments")]
    fn too_many_segments_panic() {
        let _algorithm = Algorithm::sliding_window(61);
    }

    #[test]
    #[should_panic(expected = "1 ns to 366 days")]
    fn no_window_at_all_panics() {
        let _limit = Limit::per(1, Duration::ZERO);
    }

    #[test]
    #[should_panic(expected = "within 100 years")]
    fn a_bucket_that_never_fills_panics() {
        let _limit = Limit::per_day(1).burst(36_501);
    }
}
