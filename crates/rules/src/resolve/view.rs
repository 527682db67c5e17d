//! How a request meets a limit: with or without priority, with or without headroom.

use tollgate_core::{Cost, Limit};

use crate::domain::{Domain, ElasticLimit, RuleLimit};
use crate::headroom::{Headroom, HeadroomSource};

/// What else than its entries decides how a descriptor meets its limit.
pub(super) struct Circumstances<'r> {
    pub(super) cost: Cost,
    /// The priority that the request states.
    pub(super) priority: Option<&'r [u8]>,
    pub(super) headroom: &'r dyn Headroom,
}

// === impl Circumstances ===

impl Circumstances<'_> {
    /// The limit of a rule of `domain` as the request meets it; `None` if it is unlimited.
    pub(super) fn view<'s>(&self, limit: &'s RuleLimit, domain: &str) -> Option<&'s Limit> {
        let share = match limit {
            RuleLimit::Unlimited => None,
            RuleLimit::Limited { for_priority, .. } => for_priority.as_deref(),
        };
        let has_priority = share.is_some_and(|share| share.is_for(self.priority));
        let has_headroom = limit.has_headroom(domain, self.headroom);
        limit.view(has_priority, has_headroom == Some(true))
    }
}

// === impl RuleLimit ===

impl RuleLimit {
    /// Whether there is headroom for its elastic part now; `None` if it has none.
    pub(crate) fn has_headroom(&self, domain: &str, headroom: &dyn Headroom) -> Option<bool> {
        match self {
            RuleLimit::Unlimited | RuleLimit::Limited { elastic: None, .. } => None,
            RuleLimit::Limited {
                elastic: Some(elastic),
                ..
            } => Some(elastic.has_headroom(domain, headroom)),
        }
    }

    /// What has to report headroom for its elastic part; nothing if it has none.
    fn sources(&self) -> &[HeadroomSource] {
        match self {
            RuleLimit::Limited {
                elastic: Some(elastic),
                ..
            } => &elastic.sources,
            RuleLimit::Unlimited | RuleLimit::Limited { elastic: None, .. } => &[],
        }
    }

    /// Each of these, and whether it reports headroom now.
    pub(crate) fn ask_sources(
        &self,
        domain: &str,
        headroom: &dyn Headroom,
    ) -> Vec<(HeadroomSource, bool)> {
        let sources = self.sources().iter();
        let asked = sources.map(|source| (*source, headroom.has_headroom(domain, source)));
        asked.collect()
    }

    /// The limit as such a request meets it; `None` if it is unlimited.
    pub(super) fn view(&self, has_priority: bool, has_headroom: bool) -> Option<&Limit> {
        let RuleLimit::Limited {
            limit,
            for_priority,
            elastic,
            ..
        } = self
        else {
            return None;
        };
        let priority = for_priority.as_deref().filter(|_| has_priority);
        let elastic = elastic.as_deref().filter(|_| has_headroom);
        Some(match (priority, elastic) {
            (None, None) => limit,
            (Some(share), None) => &share.limit,
            (None, Some(elastic)) => &elastic.with_headroom,
            (Some(_), Some(elastic)) => &elastic.whole,
        })
    }
}

// === impl ElasticLimit ===

impl ElasticLimit {
    fn has_headroom(&self, domain: &str, headroom: &dyn Headroom) -> bool {
        let mut sources = self.sources.iter();
        sources.all(|source| headroom.has_headroom(domain, source))
    }
}

// === impl Domain ===

impl Domain {
    /// Whether one of its limits has an elastic part for which `source` has to report.
    pub(crate) fn uses_headroom(&self, source: HeadroomSource) -> bool {
        let mut limits = self.rules.iter().map(|rule| &rule.limit);
        limits.any(|limit| limit.sources().contains(&source))
    }
}
