//! Headroom from a measured pressure, such as the use of the processors, with hysteresis.
//!
//! A pressure is compared with two thresholds. Headroom begins when it has been at most the low
//! one for a whole hold time, without a pause, and ends with the first sample that reaches the high
//! one. In between, things stay as they are. So headroom never begins twice within a hold time,
//! however the pressure moves, and there is none while it is high, or while it is not known.

use tollgate_core::{Moment, Span};

/// Between which values of a pressure nothing changes, in parts of a thousand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Thresholds {
    /// Headroom needs a pressure of at most this.
    pub low: u32,
    /// From this on, there is none. Above `low`.
    pub high: u32,
}

/// What a sample of a pressure means for headroom. Of several pressures, the greatest counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// Headroom may begin, and goes on if there is some.
    Low,
    /// Between the thresholds: headroom neither begins nor ends.
    Between,
    /// There is no headroom. A pressure that is not known counts as high.
    High,
}

/// How long headroom needs to begin, and how old a sample may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pace {
    /// Headroom begins after this long at [`Level::Low`].
    pub hold: Span,
    /// After longer than this without a sample, what was sampled before counts no more.
    pub sample_age_max: Span,
}

/// Whether there is headroom, and since when the pressure has been low.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Hysteresis {
    has_headroom: bool,
    /// Since when every sample was low; `None` if the last one was not.
    low_since: Option<Moment>,
    last_sample: Moment,
}

// === impl Thresholds ===

impl Thresholds {
    /// The level of a pressure in parts of a thousand; `None` is one that is not known.
    pub fn level(self, pressure: Option<u32>) -> Level {
        match pressure {
            Some(pressure) if pressure <= self.low => Level::Low,
            Some(pressure) if pressure < self.high => Level::Between,
            _ => Level::High,
        }
    }
}

// === impl Hysteresis ===

impl Hysteresis {
    /// Whether there is headroom since the last sample.
    pub const fn has_headroom(&self) -> bool {
        self.has_headroom
    }

    /// What follows from a sample at `now`.
    #[must_use]
    pub fn step(self, level: Level, pace: Pace, now: Moment) -> Hysteresis {
        let is_stale = now.since(self.last_sample) > pace.sample_age_max;
        let former = if is_stale {
            Hysteresis::default()
        } else {
            self
        };
        let low_since = match level {
            Level::Low => Some(former.low_since.unwrap_or(now)),
            Level::Between | Level::High => None,
        };
        let has_held = low_since.is_some_and(|since| now.since(since) >= pace.hold);
        Hysteresis {
            has_headroom: level != Level::High && (former.has_headroom || has_held),
            low_since,
            last_sample: now,
        }
    }
}

#[cfg(test)]
mod tests;
