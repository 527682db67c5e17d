//! Warnings about limits that are enforced for a share of the keys, where that means nothing.

use crate::draft::DescriptorDraft;
use crate::findings::Findings;

/// Warns about `enforce` without a limit, beside `shadow_mode`, and on a rule with one key.
/// `distinguishes` is whether a descriptor above has a key for each value.
pub(super) fn check(descriptors: &[DescriptorDraft], distinguishes: bool, findings: &mut Findings) {
    for descriptor in descriptors {
        let is_exact = descriptor.value.is_some() && descriptor.pattern().is_none();
        let shares = descriptor.flags.share_threshold.is_some();
        let distinguishes = distinguishes || (!is_exact && !shares);
        // A limit with errors in it is none, which says nothing about `enforce`.
        if let Some(enforce) = descriptor.enforce
            && !descriptor.damaged
        {
            let limit = descriptor.rate_limit.as_ref();
            let problem = match limit.map(|limit| limit.limit.is_some()) {
                None => Some(("without `rate_limit`", "add a `rate_limit`, or remove it")),
                Some(false) => Some(("on an unlimited rule", "remove it")),
                Some(true) if descriptor.flags.shadow_mode.is_some() => {
                    Some(("beside `shadow_mode`, which wins", "keep one of them"))
                }
                Some(true) => None,
            };
            if let Some((why, help)) = problem {
                let message = format!("`enforce` has no effect {why}");
                findings.warning(enforce.mark, "no-effect", message, help);
            } else if !distinguishes && (1..100).contains(&enforce.value) {
                let message = "this rule has one key, so `enforce` applies to all of its requests \
                               or to none"
                    .to_owned();
                let help = "use it where each value has a key of its own: without `value`, or with \
                            a `*` in it";
                findings.warning(enforce.mark, "one-key", message, help);
            }
        }
        check(&descriptor.descriptors, distinguishes, findings);
    }
}
