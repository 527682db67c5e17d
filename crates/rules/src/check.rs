//! What is allowed and probably not meant: rules that never match, flags without effect.

use std::collections::{HashMap, HashSet};

use tollgate_core::Sharing;

use crate::draft::{DescriptorDraft, DomainDraft, RateLimitDraft};
use crate::findings::{Findings, Mark};
use crate::pattern::Pattern;
use crate::quote::quote;
use crate::written_limit::WrittenLimit;

mod enforce;
mod literal;
mod look_alike;
mod priority;
mod sharing;
mod zero;

/// Warns about everything in a domain that has no effect. `outer` is how instances share limits
/// where the domain does not set it.
pub(crate) fn check_domain(draft: &DomainDraft, outer: Sharing, findings: &mut Findings) {
    let mut names = HashSet::new();
    collect_names(&draft.descriptors, &mut names);
    look_alike::check_domain(draft, findings);
    level(&draft.descriptors, &names, findings);
    enforce::check(&draft.descriptors, false, findings);
    sharing::check(draft, outer, findings);
    priority::check(draft, findings);
}

/// Reports limits that the domain's store cannot keep: those for which `unfit` returns why not.
/// `outer` is how instances share limits where the domain does not set it.
pub(crate) fn check_fit(
    draft: &DomainDraft,
    outer: Sharing,
    unfit: &dyn Fn(&WrittenLimit<'_>) -> Option<String>,
    findings: &mut Findings,
) {
    let sharing = draft.sharing.within(outer);
    let mut keys = Vec::new();
    let fit = |keys: &[&str], rate_limit: &RateLimitDraft| {
        let limit = rate_limit.limit.as_ref()?;
        unfit(&WrittenLimit {
            domain: &draft.name.value,
            keys,
            limit,
            sharing: rate_limit.sharing.within(sharing),
        })
    };
    check_fit_below(&draft.descriptors, &mut keys, &fit, findings);
}

fn check_fit_below<'d>(
    descriptors: &'d [DescriptorDraft],
    keys: &mut Vec<&'d str>,
    unfit: &dyn Fn(&[&str], &RateLimitDraft) -> Option<String>,
    findings: &mut Findings,
) {
    for descriptor in descriptors {
        keys.push(&descriptor.key.value);
        let rate_limit = descriptor.rate_limit.as_ref();
        if let Some(why) = rate_limit.and_then(|rate_limit| unfit(keys, rate_limit)) {
            let help =
                "change the limit, or serve its domain from memory: `stores` in the settings";
            findings.error(descriptor.key.mark, "unfit-limit", why, help);
        }
        check_fit_below(&descriptor.descriptors, keys, unfit, findings);
        keys.pop();
    }
}

fn collect_names<'d>(descriptors: &'d [DescriptorDraft], names: &mut HashSet<&'d str>) {
    for descriptor in descriptors {
        let rate_limit = descriptor.rate_limit.as_ref();
        let name = rate_limit.and_then(|rate_limit| rate_limit.name.as_ref());
        names.extend(name.map(|name| name.value.as_str()));
        collect_names(&descriptor.descriptors, names);
    }
}

fn level(descriptors: &[DescriptorDraft], names: &HashSet<&str>, findings: &mut Findings) {
    never_matching(descriptors, findings);
    for descriptor in descriptors {
        if !descriptor.damaged {
            flags(descriptor, findings);
        }
        replaces(descriptor, names, findings);
        zero::check(descriptor, findings);
        literal::check(descriptor, findings);
        look_alike::check(descriptor, findings);
        if descriptor.key.value.contains('*') {
            star_in_key(descriptor, findings);
        }
        level(&descriptor.descriptors, names, findings);
    }
}

/// Envoy's service reads the last `*` of a key without a value as a wildcard over keys, at the top
/// of a domain.
fn star_in_key(descriptor: &DescriptorDraft, findings: &mut Findings) {
    let key = &descriptor.key;
    let message = "a `*` in a key is an ordinary character".to_owned();
    let help = match key.value.strip_suffix('*') {
        Some(start) if descriptor.value.is_none() => format!(
            "in Envoy's ratelimit service, such a key at the top of a domain is the limit of each \
             key that begins with {}; here, list the keys",
            quote(start)
        ),
        _ => "wildcards belong in `value`".to_owned(),
    };
    findings.warning(key.mark, "star-in-key", message, help);
}

/// The most wildcards of one key that are compared with each other.
const COMPARED_MAX: usize = 200;

/// Warns about a wildcard after one that matches all of its values, and about a bare key beside
/// `*`.
fn never_matching(descriptors: &[DescriptorDraft], findings: &mut Findings) {
    let mut earlier: HashMap<&str, Vec<(Pattern, Mark)>> = HashMap::new();
    for descriptor in descriptors {
        let Some(text) = descriptor.pattern() else {
            continue;
        };
        let patterns = earlier.entry(&descriptor.key.value).or_default();
        let mark = value_mark(descriptor);
        if let Some((_, first)) = patterns.iter().find(|(pattern, _)| pattern.covers(text)) {
            let message = format!(
                "{} never matches: the wildcard {} matches all of its values",
                quote(text),
                findings.describe_position(*first, mark)
            );
            let help = "the first wildcard that matches wins: put the narrower one first";
            findings.warning(mark, "never-matches", message, help);
        }
        if let Some(pattern) = Pattern::new(text)
            && patterns.len() < COMPARED_MAX
        {
            patterns.push((pattern, mark));
        }
    }
    for descriptor in descriptors.iter().filter(|other| other.value.is_none()) {
        let patterns = earlier.get(descriptor.key.value.as_str());
        let all = patterns.and_then(|all| all.iter().find(|(pattern, _)| pattern.is_all()));
        if let Some((_, first)) = all {
            let message = format!(
                "{} without a value never matches: `*` {} matches every value",
                quote(&descriptor.key.value),
                findings.describe_position(*first, descriptor.key.mark)
            );
            let help = "wildcards come before keys without a value: keep one of the two";
            findings.warning(descriptor.key.mark, "never-matches", message, help);
        }
    }
}

fn value_mark(descriptor: &DescriptorDraft) -> Mark {
    let value = descriptor.value.as_ref();
    value.map_or(descriptor.key.mark, |value| value.mark)
}

/// Warns about flags and settings without effect.
fn flags(descriptor: &DescriptorDraft, findings: &mut Findings) {
    let flags = &descriptor.flags;
    let mut useless = |mark: Option<Mark>, flag: &str, why: &str, help: &str| {
        if let Some(mark) = mark {
            let message = format!("`{flag}` has no effect {why}");
            findings.warning(mark, "no-effect", message, help);
        }
    };
    let add = "add a `rate_limit`, or remove the flag";
    let remove = "remove it";
    let metadata = descriptor.metadata.as_ref().map(|metadata| metadata.mark);
    match &descriptor.rate_limit {
        None => {
            let why = "without `rate_limit`";
            useless(flags.shadow_mode, "shadow_mode", why, add);
            useless(flags.quota_mode, "quota_mode", why, add);
            useless(flags.detailed_metric, "detailed_metric", why, add);
            useless(
                metadata,
                "metadata",
                why,
                "add a `rate_limit`, or remove it",
            );
        }
        Some(rate_limit) if rate_limit.limit.is_none() => {
            let why = "on an unlimited rule";
            useless(flags.shadow_mode, "shadow_mode", why, remove);
            useless(flags.quota_mode, "quota_mode", why, remove);
            let charged = rate_limit.charge_denied.map(|setting| setting.mark);
            useless(charged, "charge_denied", why, remove);
            let words = &rate_limit.sharing;
            useless(words.mode.map(|word| word.mark), "mode", why, remove);
            let mark = words.on_store_error.map(|word| word.mark);
            useless(mark, "on_store_error", why, remove);
            useless(
                words.instances.map(|word| word.mark),
                "instances",
                why,
                remove,
            );
        }
        Some(_) => {}
    }
    if flags.shadow_mode.is_some() {
        let why = "beside `shadow_mode`, which wins";
        useless(flags.quota_mode, "quota_mode", why, "keep one of them");
    }
    let value_to_metric = flags.value_to_metric;
    if flags.detailed_metric.is_some() {
        let why = "beside `detailed_metric`, which wins";
        useless(value_to_metric, "value_to_metric", why, remove);
    } else if flags.share_threshold.is_some() {
        let why = "beside `share_threshold`, whose pattern is shown";
        useless(value_to_metric, "value_to_metric", why, remove);
    } else if descriptor.value.is_some() && descriptor.pattern().is_none() {
        let why = "on a value without `*`, which is shown anyway";
        useless(value_to_metric, "value_to_metric", why, remove);
    }
    let is_bare = descriptor.value.is_none();
    if is_bare && descriptor.rate_limit.is_none() && descriptor.descriptors.is_empty() {
        let message = format!("{} does nothing", quote(&descriptor.key.value));
        let help = "add `rate_limit` or `descriptors`, or remove it";
        findings.warning(descriptor.key.mark, "no-effect", message, help);
    }
}

fn replaces(descriptor: &DescriptorDraft, names: &HashSet<&str>, findings: &mut Findings) {
    let rate_limit = descriptor.rate_limit.as_ref();
    for name in rate_limit.map_or(&[][..], |rate_limit| &rate_limit.replaces) {
        if !names.contains(name.value.as_str()) {
            let message = format!(
                "no limit of this domain has the name {}",
                quote(&name.value)
            );
            let help = "give the other `rate_limit` this `name`, or remove the item";
            findings.warning(name.mark, "replaces-nothing", message, help);
        }
    }
}
