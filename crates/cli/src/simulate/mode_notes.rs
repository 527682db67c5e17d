//! Notes on limits whose mode has no effect: Redis decides each of their requests.

use tollgate_backends::BACKENDS;
use tollgate_core::Mode;
use tollgate_rules::{RuleSet, RuleView};

/// A sentence for each limit of the domain that is decided strictly although it has another mode.
pub(super) fn mode_notes(rules: &RuleSet, domain: &str) -> Vec<String> {
    let of_domain = rules.rules().filter(|view| *view.rule.domain == *domain);
    of_domain.filter_map(|view| note(&view)).collect()
}

fn note(view: &RuleView) -> Option<String> {
    let limit = view.limit.filter(|limit| limit.capacity() > 0)?;
    let (mode, rule) = (view.sharing.mode, view.rule.shown());
    if !mode.suits(&limit) {
        let why = format!("{mode} does not suit {limit}");
        return Some(format!("{rule} is decided strictly: {why}"));
    }
    let needed = BACKENDS.first()?.lease_capacity_min;
    let is_too_small = mode == Mode::Leased && limit.capacity() < needed;
    is_too_small.then(|| {
        let capacity = limit.capacity();
        format!("{rule} is decided strictly: it holds {capacity} units, and a lease needs {needed}")
    })
}
