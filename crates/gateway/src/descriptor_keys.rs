//! The keys of the descriptors that requests have.

use std::collections::BTreeSet;

use tollgate_http::{EntrySettings, IfMissing};

use crate::settings::GatewaySettings;

impl GatewaySettings {
    /// The keys of all entries of the descriptors that identities make.
    pub fn descriptor_keys(&self) -> BTreeSet<String> {
        let mut keys = BTreeSet::new();
        let descriptors = self.identities();
        let descriptors = descriptors.flat_map(|(_, _, identity)| &identity.descriptors);
        for entry in descriptors.flat_map(|descriptor| &descriptor.entries) {
            add_keys(entry, &mut keys);
        }
        keys
    }
}

/// The key of an entry, and those of the entries in its place if its value is missing.
fn add_keys(entry: &EntrySettings, keys: &mut BTreeSet<String>) {
    keys.insert(entry.key.clone());
    if let Some(IfMissing::Use(other)) = &entry.if_missing {
        add_keys(other, keys);
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn keys_are_those_of_all_routes_and_of_entries_in_place_of_others() {
        let settings = r#"{"domain": "d", "routes": [{"identity": {"descriptors": [{"entries": [
            {"key": "user", "from": {"header": "x-user"}, "if_missing":
                {"use": {"key": "session", "from": {"cookie": "s"}, "if_missing": "skip"}}}
        ]}]}}, {}]}"#;
        let settings: GatewaySettings = serde_json::from_str(settings).unwrap();
        let keys = settings.descriptor_keys();
        assert_eq!(Vec::from_iter(keys), ["remote_address", "session", "user"]);
    }
}
