//! The answer to a request, whichever protocol it came by.

use std::sync::Arc;
use std::time::Duration;

use crate::charge::Enforcement;
use crate::decision::Decision;
use crate::limit::Limit;
use crate::span::Span;
use crate::verdict::{DenialReason, RequestDenial};

/// The answer to one [`crate::Request`].
#[must_use = "an answer that is not read enforces nothing"]
#[derive(Clone, Debug, PartialEq)]
pub struct Answer {
    /// One for each descriptor, in their order.
    pub statuses: Vec<Status>,
    /// Why the request is denied, `by` the index of a status; `None` if it is allowed.
    pub denial: Option<RequestDenial>,
    /// How long the request is to be held. Protocols that hold no request report it.
    pub delay: Span,
}

/// What became of one descriptor.
#[derive(Clone, Debug, PartialEq)]
pub enum Status {
    /// No rule with a limit matched, or a rule that another one replaces.
    NoLimit,
    /// The rule that matched allows without counting.
    Unlimited {
        /// Which rule.
        rule: Arc<RuleName>,
    },
    /// A limit judged it.
    Limited(Limited),
}

/// What a limit said to one descriptor.
#[derive(Clone, Debug, PartialEq)]
pub struct Limited {
    /// Which rule.
    pub rule: Arc<RuleName>,
    /// The rule's limit.
    pub limit: Limit,
    /// What it said.
    pub decision: Decision,
    /// What its denial does.
    pub enforcement: Enforcement,
}

/// The name of a rule, in answers, logs and metrics.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct RuleName {
    /// The domain that it belongs to.
    pub domain: String,
    /// Where it stands below its domain, as written in the file: `remote_address`, or
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

    /// When to try again, exactly; `None` if the request is allowed, and if it never will be.
    pub fn retry_after(&self) -> Option<Duration> {
        self.denial?.wait.to_duration()
    }

    /// [`Answer::retry_after`] in whole seconds, rounded up: the value of a `Retry-After` header.
    pub fn retry_after_secs(&self) -> Option<u64> {
        self.denial?.wait.as_secs_ceil()
    }

    /// Whether the request is denied only because the shared store has no answer.
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

    /// What the limits said, without descriptors that met none.
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
    /// Whether the limit is over and says so: a shadow limit never does.
    pub const fn is_over(&self) -> bool {
        !self.decision.is_allowed() && !matches!(self.enforcement, Enforcement::Shadow)
    }

    /// What remains, as it is reported: 0 for a shadow limit that would deny.
    pub const fn remaining(&self) -> u32 {
        match (&self.decision, self.enforcement) {
            (Decision::Deny(_), Enforcement::Shadow) => 0,
            (decision, _) => decision.remaining(),
        }
    }
}

// === impl RuleName ===

impl RuleName {
    /// The rule's own name, or else where it stands.
    pub fn shown(&self) -> &str {
        self.name.as_deref().unwrap_or(&self.path)
    }
}
