//! Warnings about modes that do not suit a limit, and about `instances` without effect.

use tollgate_core::{Algorithm, Limit, Mode, OnStoreError, Sharing};

use crate::draft::{DescriptorDraft, DomainDraft, RateLimitDraft};
use crate::findings::{Findings, Mark};

/// A limit of the domain, with what determines how instances share it.
struct Shared<'d> {
    descriptor: &'d DescriptorDraft,
    rate_limit: &'d RateLimitDraft,
    limit: &'d Limit,
}

/// Warns about settings of a domain, and of each of its limits, that have no effect. `outer` is
/// what the domain inherits.
pub(super) fn check(draft: &DomainDraft, outer: Sharing, findings: &mut Findings) {
    let mut limits = Vec::new();
    collect(&draft.descriptors, &mut limits);
    let holds = draft.sharing.within(outer);
    for shared in &limits {
        shared.check_mode(findings);
        let words = &shared.rate_limit.sharing;
        if let Some(instances) = words.instances
            && !uses_instances(words.within(holds))
        {
            useless_instances(instances.mark, findings);
        }
    }
    check_mode(draft, &limits, findings);
    if let Some(instances) = draft.sharing.instances
        && !limits.is_empty()
        && !uses_instances(holds)
        && !limits.iter().any(|shared| {
            let words = &shared.rate_limit.sharing;
            words.instances.is_none() && uses_instances(words.within(holds))
        })
    {
        useless_instances(instances.mark, findings);
    }
}

fn collect<'d>(descriptors: &'d [DescriptorDraft], into: &mut Vec<Shared<'d>>) {
    for descriptor in descriptors {
        if let Some(rate_limit) = &descriptor.rate_limit
            && let Some(limit) = &rate_limit.limit
        {
            into.push(Shared {
                descriptor,
                rate_limit,
                limit,
            });
        }
        collect(&descriptor.descriptors, into);
    }
}

/// A domain's mode applies to many limits: those that it does not suit are reported together,
/// except limits of 0, to which it cannot be meant to apply.
fn check_mode(draft: &DomainDraft, limits: &[Shared<'_>], findings: &mut Findings) {
    let Some(mode) = draft.sharing.mode else {
        return;
    };
    let mut unsuited = limits.iter().filter_map(|shared| {
        let is_ban = shared.limit.capacity() == 0;
        let has_own = shared.rate_limit.sharing.mode.is_some();
        let why = shared.explain_unsuitable(mode.value)?;
        (!is_ban && !has_own).then_some((shared, why))
    });
    let Some((first, (why, help))) = unsuited.next() else {
        return;
    };
    let place = findings.describe_position(first.descriptor.key.mark, mode.mark);
    let which = match unsuited.count() {
        0 => format!("the limit {place}, which is"),
        others => format!("{} limits, the first {place}, which are", others + 1),
    };
    let message = format!(
        "`mode: {}` does not suit {which} decided strictly: {why}",
        mode.value
    );
    let help = format!("{help}; or write `mode: strict` in the limit");
    findings.warning(mode.mark, "unsuitable-mode", message, help);
}

/// Whether the number of instances matters: only for a local share of the limit.
fn uses_instances(holds: Sharing) -> bool {
    holds.on_store_error == OnStoreError::Local
}

fn useless_instances(mark: Mark, findings: &mut Findings) {
    let message = "`instances` has no effect without `on_store_error: local`";
    let help = "write `on_store_error: local`, or remove it; if the settings have it, check with \
                `--config`";
    findings.warning(mark, "no-effect", message.to_owned(), help);
}

// === impl Shared ===

impl Shared<'_> {
    fn check_mode(&self, findings: &mut Findings) {
        let Some(mode) = self.rate_limit.sharing.mode else {
            return;
        };
        if let Some((why, help)) = self.explain_unsuitable(mode.value) {
            let message = format!(
                "`mode: {}` does not suit this limit, which is decided strictly: {why}",
                mode.value
            );
            let help = format!("{help}, or write `mode: strict`");
            findings.warning(mode.mark, "unsuitable-mode", message, help);
        }
    }

    /// Why this limit is decided strictly whatever its mode, and what to do about it.
    fn explain_unsuitable(&self, mode: Mode) -> Option<(&'static str, &'static str)> {
        if mode == Mode::Strict {
            return None;
        }
        if self.limit.capacity() == 0 {
            return Some((
                "it allows nothing, so there is nothing to share",
                "remove `mode`",
            ));
        }
        if !mode.suits(self.limit) {
            return Some(match self.limit.algorithm() {
                _ if self.limit.priority_percent() != 0 => (
                    "units that an instance has for itself are not there for requests with \
                     priority on the others",
                    "remove `reserved`",
                ),
                _ if self.limit.elastic_percent() != 0 => (
                    "units that an instance has for itself could be used when the headroom has \
                     gone",
                    "remove `elastic`",
                ),
                Algorithm::LeakyBucket => (
                    "a leaky_bucket releases one request at a time, and only the store knows which \
                     is next",
                    "use `algorithm: token_bucket`",
                ),
                Algorithm::SlidingWindow(_) => (
                    "a lease ends with its segment, and segments shorter than 5 s leave no time \
                     for one",
                    "use fewer `segments` or a longer window",
                ),
                _ => (
                    "a sliding_log has a time for each unit, and a later report does not",
                    "use `algorithm: sliding_window`",
                ),
            });
        }
        None
    }
}
