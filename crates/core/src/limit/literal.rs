//! Limits written down in a program: a mistake in one is a mistake in the program.

use super::{Algorithm, InvalidLimit, Limit};
use crate::moment::Span;

/// Limits for which the numbers stand in the source.
///
/// What cannot be had is a panic here, and in a constant an error of the compiler. For numbers that
/// come from elsewhere take [`Limit::new`], [`Limit::token_bucket`] and its like,
/// [`Limit::with_burst`] and [`Limit::with_soft`], which return [`InvalidLimit`] instead.
///
/// # Example
///
/// ```
/// use tollgate_core::{Algorithm, Limit, Span};
///
/// const API: Limit = Limit::per_second(10).burst(20);
/// const LOGIN: Limit = Limit::per(3, Span::from_secs(15 * 60)).counted_by(Algorithm::SlidingLog);
/// assert_eq!(API.capacity(), 20);
/// assert_eq!(LOGIN.window(), Span::MINUTE.times(15));
/// ```
impl Limit {
    /// A token bucket of `count` tokens that refills at `count` per second.
    ///
    /// # Panics
    ///
    /// If `count` is above 10 000 000: a bucket wins back at most one unit in 100 ns. A window has
    /// no such bound; see [`Limit::counted_by`] and [`Limit::new`].
    #[track_caller]
    pub const fn per_second(count: u32) -> Limit {
        Limit::per(count, Span::SECOND)
    }

    /// A token bucket of `count` tokens that refills at `count` per minute.
    ///
    /// # Panics
    ///
    /// If `count` is above 600 000 000: a bucket wins back at most one unit in 100 ns.
    #[track_caller]
    pub const fn per_minute(count: u32) -> Limit {
        Limit::per(count, Span::MINUTE)
    }

    /// A token bucket of `count` tokens that refills at `count` per hour. Never panics.
    #[track_caller]
    pub const fn per_hour(count: u32) -> Limit {
        Limit::per(count, Span::HOUR)
    }

    /// A token bucket of `count` tokens that refills at `count` per day of 24 hours. Never panics.
    #[track_caller]
    pub const fn per_day(count: u32) -> Limit {
        Limit::per(count, Span::DAY)
    }

    /// A token bucket of `count` tokens that refills at `count` per `window`.
    ///
    /// # Panics
    ///
    /// If the window is zero or longer than 366 days, or if `count` is above one unit in 100 ns.
    /// [`Limit::token_bucket`] returns these as errors.
    #[track_caller]
    pub const fn per(count: u32, window: Span) -> Limit {
        valid(Limit::token_bucket(count, window))
    }

    /// The same bucket with room for `burst` at once (the queue of a leaky bucket).
    ///
    /// # Panics
    ///
    /// If the limit is no bucket, or if the bucket would take more than 100 years to fill.
    /// [`Limit::with_burst`] returns these as errors.
    #[track_caller]
    pub const fn burst(self, burst: u32) -> Limit {
        valid(self.with_burst(burst))
    }

    /// The same limit, admitting `percent` more of its capacity and marking what lies above.
    ///
    /// # Panics
    ///
    /// If the sum exceeds 2^32 - 1, or if the bucket would take more than 100 years to fill.
    /// [`Limit::with_soft`] returns these as errors.
    #[track_caller]
    pub const fn soft(self, percent: u32) -> Limit {
        valid(self.with_soft(percent))
    }

    /// As many units per window, counted in another way. A burst and a soft part are forgotten.
    ///
    /// # Panics
    ///
    /// If the window does not divide into the segments of a sliding window, or if a bucket would
    /// win back more than one unit in 100 ns. [`Limit::new`] returns these as errors.
    #[track_caller]
    pub const fn counted_by(self, algorithm: Algorithm) -> Limit {
        valid(Limit::new(algorithm, self.count(), self.window()))
    }
}

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
        InvalidLimit::TooLarge { .. } => panic!("with its soft part the limit exceeds 2^32 - 1"),
        InvalidLimit::NoBurst => panic!("only a bucket has a burst or a queue"),
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
    #[should_panic(expected = "1 ns to 366 days")]
    fn no_window_at_all_panics() {
        let _limit = Limit::per(1, Span::ZERO);
    }

    #[test]
    #[should_panic(expected = "within 100 years")]
    fn a_bucket_that_never_fills_panics() {
        let _limit = Limit::per_day(1).burst(36_501);
    }
}
