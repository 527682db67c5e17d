//! Why a rule applies to a descriptor, or none does, in a sentence.

use tollgate_core::Escaped;
use tollgate_rules::{CandidateOutcome, Finding, LookUp, RuleDescriptor, RuleView, Walk};

use super::{Part, place, written};

// === impl Part ===

impl Part<'_, '_> {
    /// The name of what applies.
    pub(super) const fn outcome(&self) -> &'static str {
        match self.finding {
            Finding::UnknownDomain => "unknown_domain",
            Finding::NoMatch => "no_match",
            Finding::NoLimit => "no_limit",
            Finding::Priority => "priority",
            Finding::Replaced { .. } => "replaced",
            Finding::Rule(_) => "rule",
            Finding::OwnLimit { .. } => "own_limit",
        }
    }

    /// Why, in a sentence without a full stop.
    pub(super) fn reason(&self) -> String {
        match self.finding {
            Finding::UnknownDomain => "the domain has no rules, so nothing limits it".to_owned(),
            Finding::OwnLimit { .. } => {
                "the descriptor brings its own limit, so no rule was searched".to_owned()
            }
            Finding::Rule(view) if view.limit.is_none() => {
                format!("{} applies, and allows without counting", name(view))
            }
            Finding::Rule(view) => format!("{} applies", name(view)),
            Finding::Replaced { rule, by } => format!(
                "{} matches, and {}, which another descriptor of the request matches, replaces it",
                name(rule),
                name(by)
            ),
            Finding::NoLimit => self.explain_no_limit(),
            Finding::Priority => "it states the request's priority, and matches no rule".to_owned(),
            Finding::NoMatch if self.descriptor.is_unordered => {
                "no descriptor of the rules nests exactly these entries, in any order".to_owned()
            }
            Finding::NoMatch => explain_no_match(self.walk),
        }
    }

    /// What is nested below the rule that applies, and why it does not apply.
    pub(super) fn deeper(&self) -> Option<String> {
        let arrival = self.walk.arrivals.first()?;
        let first = arrival.deeper.first()?;
        let count = arrival.deeper.len() + arrival.deeper_omitted;
        let one = match count {
            1 => "the descriptor".to_owned(),
            count => format!("the {count} descriptors"),
        };
        Some(format!(
            "{one} below {}, from {} on, did not apply: the request has no further entry",
            place(&arrival.written),
            place(first)
        ))
    }

    fn explain_no_limit(&self) -> String {
        let arrival = self.walk.arrivals.first();
        let Some(arrival) = arrival else {
            return "no rule has these entries".to_owned();
        };
        let at = place(&arrival.written);
        match arrival.deeper.is_empty() {
            true => format!("the entries lead to {at}, which has no `rate_limit`"),
            false => format!(
                "the entries lead to {at}, which has no `rate_limit`; those nested below it need \
                 one more entry"
            ),
        }
    }
}

fn name(view: &RuleView) -> String {
    format!("{} ({}:{})", view.rule.shown(), view.file, view.line)
}

/// Where the search of a descriptor in its own order ended, and why there.
fn explain_no_match(walk: &Walk) -> String {
    let Some(last) = walk.look_ups.last() else {
        return "the descriptor has no entries".to_owned();
    };
    let key = Escaped(&last.key);
    if !last.candidates.is_empty() {
        return format!("none of the values of `{key}` at this level matches");
    }
    match (parent(walk, last), last.others.is_empty()) {
        (None, true) => "the domain has no descriptors".to_owned(),
        (None, false) => format!("no descriptor at the top of the domain has the key `{key}`"),
        (Some(parent), true) => format!(
            "nothing is nested below {}, and the descriptor goes on with `{key}`: a rule applies \
             only to descriptors that are exactly as long as its path",
            place(parent)
        ),
        (Some(parent), false) => {
            format!("no descriptor below {} has the key `{key}`", place(parent))
        }
    }
}

/// The descriptor whose level a look-up searched; `None` at the top.
pub(super) fn parent<'w>(walk: &'w Walk, look_up: &LookUp) -> Option<&'w RuleDescriptor> {
    let above = look_up.depth.checked_sub(1)?;
    let before = walk.look_ups.iter().take_while(|one| *one != look_up);
    let before: Vec<&LookUp> = before.filter(|one| one.depth == above).collect();
    let candidates = before.last()?.candidates.iter();
    let mut matching = candidates.filter(|one| one.outcome == CandidateOutcome::Matches);
    matching.next().map(|candidate| &*candidate.written)
}

/// Where a look-up searched.
pub(super) fn level(walk: &Walk, look_up: &LookUp) -> String {
    match parent(walk, look_up) {
        Some(parent) => format!("below {} ({})", written(parent), place(parent)),
        None => "at the top".to_owned(),
    }
}
