//! How a request meets the limits that keep parts for others: with or without priority, with or
//! without headroom.

/// How a request meets the limits that keep parts for others.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct View {
    /// Whether it can use the shares that limits keep for such requests.
    pub(crate) has_priority: bool,
    /// Whether there is headroom for the elastic parts of limits.
    pub(crate) has_headroom: bool,
}

// === impl View ===

impl View {
    /// That of a request that can use all of a limit.
    pub(crate) const WHOLE: View = View {
        has_priority: true,
        has_headroom: true,
    };
    /// Every one.
    pub(crate) const ALL: [View; 4] = [
        View::of(false, false),
        View::of(false, true),
        View::of(true, false),
        View::WHOLE,
    ];

    const fn of(has_priority: bool, has_headroom: bool) -> View {
        View {
            has_priority,
            has_headroom,
        }
    }

    /// Whether a request that meets limits so can use no more of them than one with `other`.
    pub(crate) const fn is_within(self, other: View) -> bool {
        (other.has_priority || !self.has_priority) && (other.has_headroom || !self.has_headroom)
    }
}
