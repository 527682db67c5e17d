//! Warnings about settings and rules that are valid on their own and do not fit together.

use tollgate_backends::backend_names;
use tollgate_core::Mode;
use tollgate_engine::find_unshared;
use tollgate_memory::SystemClock;
use tollgate_rules::{Diagnostic, SettingPlaces};
use tollgate_server::{
    Place, SettingWarning, find_exposed_admin, find_memory_shortage, find_unlimited,
    find_untimely_certificates,
};

use super::{Service, suits, without_effect};

/// What to do about a setting that only shared stores have.
const IN_MEMORY_HELP: &str = "remove it, or serve the domain from a shared store";

// === impl Service ===

impl Service {
    /// All warnings: those about the settings file, and then those about rules.
    pub(crate) fn warnings(&self) -> Vec<Diagnostic> {
        let (auth, gateway) = (self.config.auth.as_ref(), self.config.gateway.as_ref());
        let mut found: Vec<SettingWarning> = find_unlimited(auth, gateway, &self.loaded)
            .into_iter()
            .collect();
        found.extend(find_memory_shortage(&self.config, &self.loaded.rules));
        found.extend(without_effect::find(&self.config));
        found.extend(find_exposed_admin(&self.config.listen, &self.config.admin));
        found.extend(find_untimely_certificates(
            &self.config,
            &SystemClock::new(),
        ));
        found.extend(self.stores_without_rules());
        found.extend(self.sharing_without_effect());
        found.extend(self.unsuitable_mode());
        let mut warnings = SettingWarning::locate(found, &self.file);
        warnings.extend(self.rules_without_effect());
        warnings
    }

    /// The domains that stores serve, and that no rules are for.
    fn stores_without_rules(&self) -> Vec<SettingWarning> {
        let rules = &self.loaded.rules;
        let mut found = Vec::new();
        for store in &self.config.stores {
            for (index, domain) in store.domains.iter().enumerate() {
                let has_errors = self.loaded.has_errors_in(domain);
                if has_errors || rules.domains().any(|known| known == domain) {
                    continue;
                }
                let name = &store.name;
                let message =
                    format!("the store `{name}` serves the domain `{domain}`, which has no rules");
                let path = format!("stores.{name}.domains[{index}]");
                found.push(SettingWarning::no_rules(path, domain, message, rules));
            }
        }
        found
    }

    /// What the settings say about shared stores, if there is none.
    fn sharing_without_effect(&self) -> Vec<SettingWarning> {
        let others = self.config.stores.iter().map(|store| &store.place);
        let mut places = others.chain([&self.config.store]);
        if !places.all(|place| *place == Place::Memory) {
            return Vec::new();
        }
        let settings = SettingPlaces::new(&self.file);
        let keys = ["mode", "on_store_error", "instances"];
        let paths = keys.map(|key| format!("store.{key}")).into_iter();
        let written = paths.filter(|path| settings.has(path));
        let warning = |path: String| SettingWarning {
            code: "no-effect",
            message: format!("`{path}` has no effect: no store is in {}", backend_names()),
            help: "remove it, or name a shared store".to_owned(),
            path,
        };
        written.map(warning).collect()
    }

    /// The rules of domains in memory that set what only shared stores have: a warning for each
    /// value in a domain, at the first of its rules.
    fn rules_without_effect(&self) -> Vec<Diagnostic> {
        let in_memory = |domain: &str| match self.config.store_of(domain) {
            (name, Place::Memory) => Some(name),
            (_, Place::Shared(_)) => None,
        };
        let found = find_unshared(&self.loaded.rules, self.config.sharing, in_memory);
        let warnings = found.iter().map(|unshared| {
            let (message, help) = (unshared.to_string(), Some(IN_MEMORY_HELP.to_owned()));
            let first = &unshared.first;
            first.warning(&self.sources, "no-effect", message, help)
        });
        warnings.collect()
    }

    /// A warning about the limits that the settings' mode does not suit. If a rule or a domain sets
    /// the mode, a diagnostic already reports it.
    fn unsuitable_mode(&self) -> Option<SettingWarning> {
        let mode = self.config.sharing.mode;
        let is_reported = |domain: &str| {
            let mut diagnostics = self.loaded.diagnostics.iter();
            diagnostics.any(|found| {
                found.code == "unsuitable-mode" && found.domain.as_deref() == Some(domain)
            })
        };
        let mut unsuited = self.loaded.rules.rules().filter(|view| {
            let (domain, holds) = (&view.rule.domain, view.sharing.mode);
            holds == mode
                && self.backend_of(domain).is_some()
                && !suits(mode, view)
                && !is_reported(domain)
        });
        let first = unsuited.next()?;
        let (rule, domain) = (first.rule.shown(), &first.rule.domain);
        let which = match unsuited.count() {
            0 => format!("`{rule}` in `{domain}`, which is"),
            others => format!(
                "{} limits, the first `{rule}` in `{domain}`, which are",
                others + 1
            ),
        };
        Some(SettingWarning {
            path: "store.mode".to_owned(),
            code: "unsuitable-mode",
            message: format!(
                "`mode: {mode}` of the settings does not suit {which} decided strictly"
            ),
            help: format!("write `mode: {}` in these rules to say so", Mode::Strict),
        })
    }
}
