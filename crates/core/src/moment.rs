//! Points in time and lengths of time, which are not the same thing.

use std::fmt;
use std::ops::{Add, Sub};

/// A point in time: nanoseconds since an origin that the clock chose.
///
/// Two clocks are in use ([`Now`]): one that never goes back and whose origin means nothing outside
/// this process, and UTC, whose origin is 1970. A moment does not say which; its [`Timeline`] does.
/// Sums saturate at the ends of the range (584 years).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Moment(u64);

/// A length of time in nanoseconds, from 0 to 584 years.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Span(u64);

/// One reading of both clocks, for one decision or one batch of them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Now {
    /// The clock that never goes back. Everything but windows aligned to the epoch uses it.
    pub monotonic: Moment,
    /// UTC, since 1970. Windows aligned to the epoch use it.
    pub utc: Moment,
}

/// The clock that a limit's moments are read from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Timeline {
    /// [`Now::monotonic`].
    Monotonic,
    /// [`Now::utc`].
    Utc,
}

/// Where a store reads the time.
///
/// The monotonic clock's readings of successive calls never go back, whichever thread asks. UTC
/// goes back only when it is corrected by more than a second.
pub trait Clock: Send + Sync {
    /// Reads both clocks.
    fn now(&self) -> Now;

    /// Reads one of them, which may be cheaper.
    #[inline]
    fn on(&self, timeline: Timeline) -> Moment {
        self.now().on(timeline)
    }
}

// === impl Moment ===

impl Moment {
    /// The origin.
    pub const ZERO: Moment = Moment(0);

    /// The moment `nanos` after the origin.
    pub const fn from_nanos(nanos: u64) -> Moment {
        Moment(nanos)
    }

    /// Nanoseconds since the origin.
    pub const fn as_nanos(self) -> u64 {
        self.0
    }

    /// How long after `earlier` this is; zero if it is not after it.
    pub const fn since(self, earlier: Moment) -> Span {
        Span(self.0.saturating_sub(earlier.0))
    }
}

impl Add<Span> for Moment {
    type Output = Moment;

    fn add(self, span: Span) -> Moment {
        Moment(self.0.saturating_add(span.0))
    }
}

impl Sub<Span> for Moment {
    type Output = Moment;

    fn sub(self, span: Span) -> Moment {
        Moment(self.0.saturating_sub(span.0))
    }
}

// === impl Span ===

impl Span {
    /// No time at all.
    pub const ZERO: Span = Span(0);
    /// The shortest length there is.
    pub const NANOSECOND: Span = Span(1);
    /// One second.
    pub const SECOND: Span = Span(1_000_000_000);
    /// One minute.
    pub const MINUTE: Span = Span(60 * Span::SECOND.0);
    /// One hour.
    pub const HOUR: Span = Span(60 * Span::MINUTE.0);
    /// One day of 24 hours.
    pub const DAY: Span = Span(24 * Span::HOUR.0);

    /// A length of `nanos` nanoseconds.
    pub const fn from_nanos(nanos: u64) -> Span {
        Span(nanos)
    }

    /// A length of `millis` milliseconds; saturates.
    pub const fn from_millis(millis: u64) -> Span {
        Span(millis.saturating_mul(1_000_000))
    }

    /// A length of `secs` seconds; saturates.
    pub const fn from_secs(secs: u64) -> Span {
        Span(secs.saturating_mul(Span::SECOND.0))
    }

    /// Whole nanoseconds.
    pub const fn as_nanos(self) -> u64 {
        self.0
    }

    /// Whole seconds, rounded up: what `Retry-After` says.
    pub const fn as_secs_ceil(self) -> u64 {
        self.0.div_ceil(Span::SECOND.0)
    }

    /// Whether this is no time at all.
    pub const fn is_zero(self) -> bool {
        self.0 == 0
    }

    /// This length `times` over; saturates.
    pub const fn times(self, times: u64) -> Span {
        Span(self.0.saturating_mul(times))
    }

    /// This length less `other`; zero if `other` is longer.
    pub const fn minus(self, other: Span) -> Span {
        Span(self.0.saturating_sub(other.0))
    }
}

impl Add for Span {
    type Output = Span;

    fn add(self, other: Span) -> Span {
        Span(self.0.saturating_add(other.0))
    }
}

impl From<std::time::Duration> for Span {
    /// Saturates at 584 years.
    fn from(duration: std::time::Duration) -> Span {
        Span(u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX))
    }
}

impl From<Span> for std::time::Duration {
    fn from(span: Span) -> std::time::Duration {
        std::time::Duration::from_nanos(span.0)
    }
}

impl fmt::Display for Span {
    /// Writes the units of a rules file: `1h30m`, `500ms`, `0s`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const UNITS: [(u64, &str); 7] = [
            (Span::DAY.0, "d"),
            (Span::HOUR.0, "h"),
            (Span::MINUTE.0, "m"),
            (Span::SECOND.0, "s"),
            (1_000_000, "ms"),
            (1_000, "us"),
            (1, "ns"),
        ];
        if self.0 == 0 {
            return f.write_str("0s");
        }
        let mut rest = self.0;
        for (nanos, unit) in UNITS {
            if rest >= nanos {
                write!(f, "{}{unit}", rest / nanos)?;
                rest %= nanos;
            }
        }
        Ok(())
    }
}

// === impl Now ===

impl Now {
    /// Both clocks at one moment: virtual time, as in a replay.
    pub const fn at(moment: Moment) -> Now {
        Now {
            monotonic: moment,
            utc: moment,
        }
    }

    /// The reading of the clock that `timeline` names.
    pub const fn on(&self, timeline: Timeline) -> Moment {
        match timeline {
            Timeline::Monotonic => self.monotonic,
            Timeline::Utc => self.utc,
        }
    }
}

// === impl Clock ===

impl<C: Clock + ?Sized> Clock for &C {
    fn now(&self) -> Now {
        (**self).now()
    }

    fn on(&self, timeline: Timeline) -> Moment {
        (**self).on(timeline)
    }
}

impl<C: Clock + ?Sized> Clock for std::sync::Arc<C> {
    fn now(&self) -> Now {
        (**self).now()
    }

    fn on(&self, timeline: Timeline) -> Moment {
        (**self).on(timeline)
    }
}
