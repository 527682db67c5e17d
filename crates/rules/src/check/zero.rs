//! Warnings about limits under which nothing fits.

use crate::draft::DescriptorDraft;
use crate::findings::Findings;

/// Warns about a limit of 0, or one whose burst or queue is 0, unless it never denies.
pub(super) fn check(descriptor: &DescriptorDraft, findings: &mut Findings) {
    let Some(rate_limit) = &descriptor.rate_limit else {
        return;
    };
    let (Some(limit), Some(mark)) = (&rate_limit.limit, rate_limit.zero) else {
        return;
    };
    let enforces = descriptor.enforce.is_none_or(|enforce| enforce.value > 0);
    if descriptor.flags.shadow_mode.is_some() || !enforces {
        return;
    }
    let (message, help) = match (descriptor.flags.quota_mode, limit.count()) {
        (Some(_), _) => (
            "nothing fits in this quota, so only other quotas of a request can allow it",
            "write at least 1, or remove this quota",
        ),
        (None, 0) => (
            "a limit of 0 denies everything",
            "this is right for a ban; to allow everything write `unlimited: true`",
        ),
        (None, _) => (
            "nothing fits at once, so everything is denied",
            "write at least 1",
        ),
    };
    findings.warning(mark, "denies-all", message.to_owned(), help);
}
