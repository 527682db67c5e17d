//! A cache of the rules that requests meet, for frequent requests.

use std::sync::Arc;

use tollgate_core::{Answer, Charge, Decision, Grant, PerCharge, RuleName, Status, Verdict};
use tollgate_rules::Resolved;

/// The most requests in the cache; the rules of others are looked up again.
const KEPT_MAX: usize = 1 << 14;

/// The rules of recent requests. The cache is direct-mapped: a request has one slot, which it
/// shares with others.
#[derive(Default)]
pub(crate) struct Cache<'r> {
    kept: Vec<Option<(u32, CachedRules<'r>)>>,
}

/// The charges and rules of a request.
pub(crate) struct CachedRules<'r> {
    resolved: Resolved<'r>,
    /// For each charge, in their order, its descriptor and its rule.
    limited: Vec<(usize, Arc<RuleName>)>,
    matches_unlimited: bool,
}

// === impl Cache ===

impl<'r> Cache<'r> {
    /// The charges and rules of this request; `resolve` finds them if they are not cached.
    pub(crate) fn get_or_resolve(
        &mut self,
        request: u32,
        resolve: impl FnOnce() -> Resolved<'r>,
    ) -> &CachedRules<'r> {
        let number = usize::try_from(request).unwrap_or_default();
        let place = number % KEPT_MAX;
        if self.kept.len() <= place {
            self.kept.resize_with(place + 1, || None);
        }
        let kept = &mut self.kept[place];
        if kept.as_ref().is_none_or(|(known, _)| *known != request) {
            *kept = None;
        }
        let (_, cached) = kept.get_or_insert_with(|| (request, CachedRules::of(resolve())));
        cached
    }
}

// === impl CachedRules ===

impl<'r> CachedRules<'r> {
    /// What a request resolves to.
    pub(crate) fn of(resolved: Resolved<'r>) -> CachedRules<'r> {
        let charges = resolved.charges().len();
        let decisions = PerCharge::from_elem(Decision::Allow(Grant::default()), charges);
        let all_passes = Verdict::new(decisions, None);
        let answer = resolved.answer(&all_passes);
        let is_unlimited = |status: &Status| matches!(status, Status::Unlimited { .. });
        let matches_unlimited = answer.statuses.iter().any(is_unlimited);
        let statuses = answer.statuses.into_iter().enumerate();
        let limited = statuses.filter_map(|(index, status)| match status {
            Status::Limited(limited) => Some((index, limited.rule)),
            _ => None,
        });
        CachedRules {
            limited: limited.collect(),
            matches_unlimited,
            resolved,
        }
    }

    pub(crate) fn charges(&self) -> PerCharge<Charge<'_>> {
        self.resolved.charges()
    }

    /// For each charge, in their order, its descriptor and its rule.
    pub(crate) fn rules_by_charge(&self) -> &[(usize, Arc<RuleName>)] {
        &self.limited
    }

    /// Whether an unlimited rule matches.
    pub(crate) const fn matches_unlimited(&self) -> bool {
        self.matches_unlimited
    }

    pub(crate) fn answer(&self, verdict: &Verdict) -> Answer {
        self.resolved.answer(verdict)
    }
}
