//! Keys for the page. Their values are shown only if the settings say so.

use serde_json::{Value, json};
use tollgate_core::Escaped;
use tollgate_engine::{Engine, HotKey, HotKeys};

/// The most keys of each kind in a snapshot.
pub(super) const KEYS_SHOWN: usize = 20;

/// How values are shown.
#[derive(Clone, Copy)]
pub(super) struct Shown<'e> {
    pub(super) engine: &'e Engine,
    /// `explain.show_values` of the settings.
    pub(super) show_values: bool,
}

// === impl Shown ===

impl Shown<'_> {
    /// The most frequent keys, each with the most by which its count is too high.
    pub(super) fn keys(self, found: &HotKeys) -> Value {
        json!({
            "hottest": self.list(&found.hottest),
            "mostDenied": self.list(&found.most_denied),
            "decisions": found.decisions,
            "denials": found.denials,
            "missed": found.missed,
            "seconds": found.span.as_nanos() / 1_000_000_000,
            "errorMax": found.error_max,
            "denialErrorMax": found.denial_error_max,
            "hashed": !self.show_values,
        })
    }

    fn list(self, keys: &[HotKey]) -> Vec<Value> {
        let keys = keys.iter().take(KEYS_SHOWN).map(|key| {
            json!({
                "domain": key.rule.domain,
                "rule": key.rule.shown(),
                "entries": self.entries(key),
                "whole": key.is_whole(),
                "count": key.count,
                "error": key.error,
            })
        });
        keys.collect()
    }

    /// The entries of a key's descriptor: pairs of a key and a value or its hash.
    pub(super) fn entries(self, key: &HotKey) -> Vec<[String; 2]> {
        let entries = key.descriptor().entries.into_iter();
        let entries = entries.map(|entry| {
            let value = match self.show_values {
                true => Escaped(entry.value).to_string(),
                false => match self.engine.hash_value(entry.value) {
                    Some(hash) => format!("#{hash}"),
                    None => "#".to_owned(),
                },
            };
            [Escaped(entry.key).to_string(), value]
        });
        entries.collect()
    }
}
