//! Why a wait for units ends without them.

use std::fmt;

use tollgate_core::StoreError;

use crate::joint::JointError;

/// Why waiting would not help.
#[derive(Debug)]
#[non_exhaustive]
pub enum NotReady {
    /// The units exceed the limit's capacity: ask for fewer, or raise the burst.
    NeverFits,
    /// The maximum number of requests is waiting already. Nothing was charged. Try again later, or
    /// raise [`super::Builder::max_waiting`], up to [`crate::WAITING_MAX`] over all keys.
    TooManyWaiting {
        /// The maximum.
        max: usize,
    },
    /// Limits that should decide together count in different memory.
    NotSiblings(JointError),
    /// The store failed; nothing was charged.
    Store(StoreError),
}

// === impl NotReady ===

impl From<JointError> for NotReady {
    fn from(error: JointError) -> NotReady {
        match error {
            JointError::Store(error) => NotReady::Store(error),
            JointError::NotSiblings { .. } => NotReady::NotSiblings(error),
        }
    }
}

impl fmt::Display for NotReady {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            NotReady::NeverFits => f.write_str("more units than the limit ever allows"),
            NotReady::TooManyWaiting { max } => {
                write!(f, "{max} requests wait already, and no more may")
            }
            NotReady::NotSiblings(_) => f.write_str("the limits cannot be asked together"),
            NotReady::Store(_) => f.write_str("the store has no answer"),
        }
    }
}

impl std::error::Error for NotReady {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            NotReady::Store(source) => Some(source),
            NotReady::NotSiblings(source) => Some(source),
            _ => None,
        }
    }
}
