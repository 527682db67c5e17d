//! The answer to a request, independent of the protocol.

use std::sync::Arc;
use std::time::Duration;

use crate::charge::Enforcement;
use crate::decision::Decision;
use crate::limit::Limit;
use crate::request::PerDescriptor;
use crate::span::Span;
use crate::verdict::{DenialReason, RequestDenial};

/// The answer to one [`crate::Request`].
#[must_use = "an answer that is not read enforces nothing"]
#[derive(Clone, Debug, PartialEq)]
pub struct Answer {
    /// One for each descriptor, in their order.
    pub statuses: PerDescriptor<Status>,
    /// Why the request is denied, `by` the index of a status; `None` if it is allowed.
    pub denial: Option<RequestDenial>,
    /// How long to hold the request. Protocols that cannot hold a request report it instead.
    pub delay: Span,
}

/// The result for one descriptor.
#[derive(Clone, Debug, PartialEq)]
pub enum Status {
    /// No rule with a limit matched, or another matching rule replaces it.
    NoLimit,
    /// The matching rule allows every request and counts nothing.
    Unlimited {
        /// Which rule.
        rule: Arc<RuleName>,
    },
    /// A limit decided on it.
    Limited(Limited),
}

/// What a limit decided on one descriptor.
#[derive(Clone, Debug, PartialEq)]
pub struct Limited {
    /// Which rule.
    pub rule: Arc<RuleName>,
    /// The rule's limit, as the request met it: with or without priority and headroom.
    pub limit: Limit,
    /// What it decided.
    pub decision: Decision,
    /// What a denial by this limit does to the request.
    pub enforcement: Enforcement,
}

/// The name of a rule, in answers, logs and metrics.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct RuleName {
    /// The domain that it belongs to.
    pub domain: String,
    /// Its position within the domain, as written in the file: `remote_address`, or
    /// `path_/login.remote_address`.
    pub path: String,
    /// The rule's own `name`, if it has one.
    pub name: Option<String>,
}

// === impl Answer ===

impl Answer {
    /// Whether the request is allowed.
    pub const fn is_allowed(&self) -> bool {
        self.denial.is_none()
    }

    /// The exact time until a retry is allowed; `None` if the request is allowed or never can be.
    pub fn retry_after(&self) -> Option<Duration> {
        self.denial?.wait.to_duration()
    }

    /// [`Answer::retry_after`] in whole seconds, rounded up: the value of a `Retry-After` header.
    pub fn retry_after_secs(&self) -> Option<u64> {
        self.denial?.wait.as_secs_ceil()
    }

    /// Whether the request is denied only because the shared store did not answer.
    pub fn is_store_unavailable(&self) -> bool {
        self.denial
            .is_some_and(|denial| denial.reason == DenialReason::StoreUnavailable)
    }

    /// Whether the request is allowed in the soft part of a limit.
    pub fn is_over_soft(&self) -> bool {
        self.is_allowed()
            && self.limited().any(|limited| match limited.decision {
                Decision::Allow(grant) => grant.over_soft,
                Decision::Deny(_) => false,
            })
    }

    /// The limits' decisions, without the descriptors that met no limit.
    pub fn limited(&self) -> impl Iterator<Item = &Limited> {
        self.statuses.iter().filter_map(|status| match status {
            Status::Limited(limited) => Some(limited),
            _ => None,
        })
    }

    /// The limit that denied the request.
    pub fn denied_by(&self) -> Option<&Limited> {
        match self.statuses.get(self.denial?.by)? {
            Status::Limited(limited) => Some(limited),
            _ => None,
        }
    }
}

// === impl Limited ===

impl Limited {
    /// Whether the limit is reported as exceeded. A shadow limit never is.
    pub const fn is_over(&self) -> bool {
        !self.decision.is_allowed() && !matches!(self.enforcement, Enforcement::Shadow)
    }

    /// What fits at once, of which [`Limited::remaining`] is a part: also what is kept for requests
    /// with priority, but no elastic part without headroom.
    pub const fn capacity(&self) -> u32 {
        self.limit.for_priority().available()
    }

    /// The remaining units to report: 0 for a shadow limit that would deny.
    pub const fn remaining(&self) -> u32 {
        match (&self.decision, self.enforcement) {
            (Decision::Deny(_), Enforcement::Shadow) => 0,
            (decision, _) => decision.remaining(),
        }
    }
}

// === impl RuleName ===

impl RuleName {
    /// The rule's own name, or its path if it has none.
    pub fn shown(&self) -> &str {
        self.name.as_deref().unwrap_or(&self.path)
    }
}
