//! One key's consumption: plain lists and fractions.

use tollgate_core::{Algorithm, Anchor, Limit, Now, Span, Wait};

use crate::ratio::Ratio;

/// What one key has consumed under one limit.
#[derive(Clone, Debug)]
pub struct Naive {
    limit: Limit,
    memory: Memory,
}

#[derive(Clone, Debug)]
enum Memory {
    /// Units missing from a bucket at a moment, and of the limit that charged last how long a unit
    /// takes to come back, the capacity and the window.
    Missing {
        units: Ratio,
        at: u64,
        pace: u64,
        capacity: u64,
        window: u64,
    },
    /// A window that began with its first request, and the units since.
    Begun { at: u64, units: u64 },
    /// Every charge, the oldest first: its moment and its units.
    Charged(Vec<(u64, u64)>),
}

// === impl Naive ===

impl Naive {
    /// A key never seen.
    pub fn new(limit: &Limit) -> Naive {
        let memory = match limit.algorithm() {
            Algorithm::TokenBucket | Algorithm::LeakyBucket => Memory::Missing {
                units: Ratio::ZERO,
                at: 0,
                pace: 0,
                capacity: 0,
                window: 0,
            },
            Algorithm::FixedWindow(Anchor::FirstRequest) => Memory::Begun { at: 0, units: 0 },
            _ => Memory::Charged(Vec::new()),
        };
        Naive {
            limit: *limit,
            memory,
        }
    }

    /// Whether `units` fit at `now`, and with them those that the request leaves.
    pub fn fits(&self, now: Now, units: u64) -> bool {
        let judged = Ratio::whole(units).plus(Ratio::whole(self.share()));
        self.used(self.moment(now)).plus(judged) <= Ratio::whole(self.capacity())
    }

    /// How long until `units` fit; `None` if they fit now.
    pub fn wait(&self, now: Now, units: u64) -> Option<Wait> {
        if units.saturating_add(self.share()) > self.capacity() {
            return Some(Wait::Never);
        }
        let fits_after = |span| self.fits(after(now, span), units);
        (!self.fits(now, units)).then(|| Wait::For(self.first(fits_after)))
    }

    /// The largest cost that fits.
    pub fn remaining(&self, now: Now) -> u32 {
        let (mut fits, mut too_many) = (0, self.capacity() + 1);
        while fits + 1 < too_many {
            let middle = fits.midpoint(too_many);
            if self.fits(now, middle) {
                fits = middle;
            } else {
                too_many = middle;
            }
        }
        u32::try_from(fits).expect("a capacity fits 32 bits")
    }

    /// The end of a fixed window, or else how long until all fits.
    pub fn reset(&self, now: Now) -> Span {
        let (at, window) = (self.moment(now), self.window());
        let into = match (&self.memory, self.limit.algorithm()) {
            (Memory::Begun { .. }, _) if self.used(at) == Ratio::ZERO => 0,
            (Memory::Begun { at: begun, .. }, _) => at - begun,
            (_, Algorithm::FixedWindow(_)) => at % window,
            _ => {
                let is_unused = |span| self.used(self.moment(after(now, span))) == Ratio::ZERO;
                return self.first(is_unused);
            }
        };
        Span::from_nanos(window - into)
    }

    /// How long a leaky bucket holds what comes now.
    pub fn delay(&self, now: Now) -> Span {
        match self.limit.algorithm() {
            Algorithm::LeakyBucket => {
                let nanos = self.used(self.moment(now)).times(i128::from(self.pace()));
                Span::from_nanos(u64::try_from(nanos.ceil()).expect("at most 100 years"))
            }
            _ => Span::ZERO,
        }
    }

    /// Whether some of the soft part is consumed, if there is one.
    pub fn is_over_soft(&self, now: Now) -> bool {
        let used = self.used(self.moment(now));
        used.min(Ratio::whole(self.capacity())) > Ratio::whole(self.limit.nominal())
    }

    /// Consumes `units`.
    pub fn take(&mut self, now: Now, units: u64) {
        let at = self.moment(now);
        let used = self.used(at);
        if let Memory::Missing { .. } = self.memory {
            let missing = self.round_up_to_nanos(used).plus(Ratio::whole(units));
            self.set_missing(missing, at);
            return;
        }
        match &mut self.memory {
            Memory::Missing { .. } => {}
            Memory::Begun {
                at: begun,
                units: counted,
            } => {
                if used == Ratio::ZERO {
                    (*begun, *counted) = (at, 0);
                }
                *counted += units;
            }
            Memory::Charged(charges) => charges.push((at, units)),
        }
    }

    /// Consumes `units` of a denied request, up to "exhausted now": what the request leaves
    /// stays.
    pub fn exhaust(&mut self, now: Now, units: u64) {
        let full = Ratio::whole(self.capacity().saturating_sub(self.share()));
        let at = self.moment(now);
        let used = self.used(at);
        if let Memory::Missing { .. } = self.memory {
            if used < full && units > 0 {
                let missing = self
                    .round_up_to_nanos(used)
                    .plus(Ratio::whole(units))
                    .min(full);
                self.set_missing(missing, at);
            }
        } else {
            let left = u64::from(self.remaining(now));
            self.take(now, units.min(left));
        }
    }

    /// Gives back up to `units`, the newest first.
    pub fn refund(&mut self, now: Now, units: u64) {
        let at = self.moment(now);
        let used = self.used(at);
        let oldest = self.oldest(at);
        match &mut self.memory {
            Memory::Missing {
                units: missing,
                at: then,
                ..
            } => {
                *missing = used.less(Ratio::whole(units));
                *then = at;
            }
            Memory::Begun { units: counted, .. } => *counted = counted.saturating_sub(units),
            Memory::Charged(charges) => {
                let mut units = units;
                let current = charges.iter_mut().rev().filter(|(then, _)| *then >= oldest);
                for (_, charged) in current {
                    let back = units.min(*charged);
                    *charged -= back;
                    units -= back;
                }
            }
        }
    }

    /// Goes on under `limit`, from the first decision after the change, which is at `now`.
    pub fn change(&mut self, limit: &Limit, now: Now) {
        let old = self.limit;
        if old == *limit {
            return;
        }
        let stays = match self.memory {
            Memory::Missing { .. } => true,
            _ => old.window() == limit.window(),
        };
        if old.algorithm() == limit.algorithm() && stays {
            self.keep(limit, now);
            return;
        }
        let used = self.used(self.moment(now)).ceil();
        let used = u64::try_from(used).expect("no less than nothing");
        *self = Naive::new(limit);
        let used = used.min(self.capacity());
        if used > 0 {
            self.take(now, used);
        }
    }

    /// Keeps the units consumed. Those of a bucket come back at the pace of the new limit from now
    /// on. If it is smaller, and of the same window, they all count, and come back as they did
    /// until it charges; of another window, no more count than it has.
    fn keep(&mut self, limit: &Limit, now: Now) {
        let at = self.moment(now);
        let used = self.used(at);
        self.limit = *limit;
        let Memory::Missing {
            capacity, window, ..
        } = self.memory
        else {
            return;
        };
        let is_smaller = self.capacity() < capacity;
        if limit.count() > 0 && (!is_smaller || window != self.window()) {
            let most = Ratio::whole(self.capacity());
            self.set_missing(self.round_up_to_nanos(used).min(most), at);
        }
    }

    /// Part units are worth whole nanoseconds, rounded up.
    fn round_up_to_nanos(&self, units: Ratio) -> Ratio {
        let pace = i128::from(self.pace());
        Ratio::new(units.times(pace).ceil(), pace)
    }

    fn set_missing(&mut self, units: Ratio, at: u64) {
        self.memory = Memory::Missing {
            units,
            at,
            pace: self.pace(),
            capacity: self.capacity(),
            window: self.window(),
        };
    }

    /// What counts as consumed at `at`: whole units, except in a bucket.
    fn used(&self, at: u64) -> Ratio {
        match &self.memory {
            Memory::Missing { units, pace: 0, .. } => *units,
            Memory::Missing {
                units,
                at: then,
                pace,
                ..
            } => {
                let won_back = Ratio::new(i128::from(at - then), i128::from(*pace));
                units.less(won_back)
            }
            Memory::Begun { at: begun, .. } if at - begun >= self.window() => Ratio::ZERO,
            Memory::Begun { units, .. } => Ratio::whole(*units),
            Memory::Charged(charges) => {
                let oldest = self.oldest(at);
                let counted = charges.iter().filter(|(then, _)| *then >= oldest);
                match self.limit.algorithm() {
                    Algorithm::SlidingWindow(segments) => {
                        let length = self.window() / u64::from(segments.get());
                        estimate(counted, at, length, u64::from(segments.get()))
                    }
                    _ => Ratio::whole(counted.map(|(_, units)| *units).sum::<u64>()),
                }
            }
        }
    }

    /// The oldest moment at which a charge still counts at `at`.
    fn oldest(&self, at: u64) -> u64 {
        let window = self.window();
        match self.limit.algorithm() {
            Algorithm::FixedWindow(_) => at - at % window,
            Algorithm::SlidingWindow(segments) => {
                let length = window / u64::from(segments.get());
                (at - at % length).saturating_sub(window)
            }
            // Half-open: what is exactly one window old is out.
            _ => (at + 1).saturating_sub(window),
        }
    }

    /// The shortest span after which `is_so`, which stays so.
    fn first(&self, is_so: impl Fn(Span) -> bool) -> Span {
        let memory = match &self.memory {
            Memory::Missing { pace, capacity, .. } => capacity * pace,
            _ => 2 * self.window(),
        };
        let mut most = memory + 1;
        assert!(is_so(Span::from_nanos(most)), "never, within its memory");
        let mut least = 0;
        // Short spans are walked, in case that "stays so" is not so.
        while most - least > 64 {
            let middle = least.midpoint(most);
            if is_so(Span::from_nanos(middle)) {
                most = middle;
            } else {
                least = middle + 1;
            }
        }
        let mut spans = (least..=most).map(Span::from_nanos);
        spans.find(|span| is_so(*span)).expect("so at most")
    }

    fn moment(&self, now: Now) -> u64 {
        match self.limit.algorithm() {
            Algorithm::FixedWindow(Anchor::Clock) | Algorithm::SlidingWindow(_) => {
                now.utc.as_nanos()
            }
            _ => now.monotonic.as_nanos(),
        }
    }

    fn window(&self) -> u64 {
        self.limit.window().as_nanos()
    }

    /// N', which stands in place of N (of B or C for a bucket).
    fn capacity(&self) -> u64 {
        if self.limit.count() == 0 {
            return 0;
        }
        let percent = self.limit.soft_percent() + self.limit.elastic_percent();
        let percent = 100 + u128::from(percent);
        let capacity = u128::from(self.limit.nominal()) * percent / 100;
        u64::try_from(capacity).expect("a capacity fits 32 bits")
    }

    /// R, which any request without priority leaves; and what lies above N, if it is elastic and
    /// there is no headroom.
    fn share(&self) -> u64 {
        if self.limit.count() == 0 {
            return 0;
        }
        let nominal = u64::from(self.limit.nominal());
        let elastic = match (self.limit.elastic_percent(), self.limit.has_headroom()) {
            (0, _) | (_, true) => 0,
            _ => self.capacity() - nominal,
        };
        let percent = match self.limit.has_priority() {
            true => 0,
            false => u64::from(self.limit.priority_percent()),
        };
        elastic + (nominal * percent).div_ceil(100)
    }

    /// T = W/N, rounded up: the nanoseconds in which a bucket wins back a unit.
    fn pace(&self) -> u64 {
        self.window().div_ceil(u64::from(self.limit.count().max(1)))
    }
}

/// floor(oldest segment x the part of it still inside the window) + the later segments.
fn estimate<'c>(
    counted: impl Iterator<Item = &'c (u64, u64)>,
    at: u64,
    length: u64,
    segments: u64,
) -> Ratio {
    let (mut oldest, mut later) = (0, 0);
    for (then, units) in counted {
        if then / length + segments == at / length {
            oldest += units;
        } else {
            later += units;
        }
    }
    let part = Ratio::new(i128::from(length - at % length), i128::from(length));
    Ratio::whole(part.times(i128::from(oldest)).floor()).plus(Ratio::whole(later))
}

fn after(now: Now, span: Span) -> Now {
    Now {
        monotonic: now.monotonic + span,
        utc: now.utc + span,
    }
}
