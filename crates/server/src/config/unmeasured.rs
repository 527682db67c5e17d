//! Whether the gateway measures what elastic limits depend on.

use std::collections::BTreeSet;

use tollgate_rules::{Diagnostic, HeadroomSource, Loaded, RuleView, Source};

use super::{Config, ListenerKind};

// === impl Config ===

impl Config {
    /// Warns about limits with `while: [upstream]` whose domain no route of the gateway names, so
    /// that they never have headroom. An instance without a gateway may share its rules with one
    /// that has one, so this is not an error.
    pub(super) fn warn_of_unmeasured(&self, loaded: &mut Loaded, sources: &[Source]) {
        let mut kinds = self.listen.iter().map(|listen| listen.kind);
        let has_gateway = kinds.any(|kind| kind == ListenerKind::Gateway);
        let gateway = self.gateway.as_ref().filter(|_| has_gateway);
        let domains = gateway.map_or_else(BTreeSet::new, |gateway| gateway.domains());
        let unmeasured = loaded.rules.rules().filter(|view| {
            let mut sources = view.sources.iter();
            let depends = sources.any(|(source, _)| *source == HeadroomSource::Upstream);
            depends && !domains.contains(&*view.rule.domain)
        });
        let warnings: Vec<Diagnostic> = unmeasured.map(|view| warn(&view, sources)).collect();
        if warnings.is_empty() {
            return;
        }
        loaded.diagnostics.extend(warnings);
        let place = |one: &Diagnostic| {
            let file = sources.iter().position(|source| source.name == one.file);
            (file, one.line)
        };
        // Stable, so that several of one line keep their order.
        loaded.diagnostics.sort_by_key(place);
    }
}

/// The warning about a rule.
fn warn(view: &RuleView, sources: &[Source]) -> Diagnostic {
    let domain = &view.rule.domain;
    let message = format!(
        "no route of the gateway has the domain `{domain}`, so `while: [upstream]` never has \
         headroom here"
    );
    let help = format!("give a route `domain: {domain}`, or use `while: [reported]`");
    view.warning(sources, "unmeasured", message, Some(help))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use std::path::Path;

    use super::*;

    #[test]
    fn limits_by_upstreams_that_nothing_measures_have_a_warning() {
        let rules = "domain: shop\ndescriptors:\n  - key: user\n    rate_limit: \
                     {requests_per_unit: 4, unit: day, elastic: {share: 50%, while: [upstream]}}\n";
        let sources = [Source::new("rules.yaml", rules)];
        let gateway = |domain: &str| {
            format!("gateway: {{domain: {domain}, upstreams: {{api: {{addresses: ['a:80']}}}}}}\n")
        };
        for (more, warns) in [
            (String::new(), true),
            (gateway("other"), true),
            (gateway("shop"), false),
        ] {
            let config = Config::parse(
                &Source::new("tollgate.yaml", format!("rules: r\n{more}")),
                Path::new("."),
            )
            .unwrap();
            let loaded = config.load(&sources);
            let shown: Vec<String> = loaded
                .diagnostics
                .iter()
                .map(|one| one.to_string())
                .collect();
            assert_eq!(shown.len(), usize::from(warns), "{more}: {shown:?}");
            assert!(!loaded.has_errors());
            if warns {
                let place = "warning[unmeasured]: no route of the gateway has the domain `shop`";
                assert!(shown[0].starts_with(place), "{}", shown[0]);
                assert!(shown[0].contains(" --> rules.yaml:3:5\n"), "{}", shown[0]);
            }
        }
    }
}
