//! Points in time, and the clocks that give them.

use std::ops::{Add, Sub};

use crate::span::Span;

/// A point in time: nanoseconds since the origin of its clock.
///
/// There are two clocks ([`Now`]): a monotonic one, whose origin means nothing outside this
/// process, and UTC since 1970. A moment does not know its clock; the limit's [`Timeline`] says
/// which it is. Sums saturate at the ends of the range (584 years).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Moment(u64);

/// One reading of both clocks, for one decision or one batch of them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Now {
    /// The monotonic clock, used for everything but windows aligned to the epoch.
    pub monotonic: Moment,
    /// UTC since 1970, used for windows aligned to the epoch.
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

/// The source of a store's time.
///
/// Successive monotonic readings never decrease, on any thread. UTC goes back only when it is
/// corrected by more than a second.
pub trait Clock: Send + Sync {
    /// Reads both clocks.
    fn now(&self) -> Now;

    /// Reads only one clock, which may be cheaper.
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

    /// The time since `earlier`; zero if `earlier` is later than this.
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
    /// Both clocks at the same moment, for virtual time, as in a replay.
    pub const fn at(moment: Moment) -> Now {
        Now {
            monotonic: moment,
            utc: moment,
        }
    }

    /// The reading of the clock of `timeline`.
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
