//! `identity` in a file of settings.

#[cfg(feature = "jwt")]
use std::path::Path;
use std::path::PathBuf;

use serde::Deserialize;

use super::cost::CostSettings;
use super::count_when::CountWhenSettings;
use crate::client_address::ClientAddressSettings;
use crate::path::PathSettings;
use crate::source::SourceSettings;
#[cfg(feature = "jwt")]
use crate::token::{TokenSettings, Verify};

/// The section `identity`: how a request becomes descriptors.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct IdentitySettings {
    /// Where the client's address is from.
    pub client_address: ClientAddressSettings,
    /// How paths are normalised.
    pub path: PathSettings,
    /// Route templates, for `route`. Default: empty.
    pub routes: Vec<String>,
    /// Where the request's token is, for `claim`.
    #[cfg(feature = "jwt")]
    pub token: Option<TokenSettings>,
    /// The descriptors of every request, in this order. One: the client's address, as
    /// `remote_address`.
    pub descriptors: Vec<DescriptorSettings>,
}

/// A descriptor.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DescriptorSettings {
    /// Its entries, in the order in which the rules nest them.
    pub entries: Vec<EntrySettings>,
    /// Which responses count. All; anything else only where responses are seen, in the gateway.
    #[serde(default)]
    pub count_when: Option<CountWhenSettings>,
    /// How many units a request consumes. Default: 1.
    #[serde(default)]
    pub cost: Option<CostSettings>,
}

/// An entry of a descriptor.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EntrySettings {
    /// The key, as in the rules.
    pub key: String,
    /// Where its value is from.
    pub from: SourceSettings,
    /// What happens to requests without the value. Needed where it can be missing: header, cookie,
    /// query, host, route, user agent.
    #[serde(default)]
    pub if_missing: Option<IfMissing>,
    /// Whether letters become small, so that `Alice` is `alice`. Default: `false`.
    #[serde(default)]
    pub fold_case: bool,
}

/// What happens to a request without a value.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum IfMissing {
    /// The descriptor is left out: its limits do not count the request.
    Skip,
    /// The request is denied.
    Deny,
    /// This entry is used instead.
    Use(Box<EntrySettings>),
}

// === impl DescriptorSettings ===

impl DescriptorSettings {
    /// Whether what it is charged depends on the response.
    pub fn needs_response(&self) -> bool {
        let cost = self.cost.as_ref();
        self.count_when.is_some() || cost.is_some_and(CostSettings::needs_response)
    }

    /// Whether a request's descriptor may have entries with these keys.
    pub fn may_have_keys(&self, keys: &[&str]) -> bool {
        let mut pairs = self.entries.iter().zip(keys);
        self.entries.len() == keys.len() && pairs.all(|(entry, key)| entry.may_have_key(key))
    }
}

// === impl EntrySettings ===

impl EntrySettings {
    /// Whether it, or the entry in its place if its value is missing, has this key.
    fn may_have_key(&self, key: &str) -> bool {
        let other = match &self.if_missing {
            Some(IfMissing::Use(other)) => other.may_have_key(key),
            _ => false,
        };
        other || self.key == key
    }
}

impl EntrySettings {
    /// Whether its value, or that of an entry in its place, is from a token.
    #[cfg(feature = "jwt")]
    pub fn uses_claim(&self) -> bool {
        self.uses(|source| matches!(source, SourceSettings::Claim(_)))
    }

    /// Whether its value, or that of an entry in its place, is a route.
    pub fn uses_route(&self) -> bool {
        self.uses(|source| *source == SourceSettings::Route)
    }

    fn uses(&self, is_wanted: fn(&SourceSettings) -> bool) -> bool {
        let other = match &self.if_missing {
            Some(IfMissing::Use(other)) => other.uses(is_wanted),
            _ => false,
        };
        other || is_wanted(&self.from)
    }
}

// === impl IdentitySettings ===

impl IdentitySettings {
    /// Whether what some descriptor is charged depends on the response.
    pub fn needs_response(&self) -> bool {
        self.descriptors
            .iter()
            .any(DescriptorSettings::needs_response)
    }

    /// Makes the paths of files that are relative those below `directory`.
    #[cfg(feature = "jwt")]
    pub fn resolve(&mut self, directory: &Path) {
        if let Some(Verify::KeysFile(path)) = self.token.as_mut().map(|token| &mut token.verify) {
            *path = directory.join(&*path);
        }
    }

    /// The file with the keys of tokens, if they are verified.
    pub fn keys_file(&self) -> Option<&PathBuf> {
        #[cfg(feature = "jwt")]
        if let Some(Verify::KeysFile(path)) = self.token.as_ref().map(|token| &token.verify) {
            return Some(path);
        }
        None
    }
}

impl Default for IdentitySettings {
    fn default() -> IdentitySettings {
        let address = EntrySettings {
            key: "remote_address".to_owned(),
            from: SourceSettings::ClientAddress,
            if_missing: None,
            fold_case: false,
        };
        IdentitySettings {
            client_address: ClientAddressSettings::default(),
            path: PathSettings::default(),
            routes: Vec::new(),
            #[cfg(feature = "jwt")]
            token: None,
            descriptors: vec![DescriptorSettings {
                entries: vec![address],
                count_when: None,
                cost: None,
            }],
        }
    }
}
