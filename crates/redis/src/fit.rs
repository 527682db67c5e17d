//! Which limits Redis can keep, and their values in whole microseconds.

use std::fmt;

use tollgate_core::{Algorithm, Anchor, InvalidLimit, Limit, Line, Span, StoreError};

/// The most units of a sliding log: at least 11 bytes each, and at most twice that.
pub const LOG_UNITS_MAX: u32 = 1_000_000;
/// The resolution of Redis's clock, a microsecond.
pub const GRAIN: Span = Span::from_nanos(1_000);
/// The most that rounding may lengthen a bucket's interval, in per cent.
const ROUNDING_PERCENT_MAX: u128 = 1;

/// Why Redis cannot keep a limit; the text is for the author of the limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum InvalidForRedis {
    /// The window, or a segment of it, is not a whole number of microseconds.
    Fraction {
        /// The window or the segment.
        span: Span,
    },
    /// A bucket would refill more than one unit in a microsecond.
    TooFast {
        /// Units per window, as configured.
        count: u32,
        /// The window, as configured.
        window: Span,
    },
    /// A bucket's interval, rounded up to whole microseconds, would grow by more than 1 %.
    TooCoarse {
        /// Units per window, as configured.
        count: u32,
        /// The window, as configured.
        window: Span,
        /// The units per window that Redis would allow instead.
        allows: u64,
    },
    /// A sliding log would hold more than [`LOG_UNITS_MAX`] units.
    LogTooLarge {
        /// The capacity, as configured.
        capacity: u32,
    },
    /// There is no script for the limit's algorithm.
    NoScript(Algorithm),
    /// With its interval rounded up, the limit is invalid.
    Invalid(InvalidLimit),
}

/// A limit as the scripts use it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FittedLimit {
    /// The same limit, with all times in whole microseconds.
    pub(crate) limit: Limit,
    pub(crate) kind: Kind,
    pub(crate) segments: u8,
    /// Microseconds: the interval of a bucket, a segment of a sliding window, otherwise the
    /// window.
    pub(crate) span: u64,
}

/// The first byte of a state in Redis.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Kind {
    FixedClock = 1,
    FixedFirst = 2,
    Log = 3,
    Sliding = 4,
    Token = 5,
    Leaky = 6,
}

/// Checks that Redis can keep `limit`.
///
/// Redis's clock has a resolution of one microsecond, and Lua's numbers are doubles. So windows and
/// segments must be whole microseconds, a bucket's interval must be at least one and is rounded up
/// to whole ones by at most 1 %, and a sliding log has at most [`LOG_UNITS_MAX`] units.
///
/// # Errors
///
/// [`InvalidForRedis`].
///
/// # Example
///
/// ```
/// use tollgate_core::{Limit, Span};
///
/// let fast = Limit::token_bucket(700_000, Span::SECOND)?;
/// let error = tollgate_redis::check(&fast).unwrap_err().to_string();
/// assert!(error.contains("500000 per 1s"), "{error}");
/// # Ok::<(), tollgate_core::InvalidLimit>(())
/// ```
pub fn check(limit: &Limit) -> Result<(), InvalidForRedis> {
    FittedLimit::new(limit).map(|_| ())
}

/// The error for a limit that Redis cannot keep.
pub(crate) fn unfit(invalid: InvalidForRedis) -> StoreError {
    StoreError::Unfit {
        source: Box::new(invalid),
    }
}

// === impl FittedLimit ===

impl FittedLimit {
    /// Converts a limit to microseconds, or returns why Redis cannot keep it.
    pub(crate) fn new(limit: &Limit) -> Result<FittedLimit, InvalidForRedis> {
        let (kind, segments) = match limit.algorithm() {
            Algorithm::FixedWindow(Anchor::Clock) => (Kind::FixedClock, 0),
            Algorithm::FixedWindow(Anchor::FirstRequest) => (Kind::FixedFirst, 0),
            Algorithm::SlidingLog => (Kind::Log, 0),
            Algorithm::SlidingWindow(segments) => (Kind::Sliding, segments.get()),
            Algorithm::TokenBucket => return FittedLimit::bucket(limit, Kind::Token),
            Algorithm::LeakyBucket => return FittedLimit::bucket(limit, Kind::Leaky),
            other => return Err(InvalidForRedis::NoScript(other)),
        };
        if kind == Kind::Log && limit.capacity() > LOG_UNITS_MAX {
            return Err(InvalidForRedis::LogTooLarge {
                capacity: limit.capacity(),
            });
        }
        let nanos = limit.window().as_nanos() / u64::from(segments.max(1));
        if !nanos.is_multiple_of(GRAIN.as_nanos()) {
            return Err(InvalidForRedis::Fraction {
                span: Span::from_nanos(nanos),
            });
        }
        Ok(FittedLimit {
            limit: *limit,
            kind,
            segments,
            span: nanos / GRAIN.as_nanos(),
        })
    }

    /// The limit for a request that can use all of its capacity.
    pub(crate) const fn whole(self) -> FittedLimit {
        FittedLimit {
            limit: self.limit.whole(),
            ..self
        }
    }

    /// The limit by which a line is charged, unless it is this one, which judges the line.
    pub(crate) fn wider(&self, line: &Line<'_>) -> Option<FittedLimit> {
        if line.widest() == line.charge.limit {
            return None;
        }
        // The account has this limit's algorithm.
        let wider = FittedLimit::new(line.widest()).ok();
        wider.filter(|wider| (wider.kind, wider.segments) == (self.kind, self.segments))
    }

    /// Rounds the interval of a bucket up to whole microseconds. Rejects a limit whose rate would
    /// change too much by that.
    fn bucket(limit: &Limit, kind: Kind) -> Result<FittedLimit, InvalidForRedis> {
        let Some(interval) = limit.interval() else {
            // N = 0: nothing is ever charged.
            return Ok(FittedLimit {
                limit: *limit,
                kind,
                segments: 0,
                span: 0,
            });
        };
        let (count, window) = (limit.count(), limit.window());
        if interval < GRAIN {
            return Err(InvalidForRedis::TooFast { count, window });
        }
        // Up: an inexact limit allows less, never more.
        let span = interval.as_nanos().div_ceil(GRAIN.as_nanos());
        let rounded = u128::from(span) * u128::from(GRAIN.as_nanos()) * u128::from(count);
        if rounded * 100 > u128::from(window.as_nanos()) * (100 + ROUNDING_PERCENT_MAX) {
            let allows = window.as_nanos() / (span * GRAIN.as_nanos());
            return Err(InvalidForRedis::TooCoarse {
                count,
                window,
                allows,
            });
        }
        // One unit per interval is the same bucket, and its interval is whole.
        let limit = Limit::new(limit.algorithm(), 1, GRAIN.times(span))
            .and_then(|one| one.with_burst(limit.nominal()))
            .and_then(|one| one.with_parts_of(limit))
            .map_err(InvalidForRedis::Invalid)?;
        Ok(FittedLimit {
            limit,
            kind,
            segments: 0,
            span,
        })
    }
}

// === impl Kind ===

impl Kind {
    #[expect(clippy::as_conversions, reason = "a fieldless enum of bytes")]
    pub(crate) const fn byte(self) -> u8 {
        self as u8
    }

    pub(crate) const fn is_bucket(self) -> bool {
        matches!(self, Kind::Token | Kind::Leaky)
    }
}

// === impl InvalidForRedis ===

impl std::error::Error for InvalidForRedis {}

impl fmt::Display for InvalidForRedis {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            InvalidForRedis::Fraction { span } => write!(
                f,
                "Redis counts in microseconds, and a window or segment of {span} is not a whole \
                 number of them"
            ),
            InvalidForRedis::TooFast { count, window } => write!(
                f,
                "in Redis a bucket refills at most one unit in {GRAIN}, and {count} per {window} \
                 is faster: use the store in memory, or fewer and larger units"
            ),
            InvalidForRedis::TooCoarse {
                count,
                window,
                allows,
            } => write!(
                f,
                "Redis counts in microseconds, so that {count} per {window} would become {allows} \
                 per {window}: ask for that, or for a limit that loses at most 1%"
            ),
            InvalidForRedis::LogTooLarge { capacity } => write!(
                f,
                "a sliding log of {capacity} units is above the {LOG_UNITS_MAX} that Redis keeps: \
                 use sliding_window"
            ),
            InvalidForRedis::NoScript(algorithm) => write!(f, "Redis has no {algorithm}"),
            InvalidForRedis::Invalid(invalid) => write!(f, "in whole microseconds, {invalid}"),
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn an_interval_rounds_up_by_at_most_one_per_cent() {
        let third = Limit::token_bucket(3, Span::SECOND).unwrap();
        let fitted = FittedLimit::new(&third.with_burst(7).unwrap()).unwrap();
        assert_eq!(fitted.span, 333_334);
        assert_eq!(fitted.limit.interval(), Some(Span::from_nanos(333_334_000)));
        assert_eq!(fitted.limit.capacity(), 7);
        let shared = third
            .with_burst(7)
            .unwrap()
            .with_priority_share(30)
            .unwrap();
        assert_eq!(FittedLimit::new(&shared).unwrap().limit.available(), 4);
        let fitted = FittedLimit::new(&shared.for_priority()).unwrap();
        assert_eq!(fitted.limit.available(), 7);
        assert!(fitted.limit.has_priority() && fitted.limit.priority_percent() == 30);

        let exact = Limit::token_bucket(1_000_000, Span::SECOND).unwrap();
        assert_eq!(FittedLimit::new(&exact).unwrap().span, 1);
        let faster = Limit::token_bucket(1_100_000, Span::SECOND).unwrap();
        assert!(matches!(
            check(&faster),
            Err(InvalidForRedis::TooFast { .. })
        ));
        let coarse = Limit::leaky_bucket(990_000, Span::SECOND).unwrap();
        assert!(matches!(
            check(&coarse),
            Err(InvalidForRedis::TooCoarse {
                allows: 500_000,
                ..
            })
        ));
    }

    #[test]
    fn windows_and_segments_are_whole_microseconds() {
        let short = Limit::fixed_window(1, Span::from_nanos(1_500)).unwrap();
        assert!(matches!(
            check(&short),
            Err(InvalidForRedis::Fraction { .. })
        ));
        let milli = Limit::sliding_window(1, Span::from_millis(1), 16).unwrap();
        assert_eq!(
            check(&milli).unwrap_err(),
            InvalidForRedis::Fraction {
                span: Span::from_nanos(62_500)
            }
        );
        let segments = Limit::sliding_window(1, Span::from_millis(1), 10).unwrap();
        assert_eq!(FittedLimit::new(&segments).unwrap().span, 100);
    }

    #[test]
    fn a_log_is_bounded() {
        let log = Limit::sliding_log(LOG_UNITS_MAX, Span::DAY).unwrap();
        assert_eq!(check(&log), Ok(()));
        let log = log.with_soft(1).unwrap();
        assert!(matches!(
            check(&log),
            Err(InvalidForRedis::LogTooLarge { .. })
        ));
    }
}
