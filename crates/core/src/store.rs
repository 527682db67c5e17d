//! The interface of stores, which keep the state that decisions are made on.

use std::fmt;
use std::future::Future;

use crate::charge::Charge;
use crate::key::Key;
use crate::span::Span;
use crate::verdict::{TooManyCharges, Verdict};

/// How often a request is resolved before its decision fails because each time other rules had
/// come into effect meanwhile ([`StoreError::Superseded`]).
pub const RESOLUTIONS_MAX: usize = 8;

/// Makes keys, in the way that one store needs them.
pub trait KeyHasher {
    /// The key of `parts`, in which the borders between parts count.
    fn key<'p>(&self, parts: impl Iterator<Item = &'p [u8]>) -> Key;
}

/// Keeps what was consumed, and decides on requests.
///
/// Charges go in and a verdict comes out, so the state may be on another machine.
pub trait Store: KeyHasher + Send + Sync {
    /// All or nothing over `charges`, at the store's own time.
    ///
    /// # Errors
    ///
    /// [`StoreError`] is a failure of the store; a denial is a [`Verdict`].
    fn decide(
        &self,
        charges: &[Charge<'_>],
    ) -> impl Future<Output = Result<Verdict, StoreError>> + Send;
}

/// Why a store has no answer.
#[derive(Debug)]
#[non_exhaustive]
pub enum StoreError {
    /// The request carries too many charges. Nothing was charged.
    TooManyCharges(TooManyCharges),
    /// Another decision on one of the keys did not finish in time. Nothing was charged.
    Contended,
    /// A later limit of one of the rules is in effect: the request's rules were replaced while it
    /// was decided. Nothing was charged. Resolve the request again with the present rules; if they
    /// are the same as before, say so with [`Charge::is_current`].
    Superseded,
    /// The store's memory is full of other large states, and none of them could be evicted.
    /// Nothing was charged.
    Full,
    /// The store cannot keep one of the limits. Nothing was charged.
    Unfit {
        /// Why, and what to do instead.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// The store cannot be reached. Nothing was charged.
    Unreachable {
        /// Where the store should be.
        address: Box<str>,
        /// What happened instead.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// No answer in time. It may have been charged: do not ask again.
    TimedOut {
        /// How long the answer was waited for.
        after: Span,
    },
    /// The answer makes no sense. Asking again will not help.
    BadReply {
        /// What is wrong with it.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
}

// === impl StoreError ===

impl fmt::Display for StoreError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            StoreError::TooManyCharges(_) => f.write_str("the request meets too many limits"),
            StoreError::Contended => {
                f.write_str("another decision on the same key did not finish in time")
            }
            StoreError::Superseded => {
                f.write_str("the rules were replaced while the request was decided")
            }
            StoreError::Full => f.write_str("the store's memory for large states is spent"),
            StoreError::Unfit { .. } => f.write_str("the store cannot keep such a limit"),
            StoreError::Unreachable { address, .. } => write!(f, "cannot reach {address}"),
            StoreError::TimedOut { after } => write!(f, "no answer within {after}"),
            StoreError::BadReply { .. } => f.write_str("the store's answer makes no sense"),
        }
    }
}

impl std::error::Error for StoreError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            StoreError::TooManyCharges(source) => Some(source),
            StoreError::Unfit { source }
            | StoreError::Unreachable { source, .. }
            | StoreError::BadReply { source } => Some(source.as_ref()),
            _ => None,
        }
    }
}

impl From<TooManyCharges> for StoreError {
    fn from(too_many: TooManyCharges) -> StoreError {
        StoreError::TooManyCharges(too_many)
    }
}
