//! The limits that requests meet: token buckets, the same for every contender.

/// Seconds of the period of every limit.
pub(crate) const PERIOD: u32 = 86_400;

/// How much one key is allowed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Budget {
    /// More than any load, so that every request is allowed.
    Large,
    /// Two requests a day: the third one is denied. (throttlecrab-server 0.4.40 never denies with a
    /// limit of one, which it forgets at once.)
    Two,
    /// A hundred, to see that the hundredth request is allowed and no other.
    Hundred,
}

// === impl Budget ===

impl Budget {
    pub(crate) const ALL: [Budget; 3] = [Budget::Large, Budget::Two, Budget::Hundred];

    /// How many requests are allowed at once.
    pub(crate) const fn capacity(self) -> u32 {
        match self {
            Budget::Large => 1_000_000_000,
            Budget::Two => 2,
            Budget::Hundred => 100,
        }
    }

    /// How many are allowed again in a [`PERIOD`]. Of a large budget this is one a second, so that
    /// the state of a key is kept, as it is for limits that matter.
    pub(crate) const fn count(self) -> u32 {
        match self {
            Budget::Large => PERIOD,
            Budget::Two => 2,
            Budget::Hundred => 100,
        }
    }

    /// The key of the rule with this limit.
    pub(crate) const fn rule(self) -> &'static str {
        match self {
            Budget::Large => "large",
            Budget::Two => "two",
            Budget::Hundred => "hundred",
        }
    }
}
