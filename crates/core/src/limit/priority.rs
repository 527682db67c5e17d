//! The share of a limit that is kept for requests with priority.
//!
//! The caller decides which requests have priority. A limit with a share applies to all other
//! requests: one of cost k is judged as if it cost k and the share, and charged k.
//! [`Limit::for_priority`] is the same limit for requests with priority. Both count the same
//! units, under one key.

use super::{InvalidLimit, Limit, narrow, whole, wide};
use crate::span::Span;

/// The largest share, in per cent.
const SHARE_MAX: u8 = 100;

// === impl Limit ===

impl Limit {
    /// The same limit, of which `percent` of [`Limit::nominal`], rounded up, are kept for requests
    /// with priority: all other requests can use [`Limit::available`] units. 0 keeps nothing.
    ///
    /// # Errors
    ///
    /// [`InvalidLimit::PriorityShare`] above 100.
    ///
    /// # Example
    ///
    /// ```
    /// use tollgate_core::{Limit, Span};
    ///
    /// let limit = Limit::fixed_window(100, Span::MINUTE)?.with_priority_share(20)?;
    /// assert_eq!(limit.available(), 80);
    /// assert_eq!(limit.for_priority().available(), 100);
    /// # Ok::<(), tollgate_core::InvalidLimit>(())
    /// ```
    pub const fn with_priority_share(self, percent: u8) -> Result<Limit, InvalidLimit> {
        if percent > SHARE_MAX {
            return Err(InvalidLimit::PriorityShare(percent));
        }
        let limit = Limit {
            priority_percent: percent,
            ..self
        };
        Ok(limit.fix_available())
    }

    /// This limit for requests with priority: no share is kept from them.
    pub const fn for_priority(self) -> Limit {
        let limit = Limit {
            has_priority: true,
            ..self
        };
        limit.fix_available()
    }

    /// The share that is kept for requests with priority, in per cent of [`Limit::nominal`]; 0 if
    /// requests have no priorities.
    pub const fn priority_percent(&self) -> u8 {
        self.priority_percent
    }

    /// Whether this limit is made by [`Limit::for_priority`].
    pub const fn has_priority(&self) -> bool {
        self.has_priority
    }

    /// What of [`Limit::capacity`] a request can use: all of it, unless a share is kept for
    /// requests with priority, or there is no headroom for an elastic part. A larger cost never
    /// fits.
    pub const fn available(&self) -> u32 {
        self.available
    }

    /// The units of the capacity that a request leaves: for those with priority, unless it has
    /// priority itself, and of an elastic part without headroom.
    pub const fn unavailable(&self) -> u32 {
        self.capacity - self.available
    }

    /// The time to refill the available units of a bucket.
    pub(crate) const fn available_refill(&self) -> Span {
        self.available_refill
    }

    /// Computes what of the capacity a request may use.
    pub(super) const fn fix_available(self) -> Limit {
        let kept = wide(self.nominal).saturating_mul(whole(self.priority_percent));
        let usable = self.usable();
        let available = if self.has_priority {
            usable
        } else {
            // Up, against the requests without priority.
            usable.saturating_sub(narrow(kept.div_ceil(100)))
        };
        Limit {
            available,
            available_refill: self.interval.times(wide(available)),
            ..self
        }
    }
}
