//! A limit: the number of units allowed in a window. Valid by construction.

mod extra;

mod invalid;

mod literal;

mod parse;

mod priority;

mod text;

use crate::moment::Timeline;
use crate::span::Span;

pub use invalid::InvalidLimit;
pub use parse::ParseLimitError;

/// The longest window: 366 days.
pub const WINDOW_MAX: Span = Span::DAY.times(366);
/// The shortest interval of a bucket: the time to refill one unit. Rounding it up to whole
/// nanoseconds changes the rate by at most 1 %.
pub const INTERVAL_MIN: Span = Span::from_nanos(100);
/// The longest time that a bucket may take from empty to full: 100 years of 365 days.
pub const REFILL_MAX: Span = Span::DAY.times(36_500);
/// The most segments of a sliding window.
pub const SEGMENTS_MAX: u8 = 60;

/// How the units of a limit are counted over time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Algorithm {
    /// One counter per window. Up to twice the limit is allowed around the end of a window.
    FixedWindow(Anchor),
    /// Every allowed unit is logged for one window. Exact.
    SlidingLog,
    /// One counter per segment of the window; the oldest is weighted by the part still inside.
    SlidingWindow(Segments),
    /// A bucket of tokens that refills one token at a time (GCRA).
    TokenBucket,
    /// A queue that releases one request at a time; a grant carries a delay.
    LeakyBucket,
}

/// When a fixed window begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Anchor {
    /// At multiples of the window since 1970 in UTC.
    Clock,
    /// At the key's first charged request.
    FirstRequest,
}

/// A number of segments, from 1 to [`SEGMENTS_MAX`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Segments(u8);

/// N units in a window, counted by an algorithm. Every value of this type is valid.
///
/// Windows are given as [`std::time::Duration`] or [`Span`]. For limits written in source code,
/// which may be constants, see [`Limit::per`]. Limits also parse from text such as `100/minute`.
///
/// # Example
///
/// ```
/// use tollgate_core::{Limit, Span};
///
/// let limit = Limit::token_bucket(3, Span::MINUTE)?.with_burst(5)?;
/// assert_eq!(limit.capacity(), 5);
/// assert_eq!(limit.interval(), Some(Span::from_secs(20)));
/// # Ok::<(), tollgate_core::InvalidLimit>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Limit {
    algorithm: Algorithm,
    count: u32,
    window: Span,
    /// What fits at once without the soft or elastic part: N, or the burst or queue of a bucket.
    nominal: u32,
    extra: Extra,
    /// What fits at once: `nominal` and the soft or elastic part; 0 if N is 0.
    capacity: u32,
    /// What of it a request may use: all, or all but the elastic part without headroom, and but
    /// the share for requests with priority.
    available: u32,
    /// The length of a segment of a sliding window; W for all others.
    segment: Span,
    /// The time of one unit in a bucket, zero for windows and for N = 0.
    interval: Span,
    /// The time of a whole bucket, without the soft part and with it.
    nominal_refill: Span,
    refill: Span,
    /// The time of the available units.
    available_refill: Span,
    /// Of `nominal`, what is kept for requests with priority.
    priority_percent: u8,
    /// Whether this is the limit for requests with priority.
    has_priority: bool,
    /// Whether this is the limit for requests while there is headroom.
    has_headroom: bool,
}

/// What a limit allows above its nominal size, in per cent of it.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum Extra {
    /// To all requests.
    Soft(u32),
    /// While there is headroom. Never 0, which is [`Extra::NONE`].
    Elastic(u32),
}

// === impl Segments ===

impl Segments {
    /// One segment: the well-known form with two counters.
    pub const ONE: Segments = Segments(1);

    /// `count` segments.
    ///
    /// # Errors
    ///
    /// [`InvalidLimit::Segments`] if `count` is 0 or above [`SEGMENTS_MAX`].
    pub const fn new(count: u8) -> Result<Segments, InvalidLimit> {
        if count == 0 || count > SEGMENTS_MAX {
            return Err(InvalidLimit::Segments(count));
        }
        Ok(Segments(count))
    }

    /// The number of segments.
    pub const fn get(self) -> u8 {
        self.0
    }
}

// === impl Limit ===

impl Limit {
    /// `count` units per `window`, counted by `algorithm`; a bucket holds `count` at once.
    ///
    /// # Errors
    ///
    /// [`InvalidLimit`] says which parameter is out of range.
    pub fn new(
        algorithm: Algorithm,
        count: u32,
        window: impl Into<Span>,
    ) -> Result<Limit, InvalidLimit> {
        Limit::new_const(algorithm, count, window.into())
    }

    /// [`Limit::new`] for constants.
    const fn new_const(
        algorithm: Algorithm,
        count: u32,
        window: Span,
    ) -> Result<Limit, InvalidLimit> {
        if window.is_zero() || window.as_nanos() > WINDOW_MAX.as_nanos() {
            return Err(InvalidLimit::Window(window));
        }
        let segments = match algorithm {
            Algorithm::SlidingWindow(Segments(segments)) => segments,
            _ => 1,
        };
        if !window.as_nanos().is_multiple_of(whole(segments)) {
            return Err(InvalidLimit::Indivisible { window, segments });
        }
        let bare = Limit {
            algorithm,
            count,
            window,
            nominal: count,
            extra: Extra::NONE,
            capacity: count,
            available: count,
            segment: Span::from_nanos(window.as_nanos() / whole(segments)),
            interval: Span::ZERO,
            nominal_refill: Span::ZERO,
            refill: Span::ZERO,
            available_refill: Span::ZERO,
            priority_percent: 0,
            has_priority: false,
            has_headroom: false,
        };
        match algorithm {
            Algorithm::TokenBucket | Algorithm::LeakyBucket => bare.fix_interval(),
            _ => Ok(bare),
        }
    }

    /// At most `count` units in each window aligned to the epoch.
    ///
    /// # Errors
    ///
    /// [`InvalidLimit::Window`].
    pub fn fixed_window(count: u32, window: impl Into<Span>) -> Result<Limit, InvalidLimit> {
        Limit::new(Algorithm::FixedWindow(Anchor::Clock), count, window)
    }

    /// At most `count` units in any window, wherever it begins.
    ///
    /// # Errors
    ///
    /// [`InvalidLimit::Window`].
    pub fn sliding_log(count: u32, window: impl Into<Span>) -> Result<Limit, InvalidLimit> {
        Limit::new(Algorithm::SlidingLog, count, window)
    }

    /// About `count` units in any window, estimated from `segments` counters and one more.
    ///
    /// # Errors
    ///
    /// [`InvalidLimit::Window`], [`InvalidLimit::Segments`], [`InvalidLimit::Indivisible`].
    pub fn sliding_window(
        count: u32,
        window: impl Into<Span>,
        segments: u8,
    ) -> Result<Limit, InvalidLimit> {
        let segments = Segments::new(segments)?;
        Limit::new(Algorithm::SlidingWindow(segments), count, window)
    }

    /// A bucket of `count` tokens that refills at `count` per `window`.
    ///
    /// # Errors
    ///
    /// [`InvalidLimit::Window`], [`InvalidLimit::TooFast`], [`InvalidLimit::TooSlow`].
    pub fn token_bucket(count: u32, window: impl Into<Span>) -> Result<Limit, InvalidLimit> {
        Limit::new(Algorithm::TokenBucket, count, window)
    }

    /// A queue of `count` that releases `count` per `window`, one at a time.
    ///
    /// # Errors
    ///
    /// [`InvalidLimit::Window`], [`InvalidLimit::TooFast`], [`InvalidLimit::TooSlow`].
    pub fn leaky_bucket(count: u32, window: impl Into<Span>) -> Result<Limit, InvalidLimit> {
        Limit::new(Algorithm::LeakyBucket, count, window)
    }

    /// The same bucket with room for `burst` at once (`queue`, for a leaky bucket).
    ///
    /// # Errors
    ///
    /// [`InvalidLimit::NoBurst`] for a window, [`InvalidLimit::TooSlow`],
    /// [`InvalidLimit::TooLarge`].
    pub const fn with_burst(self, burst: u32) -> Result<Limit, InvalidLimit> {
        if !self.is_bucket() {
            return Err(InvalidLimit::NoBurst);
        }
        Limit {
            nominal: burst,
            ..self
        }
        .fix_extra()
    }

    /// Fixes the interval of a bucket, rounded up: an inexact limit allows less, never more.
    const fn fix_interval(self) -> Result<Limit, InvalidLimit> {
        if self.count == 0 {
            return Ok(self);
        }
        let most = self.window.as_nanos() / INTERVAL_MIN.as_nanos();
        if wide(self.count) > most {
            return Err(InvalidLimit::TooFast {
                count: self.count,
                window: self.window,
                count_max: narrow(most),
            });
        }
        let interval = self.window.as_nanos().div_ceil(wide(self.count));
        Limit {
            interval: Span::from_nanos(interval),
            ..self
        }
        .fix_extra()
    }

    /// How the units are counted.
    pub const fn algorithm(&self) -> Algorithm {
        self.algorithm
    }

    /// N, the units per window: what is reported as the limit.
    pub const fn count(&self) -> u32 {
        self.count
    }

    /// W, the window.
    pub const fn window(&self) -> Span {
        self.window
    }

    /// The length of a segment of a sliding window; [`Limit::window`] for all others.
    pub(crate) const fn segment(&self) -> Span {
        self.segment
    }

    /// What fits at once before the soft or elastic part: N, or the burst or queue of a bucket.
    pub const fn nominal(&self) -> u32 {
        self.nominal
    }

    /// What fits at once, the soft or elastic part included. A larger cost never fits, nor does
    /// one above [`Limit::available`].
    pub const fn capacity(&self) -> u32 {
        self.capacity
    }

    /// The time in which a bucket refills one unit, rounded up to whole nanoseconds; `None` for
    /// windows and for N = 0.
    pub const fn interval(&self) -> Option<Span> {
        if self.interval.is_zero() {
            None
        } else {
            Some(self.interval)
        }
    }

    /// The clock that this limit's moments come from.
    pub const fn timeline(&self) -> Timeline {
        match self.algorithm {
            Algorithm::FixedWindow(Anchor::Clock) | Algorithm::SlidingWindow(_) => Timeline::Utc,
            _ => Timeline::Monotonic,
        }
    }

    /// Whether this is a token bucket or a leaky bucket.
    pub const fn is_bucket(&self) -> bool {
        matches!(
            self.algorithm,
            Algorithm::TokenBucket | Algorithm::LeakyBucket
        )
    }

    /// The time to refill an empty bucket, the soft or elastic part included: at most
    /// [`REFILL_MAX`].
    pub const fn refill(&self) -> Span {
        self.refill
    }

    /// The time to refill an empty bucket, without that part.
    pub(crate) const fn nominal_refill(&self) -> Span {
        self.nominal_refill
    }

    /// The exact time to refill `units`: at most [`REFILL_MAX`] for units that fit.
    pub(crate) const fn price(&self, units: u32) -> Span {
        Span::from_nanos(self.interval.as_nanos().saturating_mul(wide(units)))
    }
}

/// `u64::from`, which is not const.
#[expect(clippy::as_conversions, reason = "widening; `u64::from` is not const")]
pub(crate) const fn wide(narrow: u32) -> u64 {
    narrow as u64
}

/// A number of segments, or of per cent, for calculations.
#[expect(clippy::as_conversions, reason = "widening; `u64::from` is not const")]
const fn whole(number: u8) -> u64 {
    number as u64
}

/// Saturates at `u32::MAX`, which units that fit a capacity never exceed.
#[inline]
#[expect(
    clippy::as_conversions,
    reason = "checked on the line itself; `try_from` is not const"
)]
pub(crate) const fn narrow(wide: u64) -> u32 {
    if wide > u32::MAX as u64 {
        u32::MAX
    } else {
        wide as u32
    }
}

#[cfg(test)]
mod tests;
