//! How several instances share one limit.

use std::fmt;
use std::num::NonZeroU32;

use crate::limit::Algorithm;

/// How several instances share one limit. A store in one process has nothing to share: it is always
/// exact, and always available.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Sharing {
    /// How decisions are made.
    pub mode: Mode,
    /// What happens when the shared store has no answer.
    pub on_store_error: OnStoreError,
    /// How many instances there are; `None` if the store is to count them.
    pub nodes: Option<NonZeroU32>,
}

/// How decisions are made over a shared store.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Mode {
    /// Each is made by the store. Exact.
    #[default]
    Strict,
    /// An instance leases units of warm keys, and spends them without asking. Never over-admits;
    /// may deny while another instance holds units.
    Leased,
    /// An instance decides on its local counts, and reports them at intervals. Over-admits, by what
    /// the instances allow within one interval.
    WriteBack,
}

/// What happens when the shared store has no answer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum OnStoreError {
    /// The request is allowed, and nothing is charged. Over-admits without bound for as long as it
    /// lasts.
    Allow,
    /// The request is denied with a short wait; the denial says that the store is unavailable.
    /// Over-admits nothing.
    Deny,
    /// There is no decision: the caller gets the store's error, and decides what it means (gRPC
    /// `UNAVAILABLE`, HTTP 503; Envoy then does what its `failure_mode_deny` says).
    Error,
    /// The instance alone decides, on its share of the limit: a [`Sharing::nodes`]-th of the units,
    /// rounded down, and one unit at least. Over-admits as long as it lasts, per window at most
    /// what all shares together hold. The default: a service whose Redis is down neither denies
    /// all requests nor allows all of them.
    #[default]
    Local,
}

// === impl Sharing ===

impl Sharing {
    /// Shared in this mode, by as many instances as are counted; each decides on its share while
    /// the store has no answer.
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
    /// Whether limits of this algorithm can be shared this way; all others are shared as in
    /// [`Mode::Strict`].
    ///
    /// Instances that release a leaky bucket's requests on their own would release several at a
    /// time, so only the shared store can. A sliding log promises an exact count, which a later
    /// report breaks.
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
