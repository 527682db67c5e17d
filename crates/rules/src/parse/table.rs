//! A map whose keys are known.

use crate::findings::{Findings, Mark};
use crate::quote::{no_value, quote};
use crate::section::{Field, Section};
use crate::yaml::{Body, Node, Pair};

use super::unknown_key::{self, key_text};

/// The known keys of a map and their values.
pub(super) struct Table<'n> {
    node: &'n Node,
    entries: Vec<(&'static Field, &'n Node, &'n Node)>,
    /// Known keys that unknown ones were taken for.
    misspelt: Vec<&'static str>,
}

// === impl Table ===

impl<'n> Table<'n> {
    /// Reads a map of this section; unknown keys are reported and left out.
    pub(super) fn read(
        node: &'n Node,
        section: Section,
        findings: &mut Findings,
    ) -> Option<Table<'n>> {
        let Body::Map(entries) = &node.body else {
            let message = format!(
                "{} must be a map, and this is {}",
                section.noun(),
                node.kind()
            );
            let first = section.fields().next().map_or("", |field| field.key);
            let help = match section {
                Section::PriorityShare => "write `reserved: {share: 20%, for: [critical]}`".into(),
                Section::Elastic => "write `elastic: {share: 50%, while: [reported]}`".into(),
                _ => format!("write it as `{first}: …`, one key a line"),
            };
            findings.error(node.mark, "type", message, help);
            return None;
        };
        let mut table = Table {
            node,
            entries: Vec::with_capacity(entries.len()),
            misspelt: Vec::new(),
        };
        for (key, value) in entries {
            match section.field(key_text(key)) {
                Some(field) => {
                    let is_reported = is_required(field) || is_misindented(field, entries);
                    if value.is_null() && !is_reported {
                        empty(key, value, findings);
                    }
                    table.entries.push((field, key, value));
                }
                None => {
                    let meant = unknown_key::report((key, value), section, entries, findings);
                    table.misspelt.extend(meant);
                }
            }
        }
        Some(table)
    }

    /// The value of a key; `None` if it is missing or empty.
    pub(super) fn get(&self, key: &str) -> Option<&'n Node> {
        self.entry(key).map(|(_, value)| value)
    }

    /// The position of a key that has a value, and the value.
    pub(super) fn entry(&self, key: &str) -> Option<(Mark, &'n Node)> {
        let mut entries = self.entries.iter();
        let (_, key, value) = entries.find(|(field, _, _)| field.key == key)?;
        (!value.is_null()).then_some((key.mark, *value))
    }

    /// The merge key that brought a key into the map.
    pub(super) fn merge_mark(&self, key: &str) -> Option<Mark> {
        let mut entries = self.entries.iter();
        let (_, key, _) = entries.find(|(field, _, _)| field.key == key)?;
        (key.use_mark() != key.mark).then(|| key.use_mark())
    }

    /// The first key of this map, if `other` has none of its keys: both may be one map, with a `- `
    /// too many.
    pub(super) fn part_of(&self, other: &Node) -> Option<&'static str> {
        let (first, _, _) = self.entries.first()?;
        let mut keys = self.entries.iter().map(|(field, _, _)| field.key);
        let is_part =
            matches!(other.body, Body::Map(_)) && keys.all(|key| other.child(key).is_none());
        is_part.then_some(first.key)
    }

    /// Whether a key is missing because it is misspelt, which is reported already.
    pub(super) fn misspells(&self, key: &str) -> bool {
        self.misspelt.contains(&key)
    }

    /// Where the map begins.
    pub(super) fn mark(&self) -> Mark {
        match &self.node.body {
            Body::Map(entries) if !entries.is_empty() => entries[0].0.use_mark(),
            _ => self.node.mark,
        }
    }
}

/// Whether the keys of this `rate_limit` without a value are beside it, which is reported.
fn is_misindented(field: &Field, entries: &[Pair]) -> bool {
    let is_of_limit = |key: &Node| {
        let text = key_text(key);
        let is_of_descriptor = Section::Descriptor.field(text).is_some();
        !is_of_descriptor && Section::RateLimit.field(text).is_some()
    };
    field.key == "rate_limit" && entries.iter().any(|(key, _)| is_of_limit(key))
}

/// Whether a key without a value is reported like a missing one.
fn is_required(field: &Field) -> bool {
    matches!(field.key, "domain" | "key")
}

fn empty(key: &Node, value: &Node, findings: &mut Findings) {
    let message = no_value(&quote(key_text(key)));
    let is_text = key_text(key) == "value";
    let help = match value.scalar() {
        Some(scalar) if is_text && !scalar.text.is_empty() => {
            "without quotes, this is not text: put it in quotes, or remove the key"
        }
        _ if is_text => {
            "without a value it has no effect: give it one or remove it; a text that begins with \
             `#` goes in quotes"
        }
        _ => "without a value it has no effect: give it one or remove it",
    };
    findings.warning(key.mark, "no-value", message, help);
}
