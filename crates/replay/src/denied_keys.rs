//! Denials by rule and key.

use std::cmp::Reverse;
use std::collections::HashMap;
use std::sync::Arc;

use tollgate_core::{Key, to_text};

use crate::report::{DeniedKey, RuleTotals, TopKeys};
use crate::traffic::Traffic;

/// Denials by rule, as its place in a report, and key.
#[derive(Default)]
pub(crate) struct DeniedKeys {
    denied: HashMap<(usize, Key), Denied>,
}

/// The denials of one key.
struct Denied {
    /// A request, and the descriptor in it, that counts under this key.
    request: u32,
    descriptor: usize,
    count: u64,
}

// === impl DeniedKeys ===

impl DeniedKeys {
    /// Counts a denial of this key by its rule.
    pub(crate) fn add(&mut self, key: (usize, Key), request: u32, descriptor: usize) {
        let denied = self.denied.entry(key).or_insert(Denied {
            request,
            descriptor,
            count: 0,
        });
        denied.count += 1;
    }

    /// The rules and keys with the most denials, at most `top`; among equals, the one that came
    /// first.
    pub(crate) fn most(&self, top: usize) -> Vec<(usize, Key)> {
        let mut keys: Vec<_> = self.denied.iter().collect();
        keys.sort_by_key(|((rule, _), denied)| (Reverse(denied.count), denied.request, *rule));
        keys.into_iter().take(top).map(|(key, _)| *key).collect()
    }

    /// How many keys there are, and those with the most denials, with their descriptors.
    pub(crate) fn top(&self, top: usize, rules: &[RuleTotals], traffic: &Traffic) -> TopKeys {
        let first = self.most(top).into_iter().map(|key| {
            let (denied, rule) = (&self.denied[&key], &rules[key.0]);
            DeniedKey {
                rule: Arc::clone(&rule.rule),
                descriptor: describe(traffic, denied.request, denied.descriptor, rule),
                denied: denied.count,
            }
        });
        TopKeys {
            count: u64::try_from(self.denied.len()).unwrap_or(u64::MAX),
            first: first.collect(),
        }
    }
}

/// What a counter of this rule belongs to, given a descriptor that counts under it: the keys of the
/// descriptor and its values, or the rule's own value for all values that share a counter.
pub(crate) fn describe(
    traffic: &Traffic,
    request: u32,
    descriptor: usize,
    rule: &RuleTotals,
) -> Vec<(String, String)> {
    let text = |bytes: &[u8]| to_text(bytes).into_owned();
    traffic.request(request, |request| {
        let descriptor = request.descriptors.get(descriptor);
        let entries = descriptor.map_or(&[][..], |descriptor| &descriptor.entries);
        // A limit that a request brought has no values of its own.
        let shared = rule.shared_values.iter().map(Option::as_deref);
        let shared = shared.chain(std::iter::repeat(None));
        let entries = entries.iter().zip(shared).map(|(entry, shared)| {
            let value = shared.map_or(entry.value, str::as_bytes);
            (text(entry.key), text(value))
        });
        entries.collect()
    })
}
