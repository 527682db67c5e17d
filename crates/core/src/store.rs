//! The interface of stores, which keep the state of keys and decide on requests.

use std::fmt;
use std::future::Future;

use crate::charge::Charge;
use crate::key::Key;
use crate::span::Span;
use crate::verdict::{TooManyCharges, Verdict};

/// How often a request is resolved again because a reload superseded its rules
/// ([`StoreError::Superseded`]) before the decision fails.
pub const RESOLUTIONS_MAX: usize = 8;

/// Makes the keys of one store: each store has its own hash.
pub trait KeyHasher {
    /// The key of `parts`. The boundaries between parts count: `("a", "bc")` is not `("ab", "c")`.
    fn key<'p>(&self, parts: impl Iterator<Item = &'p [u8]>) -> Key;
}

/// Keeps the consumed units of every key, and decides on requests.
///
/// Charges go in and a verdict comes out: the state itself may be on another machine.
pub trait Store: KeyHasher + Send + Sync {
    /// Decides on `charges`, all or nothing, at the time of the store's own clock.
    ///
    /// # Errors
    ///
    /// [`StoreError`] is a failure of the store; a denial is a [`Verdict`].
    fn decide(
        &self,
        charges: &[Charge<'_>],
    ) -> impl Future<Output = Result<Verdict, StoreError>> + Send;

    /// Decides on independent requests, each with its charges, as [`Store::decide`] would one after
    /// the other in their order: one that shares a key with an earlier one is decided after it.
    /// The answers are in the same order.
    ///
    /// By itself, this is a loop. A store that saves work or round trips overrides it.
    fn decide_batch(
        &self,
        batch: &[&[Charge<'_>]],
    ) -> impl Future<Output = Vec<Result<Verdict, StoreError>>> + Send {
        async move {
            let mut verdicts = Vec::with_capacity(batch.len());
            for charges in batch {
                verdicts.push(self.decide(charges).await);
            }
            verdicts
        }
    }
}

/// Why a store could not decide.
#[derive(Debug)]
#[non_exhaustive]
pub enum StoreError {
    /// The request carries too many charges. Nothing was charged.
    TooManyCharges(TooManyCharges),
    /// Another decision on one of the keys did not finish in time, or its migration to another
    /// server of the store. Nothing was charged.
    Contended,
    /// A newer limit of one of the rules is in effect: the rules were replaced during the decision.
    /// Nothing was charged. Resolve the request again with the current rules; if they have not
    /// changed, set [`crate::Resolution::Latest`].
    Superseded,
    /// The memory for large states is full, and none of them could be evicted. Nothing was charged.
    Full,
    /// The store cannot keep one of the limits. Nothing was charged.
    Unfit {
        /// Why not, and what to do instead.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// The store cannot be reached. Nothing was charged.
    Unreachable {
        /// The store's address.
        address: Box<str>,
        /// Why the connection failed.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// The store answers that it does not decide. Nothing was charged.
    Rejected {
        /// The store's address.
        address: Box<str>,
        /// What the store answered.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// The store did not answer in time. The request may have been charged: do not retry it.
    TimedOut {
        /// The timeout.
        after: Span,
    },
    /// The store had no answer before the rules were replaced, and was not asked again
    /// ([`crate::Resolution::Again`]). The request may have been charged: do not retry it.
    Unanswered,
    /// The store's answer is invalid. A retry would not help.
    BadReply {
        /// What is wrong with it.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
}

// === impl StoreError ===

impl StoreError {
    /// The error as clients may see it: without the store's address, which is for operators.
    pub fn without_address(&self) -> String {
        match self {
            StoreError::Unreachable { .. } | StoreError::Rejected { .. } => {
                "it cannot be reached, or does not decide".to_owned()
            }
            error => error.to_string(),
        }
    }
}

impl fmt::Display for StoreError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            StoreError::TooManyCharges(_) => f.write_str("the request meets too many limits"),
            StoreError::Contended => f.write_str(
                "another decision on the same key, or its migration, did not finish in time",
            ),
            StoreError::Superseded => {
                f.write_str("the rules were replaced while the request was decided")
            }
            StoreError::Full => {
                f.write_str("the store's memory for large states is full; raise `max_bytes`")
            }
            StoreError::Unfit { .. } => f.write_str("the store cannot keep such a limit"),
            StoreError::Unreachable { address, .. } => write!(f, "cannot reach {address}"),
            StoreError::Rejected { address, .. } => write!(f, "{address} rejects the command"),
            StoreError::TimedOut { after } => write!(f, "no answer within {after}"),
            StoreError::Unanswered => {
                f.write_str("no answer, and the rules were replaced meanwhile")
            }
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
            | StoreError::Rejected { source, .. }
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
