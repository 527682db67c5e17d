//! Which limits the requests of clients meet, without deciding anything.

use tollgate_core::{ChargeDenied, Cost, Key, Limit, Moment, Request, Sharing};
use tollgate_memory::RandomKeys;
use tollgate_rules::RuleSet;

use crate::pattern::Pattern;
use crate::series::render_client;
use crate::values::{Values, values};

/// Clients that no rule is likely to name.
const CLIENTS: [&str; 2] = ["client-0", "client-1"];

/// A limit that every request meets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MetLimit {
    /// The limit.
    pub limit: Limit,
    /// How instances share it.
    pub sharing: Sharing,
    /// Whether each client has a key of its own; else all share one.
    pub is_per_client: bool,
}

/// The limits that requests with these descriptors meet, of which only [`crate::Field::Client`] is
/// known: those that a client without rules of its own is charged to.
///
/// # Example
///
/// ```
/// use tollgate_replay::met_limits;
/// use tollgate_rules::{Options, RuleSet, Source};
///
/// let text = "domain: web\ndescriptors: [{key: user, rate_limit: 9/minute}]\n";
/// let rules = RuleSet::parse(&[Source::new("web.yaml", text)], &Options::default()).rules;
/// let met = met_limits(&rules, "web", &["user={client}".parse()?]);
/// assert_eq!(met[0].limit.count(), 9);
/// assert!(met[0].is_per_client);
/// # Ok::<(), tollgate_replay::InvalidPattern>(())
/// ```
pub fn met_limits(rules: &RuleSet, domain: &str, descriptors: &[Pattern]) -> Vec<MetLimit> {
    let keys = RandomKeys::new();
    let [first, second] = CLIENTS.map(|client| charges(rules, domain, descriptors, client, &keys));
    let limits = first.into_iter().map(|(key, limit, sharing)| MetLimit {
        limit,
        sharing,
        is_per_client: second.iter().all(|(other, ..)| *other != key),
    });
    limits.collect()
}

/// The keys and limits that a client's request is charged to.
fn charges(
    rules: &RuleSet,
    domain: &str,
    descriptors: &[Pattern],
    client: &str,
    keys: &RandomKeys,
) -> Vec<(Key, Limit, Sharing)> {
    let mut rendered = Values::default();
    render_client(client, Moment::ZERO, descriptors, &mut rendered);
    let mut rendered = values(rendered.as_bytes());
    let descriptors = descriptors.iter();
    let request = Request {
        domain: domain.as_bytes(),
        descriptors: descriptors
            .map(|pattern| pattern.descriptor(&mut rendered))
            .collect(),
        cost: Cost::ONE,
        charge_denied: ChargeDenied::Never,
    };
    let resolved = rules.resolve(&request, keys);
    let mut met: Vec<(Key, Limit, Sharing)> = Vec::new();
    for charge in resolved.charges() {
        // Of several descriptors, each with a counter of its own or all with one.
        if met.iter().all(|(key, ..)| *key != charge.key) {
            met.push((charge.key, *charge.limit, charge.sharing));
        }
    }
    met
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use tollgate_core::Mode;
    use tollgate_rules::{Options, Source};

    use super::*;

    #[test]
    fn limits_of_clients_and_of_all_together_are_distinguished() {
        let text = "domain: web\ndescriptors:\n  \
            - {key: user, rate_limit: {unit: minute, requests_per_unit: 9}}\n  \
            - {key: user, value: admin, rate_limit: {unit: day, requests_per_unit: 3}}\n  \
            - {key: all, value: 'yes', rate_limit: {unit: second, requests_per_unit: 99, \
               mode: leased}}\n";
        let loaded = RuleSet::parse(&[Source::new("web.yaml", text)], &Options::default());
        assert!(loaded.diagnostics.is_empty(), "{:?}", loaded.diagnostics);
        let patterns = ["user={client}", "all=yes", "path=/"].map(|text| text.parse().unwrap());
        let met = met_limits(&loaded.rules, "web", &patterns);
        let seen: Vec<_> = met
            .iter()
            .map(|met| (met.limit.count(), met.sharing.mode, met.is_per_client))
            .collect();
        assert_eq!(seen, [(9, Mode::Strict, true), (99, Mode::Leased, false)]);
        assert_eq!(met_limits(&loaded.rules, "other", &patterns), []);
    }
    #[test]
    fn descriptors_with_one_counter_meet_one_limit() {
        let text = "domain: web\ndescriptors:\n  \
            - {key: user, rate_limit: {unit: minute, requests_per_unit: 9}}\n  \
            - {key: path, value: /a/*, share_threshold: true, rate_limit: 99/second}\n";
        let loaded = RuleSet::parse(&[Source::new("web.yaml", text)], &Options::default());
        assert!(loaded.diagnostics.is_empty(), "{:?}", loaded.diagnostics);
        let patterns = ["user={client}", "user={client}", "path=/a/b", "path=/a/c"];
        let met = met_limits(
            &loaded.rules,
            "web",
            &patterns.map(|text| text.parse().unwrap()),
        );
        let counts: Vec<_> = met.iter().map(|met| met.limit.count()).collect();
        assert_eq!(counts, [9, 99]);
    }
}
