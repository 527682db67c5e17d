//! How several instances share one limit.

use std::fmt;
use std::num::NonZeroU32;

use crate::limit::{Algorithm, Limit};
use crate::span::Span;

/// The shortest segments of a sliding window that [`Mode::Leased`] suits.
pub const SEGMENT_LEASED_MIN: Span = Span::from_secs(5);

/// How several instances share one limit. The in-process store ignores it: it is always exact and
/// always available.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Sharing {
    /// Where decisions are made.
    pub mode: Mode,
    /// What happens when the shared store does not answer.
    pub on_store_error: OnStoreError,
    /// The number of instances; `None` to use the number that the store counts.
    pub instances: Option<NonZeroU32>,
}

/// How decisions are made with a shared store.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Mode {
    /// The store makes every decision. Exact.
    #[default]
    Strict,
    /// An instance leases units of busy keys and spends them locally. Never allows more than the
    /// limit; may deny while another instance holds unspent units.
    Leased,
    /// An instance decides on its local counts and reports them at intervals. May allow more than
    /// the limit: by what the instances allow within one interval.
    WriteBack,
}

/// What happens when the shared store does not answer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum OnStoreError {
    /// The request is allowed and nothing is charged. Nothing is limited while the outage lasts.
    Allow,
    /// The request is denied with a short wait; the denial says that the store is unavailable.
    /// Never allows more than the limit. Of all choices, this one also denies a request that other
    /// requests kept from a decision ([`StoreError::Contended`](crate::StoreError::Contended)).
    Deny,
    /// There is no decision: the client gets an error (gRPC `UNAVAILABLE`, HTTP 503) and decides
    /// what it means. Envoy does what its `failure_mode_deny` says.
    Error,
    /// The instance decides alone, on its share of the limit: the units divided by
    /// [`Sharing::instances`], rounded down, and at least one. At least one is not kept for
    /// priority, if the limit has such units. During the outage the instances
    /// together allow at most the sum of their shares per window, in addition to what was consumed
    /// before it. The default: without its store, a service neither denies nor allows all requests.
    #[default]
    Local,
}

// === impl Sharing ===

impl Sharing {
    /// Shared in this mode, by as many instances as the store counts; each decides on its share
    /// while the store does not answer.
    pub const fn in_mode(mode: Mode) -> Sharing {
        Sharing {
            mode,
            on_store_error: OnStoreError::Local,
            instances: None,
        }
    }
}

// === impl Mode ===

impl Mode {
    /// Whether this limit can be shared this way; all others are shared as in [`Mode::Strict`].
    ///
    /// A leaky bucket releases one request at a time, and only the shared store can order the
    /// requests of all instances. A sliding log has a time for each unit, which a delayed report
    /// would not have. A sliding window can be leased if its segments last [`SEGMENT_LEASED_MIN`]:
    /// a lease ends with its segment, so that its units count in the one in which they are spent.
    /// Of a limit with a share for requests with priority, what one instance has
    /// leased or allowed for itself would not be there for the others' requests with priority. Of
    /// a limit with an elastic part, it could be used when the headroom has gone.
    pub fn suits(self, limit: &Limit) -> bool {
        match (self, limit.algorithm()) {
            (Mode::Strict, _) => true,
            (Mode::Leased | Mode::WriteBack, _)
                if limit.priority_percent() != 0 || limit.elastic_percent() != 0 =>
            {
                false
            }
            (Mode::Leased | Mode::WriteBack, Algorithm::LeakyBucket | Algorithm::SlidingLog) => {
                false
            }
            (Mode::Leased, Algorithm::SlidingWindow(segments)) => {
                limit.window() >= SEGMENT_LEASED_MIN.times(segments.get().into())
            }
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
