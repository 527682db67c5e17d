//! Why the router has no reply.

use tollgate_core::{Key, Span, StoreError};

use crate::cluster::Node;
use crate::failure::{Failure, NO_ANSWER};
use crate::keys;
use crate::request_queue::Redirected;
use crate::resp::Malformed;

/// A failure and the node where it happened.
#[derive(Clone)]
pub(crate) struct NodeFailure {
    pub(crate) failure: Failure,
    pub(super) address: String,
}

// === impl NodeFailure ===

impl NodeFailure {
    /// A reply that does not belong to its request.
    pub(crate) fn bad_reply(key: Key) -> NodeFailure {
        NodeFailure {
            failure: Failure::Malformed(Malformed("a reply that does not match the request")),
            address: String::from_utf8_lossy(&keys::name(key)).into_owned(),
        }
    }

    /// No node serves the slot; `node` was the last one tried.
    pub(super) fn no_node(node: Option<&Node>) -> NodeFailure {
        let address = node.map_or("the cluster", |node| &node.address);
        NodeFailure {
            failure: Failure::unreachable("no node serves the slot"),
            address: address.to_owned(),
        }
    }

    /// The last redirect is not followed any more; `node` was the last one tried. If it was
    /// `TRYAGAIN`, Redis answers: this is no outage, and a decision beside its counts would exceed
    /// them.
    pub(super) fn of_last_redirect(last: Redirected, node: Option<&Node>) -> NodeFailure {
        let failed = NodeFailure::no_node(node);
        match last {
            Redirected::TryAgain => NodeFailure {
                failure: Failure::TryAgain,
                ..failed
            },
            Redirected::No | Redirected::Ask => failed,
        }
    }

    /// Whether nothing was done, because the slot migrates, and the keys are on two nodes.
    pub(crate) const fn is_split(&self) -> bool {
        matches!(self.failure, Failure::TryAgain)
    }

    /// Whether nothing was done, because a key needs the general script.
    pub(crate) const fn needs_general(&self) -> bool {
        matches!(self.failure, Failure::Changed)
    }

    /// Whether nothing was done, because its slots are not, or no longer, decided on together.
    pub(crate) const fn is_apart(&self) -> bool {
        matches!(self.failure, Failure::Apart)
    }

    /// The same failure for a request that changes nothing: whether it was executed does not
    /// matter.
    pub(crate) fn into_unsent(self) -> NodeFailure {
        match self.failure {
            Failure::OutcomeUnknown => NodeFailure {
                failure: Failure::unreachable(NO_ANSWER),
                ..self
            },
            _ => self,
        }
    }

    pub(crate) fn into_error(self, timeout: Span) -> StoreError {
        self.failure.into_error(&self.address, timeout)
    }
}
