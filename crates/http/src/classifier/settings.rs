//! `identity` in a file of settings.

use serde::Deserialize;

use crate::client_address::ClientAddressSettings;
use crate::path::PathSettings;
use crate::source::SourceSettings;
#[cfg(feature = "jwt")]
use crate::token::TokenSettings;

/// The section `identity`: how a request becomes descriptors.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct IdentitySettings {
    /// Where the client's address is from.
    pub client_address: ClientAddressSettings,
    /// How paths are normalised.
    pub path: PathSettings,
    /// Route templates, for `route`. Empty.
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
    /// Whether letters become small, so that `Alice` is `alice`. `false`.
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

// === impl EntrySettings ===

#[cfg(feature = "jwt")]
impl EntrySettings {
    /// Whether its value, or that of an entry in its place, is from a token.
    pub(super) fn uses_claim(&self) -> bool {
        let other = match &self.if_missing {
            Some(IfMissing::Use(other)) => other.uses_claim(),
            _ => false,
        };
        other || matches!(self.from, SourceSettings::Claim(_))
    }
}

// === impl IdentitySettings ===

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
            }],
        }
    }
}
