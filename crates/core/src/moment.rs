//! Points in time, and the clocks that they are read from.

use std::ops::{Add, Sub};

use crate::span::Span;

/// A point in time: nanoseconds since an origin that the clock chose.
///
/// Two clocks are in use ([`Now`]): one that never goes back and whose origin means nothing outside
/// this process, and UTC, whose origin is 1970. A moment does not say which; its [`Timeline`] does.
/// Sums saturate at the ends of the range (584 years).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Moment(u64);

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
        Span::from_nanos(self.0.saturating_sub(earlier.0))
    }
}

impl Add<Span> for Moment {
    type Output = Moment;

    fn add(self, span: Span) -> Moment {
        Moment(self.0.saturating_add(span.as_nanos()))
    }
}

impl Sub<Span> for Moment {
    type Output = Moment;

    fn sub(self, span: Span) -> Moment {
        Moment(self.0.saturating_sub(span.as_nanos()))
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
