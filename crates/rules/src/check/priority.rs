//! Warnings about shares for requests with priority that nobody can use, or that leave nothing.

use crate::draft::{DescriptorDraft, DomainDraft};
use crate::findings::Findings;
use crate::quote::quote;
use crate::section::PRIORITY_KEY;

/// Warns about a key for priorities without effect, about rules for the descriptor that states the
/// priority, and about shares that leave nothing for other requests.
pub(super) fn check(draft: &DomainDraft, findings: &mut Findings) {
    let key = draft.priority_key.as_ref();
    if !draft.has_reserved() {
        // With errors in it, a limit may have lost its `reserved`.
        if let Some(key) = key
            && !draft
                .descriptors
                .iter()
                .any(|descriptor| descriptor.damaged)
        {
            let message = "`priority_key` has no effect without `reserved` in a limit".to_owned();
            findings.warning(key.mark, "no-effect", message, "remove it");
        }
        return;
    }
    let key = key.map_or(PRIORITY_KEY, |key| &key.value);
    for descriptor in &draft.descriptors {
        if descriptor.key.value == key && descriptor.rate_limit.is_some() {
            let message = format!(
                "a descriptor of {} alone states the priority, and matches no rule of a domain \
                 with `reserved`",
                quote(key)
            );
            let help = "give the priority another name: `priority_key`, beside `domain`";
            findings.warning(descriptor.key.mark, "never-matches", message, help);
        }
    }
    check_shares(&draft.descriptors, findings);
}

fn check_shares(descriptors: &[DescriptorDraft], findings: &mut Findings) {
    for descriptor in descriptors {
        if let Some(rate_limit) = &descriptor.rate_limit
            && let (Some(limit), Some(reserved)) = (&rate_limit.limit, &rate_limit.reserved)
            && limit.available() == 0
            && limit.capacity() > 0
        {
            let message = "the share is the whole limit, so all requests without priority are \
                           denied"
                .to_owned();
            let help = "the share is rounded up: write a smaller share or a larger limit";
            findings.warning(reserved.mark, "denies-all", message, help);
        }
        check_shares(&descriptor.descriptors, findings);
    }
}
