//! The metadata of rules, for the clients of the requests that they allow.

use serde_json::{Map, Value};
use tollgate_core::{Answer, Status};

use super::Resolved;

// === impl Resolved ===

impl Resolved<'_> {
    /// The metadata of the rules that allow the request, merged: maps are merged deeply, of other
    /// values the first wins. `None` if no such rule has metadata.
    pub fn metadata(&self, answer: &Answer) -> Option<Map<String, Value>> {
        let mut merged: Option<Map<String, Value>> = None;
        for (part, status) in self.parts.iter().zip(&answer.statuses) {
            let is_over = matches!(status, Status::Limited(limited) if limited.is_over());
            let metadata = part.rule().and_then(|rule| rule.metadata.as_deref());
            if let (Some(metadata), false) = (metadata, is_over) {
                merge(merged.get_or_insert_default(), metadata);
            }
        }
        merged
    }
}

/// Adds entries that are missing in `into`.
fn merge(into: &mut Map<String, Value>, from: &Map<String, Value>) {
    for (key, value) in from {
        match (into.get_mut(key), value) {
            (None, value) => {
                into.insert(key.clone(), value.clone());
            }
            (Some(Value::Object(into)), Value::Object(from)) => merge(into, from),
            (Some(_), _) => {}
        }
    }
}
