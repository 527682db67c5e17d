//! Why several limits could not decide together.

use std::fmt;

use tollgate_core::StoreError;

/// Why several limits could not decide together. Nothing was charged.
#[derive(Debug)]
#[non_exhaustive]
pub enum JointError {
    /// Two limiters count in different stores, so they cannot be charged together. In memory, make
    /// the second with [`crate::Limiter::sibling`], or all of them with [`crate::Limits`]; over
    /// Redis, make all of them with the same `redis::Redis`.
    NotSiblings {
        /// The name of the limit that is not a sibling of the first.
        name: Box<str>,
    },
    /// The store failed.
    Store(StoreError),
}

// === impl JointError ===

impl fmt::Display for JointError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            JointError::NotSiblings { name } => write!(
                f,
                "`{name}` counts in another store than the first limit: in memory, make it with \
                 `sibling`; over Redis, with the same `Redis`"
            ),
            JointError::Store(_) => f.write_str("the store has no answer"),
        }
    }
}

impl std::error::Error for JointError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            JointError::Store(source) => Some(source),
            JointError::NotSiblings { .. } => None,
        }
    }
}
