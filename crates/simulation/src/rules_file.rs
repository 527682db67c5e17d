//! The rules file of a run, in each of its versions, and the requests that meet its rules.

use std::fmt::Write as _;

use tollgate_core::{Algorithm, Anchor, Cost, Descriptor, Enforcement, Entry, Override, Request};
use tollgate_rules::{Loaded, Options, RuleSet, Source};

use crate::plan::{Counter, Part, Plan};

/// The domain of all rules.
pub(crate) const DOMAIN: &str = "simulation";
/// The name of a rule that another one replaces.
const REPLACED: &str = "replaced";
/// The priority for which limits keep a share.
const PRIORITY: &str = "critical";
/// The keys of the counters' descriptors.
const KEYS: [&str; 4] = ["first", "second", "third", "fourth"];

/// Reads a version of the rules file.
///
/// # Panics
///
/// If it has other errors than the one that `is_invalid` adds.
pub(crate) fn load(plan: &Plan, version: usize, is_invalid: bool) -> Loaded {
    let mut text = text(plan, version);
    if is_invalid {
        text.push_str("  - key: wrong\n    rate_limit: 1/moment\n");
    }
    let loaded = RuleSet::parse(&[Source::new("rules.yaml", text)], &Options::default());
    let diagnostics = &loaded.diagnostics;
    assert_eq!(loaded.has_errors(), is_invalid, "{diagnostics:?}");
    loaded
}

/// The request with these parts, and its priority.
pub(crate) fn request<'p>(plan: &'p Plan, parts: &[Part], has_priority: bool) -> Request<'p> {
    let descriptors = parts.iter().map(|part| {
        let counter = &plan.counters[part.counter];
        let limit = &counter.limits[part.version];
        Descriptor {
            entries: vec![Entry {
                key: KEYS[part.counter].as_bytes(),
                // The values of a key choose its slot.
                value: std::slice::from_ref(&counter.identity),
            }]
            .into(),
            cost: Some(part.cost),
            limit: counter.is_override.then(|| Override {
                count: limit.count(),
                window: limit.window(),
            }),
            ..Descriptor::default()
        }
    });
    // After the others, so that each part has the index of its descriptor.
    let priority = plan.has_priorities().then(|| Descriptor {
        entries: vec![Entry {
            key: b"priority",
            value: if has_priority { PRIORITY } else { "other" }.as_bytes(),
        }]
        .into(),
        ..Descriptor::default()
    });
    Request {
        domain: DOMAIN.as_bytes(),
        descriptors: descriptors.chain(priority).collect(),
        cost: Cost::ONE,
        charge_denied: plan.charge_denied,
    }
}

/// The text of a version of the rules file.
fn text(plan: &Plan, version: usize) -> String {
    let mut text = format!("domain: {DOMAIN}\n");
    let overridden = plan.counters.iter().find(|counter| counter.is_override);
    if let Some(counter) = overridden {
        let (mode, on_store_error) = (counter.mode_in(version), counter.on_store_error_in(version));
        line(&mut text, 0, &format!("mode: {mode}"));
        line(&mut text, 0, &format!("on_store_error: {on_store_error}"));
    }
    let rules = plan.counters.iter().zip(KEYS).enumerate();
    let present = rules.filter(|(_, (counter, _))| counter.is_present_in(version));
    let present: Vec<_> = present.collect();
    let descriptors = match present.is_empty() {
        true => "descriptors: []",
        false => "descriptors:",
    };
    line(&mut text, 0, descriptors);
    for (number, (counter, key)) in present {
        line(&mut text, 2, &format!("- key: {key}"));
        match counter.enforcement_in(version) {
            Enforcement::Enforce => {}
            Enforcement::Shadow => line(&mut text, 4, "shadow_mode: true"),
            Enforcement::Quota => line(&mut text, 4, "quota_mode: true"),
        }
        line(&mut text, 4, "rate_limit:");
        let members = members(counter, version).into_iter();
        for member in members.chain(replacement(plan, number, version)) {
            line(&mut text, 6, &member);
        }
    }
    text
}

/// What a rule has to do with the one that is replaced.
fn replacement(plan: &Plan, counter: usize, version: usize) -> Option<String> {
    let replacement = plan.replacement.as_ref()?;
    if counter == replacement.of {
        return Some(format!("name: {REPLACED}"));
    }
    let replaces = counter == replacement.by && replacement.is_in(version);
    replaces.then(|| format!("replaces: [{{name: {REPLACED}}}]"))
}

/// The members of a rule's `rate_limit` in a version of the file.
fn members(counter: &Counter, version: usize) -> Vec<String> {
    let limit = counter.limit_in(version);
    let mut members = vec![
        format!("requests_per_unit: {}", limit.count()),
        format!("window: {}", limit.window()),
        format!("mode: {}", counter.mode_in(version)),
        format!("on_store_error: {}", counter.on_store_error_in(version)),
    ];
    members.push(match counter.is_elastic() {
        true => format!(
            "elastic: {{share: {}%, while: [reported]}}",
            limit.elastic_percent()
        ),
        false => format!("soft: {}%", limit.soft_percent()),
    });
    if counter.keeps_share() {
        let share = limit.priority_percent();
        members.push(format!("reserved: {{share: {share}%, for: [{PRIORITY}]}}"));
    }
    if let Some(charge_denied) = counter.charge_denied {
        members.push(format!("charge_denied: {charge_denied}"));
    }
    members.extend(match limit.algorithm() {
        Algorithm::FixedWindow(Anchor::FirstRequest) => vec!["anchor: first_request".to_owned()],
        Algorithm::SlidingLog => vec!["algorithm: sliding_log".to_owned()],
        Algorithm::SlidingWindow(segments) => vec![
            "algorithm: sliding_window".to_owned(),
            format!("segments: {}", segments.get()),
        ],
        Algorithm::TokenBucket => vec![
            "algorithm: token_bucket".to_owned(),
            format!("burst: {}", limit.nominal()),
        ],
        Algorithm::LeakyBucket => vec![
            "algorithm: leaky_bucket".to_owned(),
            format!("queue: {}", limit.nominal()),
        ],
        _ => vec!["algorithm: fixed_window".to_owned()],
    });
    members
}

fn line(text: &mut String, indent: usize, words: &str) {
    writeln!(text, "{:indent$}{words}", "").expect("a String can be written to");
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::Draws;

    #[test]
    fn every_version_is_the_limits_of_the_plan() {
        for seed in 0..200 {
            let plan = Plan::draw(seed, Draws::All);
            for version in 0..plan.versions {
                let rules = load(&plan, version, false).rules;
                let present = |counter: &&Counter| counter.is_present_in(version);
                let counters: Vec<_> = plan.counters.iter().filter(present).collect();
                for (view, counter) in rules.rules().zip(&counters) {
                    assert_eq!(view.limit.as_ref(), Some(counter.limit_in(version)));
                    assert_eq!(view.sharing.mode, counter.mode_in(version));
                    let on_store_error = view.sharing.on_store_error;
                    assert_eq!(on_store_error, counter.on_store_error_in(version));
                }
                assert_eq!(rules.rules().count(), counters.len());
            }
        }
    }
}
