//! A domain as written in its files, with the position of every value: the parser makes it, the
//! checks read it, and the look-up tables are built from it.

use serde_json::{Map, Value};
use tollgate_core::{ChargeDenied, Limit};

use crate::findings::Mark;
use crate::headroom::HeadroomSource;
use crate::sharing::SharingDraft;

/// A value and its position.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Spanned<T> {
    pub(crate) value: T,
    pub(crate) mark: Mark,
}

/// One domain.
#[derive(Clone, Debug)]
pub(crate) struct DomainDraft {
    /// Empty if it is missing or wrong.
    pub(crate) name: Spanned<String>,
    pub(crate) files: Vec<String>,
    pub(crate) charge_denied: Option<Spanned<ChargeDenied>>,
    pub(crate) sharing: SharingDraft,
    /// What the priority of a request is called.
    pub(crate) priority_key: Option<Spanned<String>>,
    pub(crate) descriptors: Vec<DescriptorDraft>,
}

/// One descriptor.
#[derive(Clone, Debug)]
pub(crate) struct DescriptorDraft {
    pub(crate) key: Spanned<String>,
    pub(crate) value: Option<Spanned<String>>,
    /// `None` without `rate_limit`.
    pub(crate) rate_limit: Option<RateLimitDraft>,
    pub(crate) descriptors: Vec<DescriptorDraft>,
    pub(crate) flags: Flags,
    /// The percentage of the keys for which the limit is enforced; `None` is all.
    pub(crate) enforce: Option<Spanned<u8>>,
    pub(crate) metadata: Option<Spanned<Map<String, Value>>>,
    /// Whether there is an error in it or below, so that something may be missing.
    pub(crate) damaged: bool,
}

/// The flags of a descriptor that are set, and where.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Flags {
    pub(crate) shadow_mode: Option<Mark>,
    pub(crate) quota_mode: Option<Mark>,
    pub(crate) share_threshold: Option<Mark>,
    pub(crate) detailed_metric: Option<Mark>,
    pub(crate) value_to_metric: Option<Mark>,
}

/// A `rate_limit`.
#[derive(Clone, Debug)]
pub(crate) struct RateLimitDraft {
    /// `None` if it is unlimited.
    pub(crate) limit: Option<Limit>,
    /// Where the 0 is that leaves no room for anything: the count, the burst or the queue.
    pub(crate) zero: Option<Mark>,
    /// The priorities that can use the limit's share.
    pub(crate) reserved: Option<Spanned<Vec<String>>>,
    /// What has to report headroom, for the limit's elastic part.
    pub(crate) elastic: Option<Spanned<Vec<HeadroomSource>>>,
    pub(crate) name: Option<Spanned<String>>,
    pub(crate) replaces: Vec<Spanned<String>>,
    pub(crate) charge_denied: Option<Spanned<ChargeDenied>>,
    pub(crate) sharing: SharingDraft,
}

// === impl DomainDraft ===

impl DomainDraft {
    /// Whether its name is missing or wrong, which was reported: then it is never loaded.
    pub(crate) fn is_nameless(&self) -> bool {
        self.name.value.is_empty()
    }

    /// Whether one of its limits keeps a share for requests with priority.
    pub(crate) fn has_reserved(&self) -> bool {
        self.descriptors.iter().any(DescriptorDraft::has_reserved)
    }
}

// === impl DescriptorDraft ===

impl DescriptorDraft {
    /// Whether a limit here or below keeps a share for requests with priority.
    pub(crate) fn has_reserved(&self) -> bool {
        let rate_limit = self.rate_limit.as_ref();
        rate_limit.is_some_and(|rate_limit| rate_limit.reserved.is_some())
            || self.descriptors.iter().any(DescriptorDraft::has_reserved)
    }

    /// The value, if it has a star in it.
    pub(crate) fn pattern(&self) -> Option<&str> {
        let value = self.value.as_ref()?;
        value.value.contains('*').then_some(value.value.as_str())
    }
}
