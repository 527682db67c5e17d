//! The source of reloads: the rules, certificates, keys and lists that the settings name, and the
//! settings file with the routes of the gateway.

use std::path::PathBuf;
use std::sync::Arc;

use tollgate_core::{Limit, Sharing};
use tollgate_engine::{RuleSource, Why};
use tollgate_gateway::{Gateway, GatewaySettings};
use tollgate_rules::{Loaded, RuleSet, Source, read_regular_paths};

use crate::admin_tokens::AdminTokens;
use crate::auth::ActiveAuth;
use crate::certificates::Certificates;
use crate::config::Config;
use crate::metrics::Metrics;
use crate::unlimited;
use settings::SettingsFile;

mod settings;

/// The rules, certificates, tokens and lists that the settings name, and the settings' own file.
pub(crate) struct ConfiguredRules {
    config: Config,
    settings: SettingsFile,
    certificates: Certificates,
    admin_tokens: Option<Arc<AdminTokens>>,
    auth: Option<Arc<ActiveAuth>>,
    gateway: Option<Arc<Gateway>>,
    /// The files beside the rules; those of the gateway, which change with its settings, last.
    others: Vec<PathBuf>,
    /// How many of them are not the gateway's.
    fixed: usize,
}

// === impl ConfiguredRules ===

impl ConfiguredRules {
    /// The source of what `config` names, of which the parts that are given were read.
    pub(crate) fn new(
        config: Config,
        certificates: Certificates,
        admin_tokens: Option<Arc<AdminTokens>>,
        auth: Option<Arc<ActiveAuth>>,
        gateway: Option<Arc<Gateway>>,
        metrics: Arc<Metrics>,
    ) -> ConfiguredRules {
        let lists = config.gateway.iter().flat_map(|one| one.lists.paths());
        let tokens = admin_tokens.iter().filter_map(|tokens| tokens.path());
        let others = config.file.iter().chain(certificates.paths()).chain(lists);
        let keys = auth.iter().filter_map(|auth| auth.keys_file());
        let others: Vec<PathBuf> = others.chain(tokens).chain(keys).cloned().collect();
        let mut source = ConfiguredRules {
            fixed: others.len(),
            others,
            config,
            settings: SettingsFile::new(metrics),
            certificates,
            admin_tokens,
            auth,
            gateway,
        };
        source.find_gateway_files();
        source
    }

    /// Has the files watched that the gateway's settings name now.
    fn find_gateway_files(&mut self) {
        self.others.truncate(self.fixed);
        let files = self.config.gateway.iter().flat_map(GatewaySettings::files);
        self.others.extend(files.cloned());
    }
}

impl RuleSource for ConfiguredRules {
    fn paths(&self) -> &[PathBuf] {
        &self.config.rules
    }

    fn other_paths(&self) -> &[PathBuf] {
        &self.others
    }

    fn parse(&self, sources: &[Source]) -> Loaded {
        self.config.load(sources)
    }

    fn check_fit(&self, rules: &RuleSet) {
        let gateway = self.config.gateway.as_ref();
        let gateway = gateway.filter(|_| self.gateway.is_some());
        unlimited::warn(self.config.auth.as_ref(), gateway, rules);
    }

    fn default_sharing(&self) -> Sharing {
        self.config.sharing
    }

    fn check_others(&mut self, why: Why) -> bool {
        self.certificates.reload(why);
        if let Some(tokens) = &self.admin_tokens {
            tokens.reload(why);
        }
        if let Some(auth) = &self.auth {
            auth.reload(why);
        }
        if let Some(gateway) = &self.gateway {
            gateway.reload_lists(why);
        }
        let Some(file) = self.config.file.clone() else {
            return false;
        };
        let (config, gateway) = (&mut self.config, self.gateway.as_deref());
        let has_replaced = self.settings.check(&file, config, gateway, why);
        self.find_gateway_files();
        has_replaced
    }
}

/// The limits in the rules files, as far as they can be parsed, for sizing the store in memory.
/// Errors are reported later, when the rules are applied.
pub(crate) fn known_limits(config: &Config) -> Vec<Limit> {
    let sources = read_regular_paths(&config.rules).unwrap_or_default();
    let rules = config.load(&sources).rules;
    rules.limits().collect()
}

#[cfg(test)]
pub(crate) mod tests;
