//! What a limit allows above its nominal size: a soft part, always; or an elastic part, while there
//! is headroom.
//!
//! The caller decides whether there is headroom. A limit with an elastic part applies to requests
//! without headroom: the elastic part is kept from them, as a share for priority is.
//! [`Limit::with_headroom`] is the same limit while there is headroom. Both count the same units,
//! under one key and with one capacity, so no state changes when headroom comes or goes, and
//! however often it does, no more is allowed than the whole capacity.

use super::{Extra, InvalidLimit, Limit, REFILL_MAX, narrow, wide};

// === impl Extra ===

impl Extra {
    pub(super) const NONE: Extra = Extra::Soft(0);

    const fn percent(self) -> u32 {
        match self {
            Extra::Soft(percent) | Extra::Elastic(percent) => percent,
        }
    }
}

// === impl Limit ===

impl Limit {
    /// The same limit with a soft part: `percent` more of its capacity is allowed and marked.
    ///
    /// # Errors
    ///
    /// [`InvalidLimit::TooLarge`] if the sum exceeds 2^32 - 1, [`InvalidLimit::TooSlow`].
    pub const fn with_soft(self, percent: u32) -> Result<Limit, InvalidLimit> {
        Limit {
            extra: Extra::Soft(percent),
            ..self
        }
        .fix_extra()
    }

    /// The same limit with an elastic part in place of a soft one: `percent` more of its capacity
    /// is allowed and marked, but only as [`Limit::with_headroom`]. 0 is none.
    ///
    /// # Errors
    ///
    /// As [`Limit::with_soft`].
    ///
    /// # Example
    ///
    /// ```
    /// use tollgate_core::{Limit, Span};
    ///
    /// let limit = Limit::fixed_window(100, Span::MINUTE)?.with_elastic(50)?;
    /// assert_eq!(limit.available(), 100);
    /// assert_eq!(limit.with_headroom().available(), 150);
    /// # Ok::<(), tollgate_core::InvalidLimit>(())
    /// ```
    pub const fn with_elastic(self, percent: u32) -> Result<Limit, InvalidLimit> {
        Limit {
            extra: match percent {
                0 => Extra::NONE,
                _ => Extra::Elastic(percent),
            },
            ..self
        }
        .fix_extra()
    }

    /// This limit while there is headroom: with its elastic part.
    pub const fn with_headroom(self) -> Limit {
        let limit = Limit {
            has_headroom: true,
            ..self
        };
        limit.fix_available()
    }

    /// The soft part, in per cent of [`Limit::nominal`].
    pub const fn soft_percent(&self) -> u32 {
        match self.extra {
            Extra::Soft(percent) => percent,
            Extra::Elastic(_) => 0,
        }
    }

    /// The elastic part, in per cent of [`Limit::nominal`].
    pub const fn elastic_percent(&self) -> u32 {
        match self.extra {
            Extra::Soft(_) => 0,
            Extra::Elastic(percent) => percent,
        }
    }

    /// Whether this limit is made by [`Limit::with_headroom`].
    pub const fn has_headroom(&self) -> bool {
        self.has_headroom
    }

    /// The same limit with the soft or elastic part of `other` and its share for priority, and for
    /// the same requests: for a limit that is derived from `other`, such as a part of it.
    ///
    /// # Errors
    ///
    /// As [`Limit::with_soft`].
    pub const fn with_parts_of(self, other: &Limit) -> Result<Limit, InvalidLimit> {
        Limit {
            extra: other.extra,
            priority_percent: other.priority_percent,
            has_priority: other.has_priority,
            has_headroom: other.has_headroom,
            ..self
        }
        .fix_extra()
    }

    /// This limit for a request that can use all of its capacity.
    pub const fn whole(self) -> Limit {
        self.for_priority().with_headroom()
    }

    /// Computes the capacity, and how long a bucket takes to refill it.
    pub(super) const fn fix_extra(self) -> Result<Limit, InvalidLimit> {
        let percent = self.extra.percent();
        let parts = wide(self.nominal).saturating_mul(100 + wide(percent)) / 100;
        if parts > wide(u32::MAX) {
            return Err(InvalidLimit::TooLarge {
                nominal: self.nominal,
                extra_percent: percent,
            });
        }
        // N = 0 denies everything, whatever the burst.
        let capacity = if self.count == 0 { 0 } else { narrow(parts) };
        let refill = self.interval.times(wide(capacity));
        let nominal_refill = self.interval.times(wide(self.nominal));
        if refill.as_nanos() > REFILL_MAX.as_nanos() {
            return Err(InvalidLimit::TooSlow { refill });
        }
        let limit = Limit {
            capacity,
            nominal_refill,
            refill,
            ..self
        };
        Ok(limit.fix_available())
    }

    /// What of the capacity a request with priority can use.
    pub(super) const fn usable(&self) -> u32 {
        match self.extra {
            Extra::Elastic(_) if !self.has_headroom && self.capacity > self.nominal => self.nominal,
            _ => self.capacity,
        }
    }
}
