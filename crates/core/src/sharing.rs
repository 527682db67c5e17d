//! How several nodes share one limit.

use std::fmt;
use std::num::NonZeroU32;

use crate::limit::Algorithm;

/// How several nodes share one limit. A store in one process has nothing to share: it is always
/// exact, and always there.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Sharing {
    /// How decisions are made.
    pub mode: Mode,
    /// What happens when the shared store has no answer.
    pub on_store_error: OnStoreError,
    /// How many nodes there are; `None` if the store is to count them.
    pub nodes: Option<NonZeroU32>,
}

/// How decisions are made over a shared store.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Mode {
    /// The store is asked for each. Exact.
    #[default]
    Strict,
    /// A node takes units of warm keys ahead, and spends them without asking. Never over-admits;
    /// may refuse what lies leased elsewhere.
    Leased,
    /// A node decides on what it knows, and reports what it admitted at intervals. Over-admits, by
    /// what the nodes admit within one interval.
    WriteBack,
}

/// What happens when the shared store has no answer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum OnStoreError {
    /// The request passes, and nothing is charged. Over-admits without bound for as long as it
    /// lasts.
    Allow,
    /// The request is denied, to come back soon; the denial says that the store is unavailable.
    /// Over-admits nothing.
    Deny,
    /// There is no decision: whoever asks gets the store's error, and decides what it means (gRPC
    /// `UNAVAILABLE`, HTTP 503; Envoy then does what its `failure_mode_deny` says).
    Error,
    /// The node alone decides, on its share of the limit: a [`Sharing::nodes`]-th of the units,
    /// rounded down, and one unit at least. Over-admits as long as it lasts, per window at most
    /// what all shares together hold. The default: a service whose Redis is down neither denies
    /// everybody nor lets everybody through.
    #[default]
    Local,
}

// === impl Sharing ===

impl Sharing {
    /// Shared in this mode, by as many nodes as are counted; each decides on its share while the
    /// store has no answer.
    pub const fn in_mode(mode: Mode) -> Sharing {
        Sharing {
            mode,
            on_store_error: OnStoreError::Local,
            nodes: None,
        }
    }
}

// === impl Mode ===

impl Mode {
    /// Whether limits of this algorithm can be shared so; all others are shared as in
    /// [`Mode::Strict`].
    ///
    /// Nodes that let a leaky bucket's requests go on their own would let several go at a time, so
    /// only the shared store can. A sliding log promises an exact count, which a report that comes
    /// later breaks.
    pub const fn suits(self, algorithm: Algorithm) -> bool {
        match (self, algorithm) {
            (Mode::Strict, _) => true,
            (Mode::Leased | Mode::WriteBack, Algorithm::LeakyBucket)
            | (Mode::WriteBack, Algorithm::SlidingLog) => false,
            (Mode::Leased | Mode::WriteBack, _) => true,
        }
    }
}

impl fmt::Display for Mode {
    /// The word in a rules file.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Mode::Strict => "strict",
            Mode::Leased => "leased",
            Mode::WriteBack => "write_back",
        })
    }
}

// === impl OnStoreError ===

impl fmt::Display for OnStoreError {
    /// The word in a rules file.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            OnStoreError::Allow => "allow",
            OnStoreError::Deny => "deny",
            OnStoreError::Error => "error",
            OnStoreError::Local => "local",
        })
    }
}
