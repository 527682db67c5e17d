//! Notes on limits whose mode has no effect: Redis decides each of their requests.

use tollgate_backends::BACKENDS;
use tollgate_rules::{RuleSet, RuleView};

use crate::settings::too_small_to_lease;

/// A sentence for each limit of the domain that is decided strictly although it has another mode.
pub(super) fn mode_notes(rules: &RuleSet, domain: &str) -> Vec<String> {
    let of_domain = rules.rules().filter(|view| *view.rule.domain == *domain);
    of_domain.filter_map(|view| note(&view)).collect()
}

fn note(view: &RuleView) -> Option<String> {
    let limit = view.limit.filter(|limit| limit.capacity() > 0)?;
    let (mode, rule) = (view.sharing.mode, view.rule.shown());
    let why = match mode.suits(&limit) {
        false => format!("{mode} does not suit {limit}"),
        true => too_small_to_lease(&limit, mode, *BACKENDS.first()?)?,
    };
    Some(format!("{rule} is decided strictly: {why}"))
}
