//! Which keys of a map are wrong: those that nobody asked for, and those without a value.

use serde::de::DeserializeOwned;

use super::reports::{NO_VALUE_HELP, help_for_map};
use super::{Settings, value};
use crate::findings::Mark;
use crate::nearest::nearest;
use crate::quote::{no_value, quote};
use crate::sharing;
use crate::yaml::Node;

// === impl Settings ===

impl Settings<'_> {
    /// Reports the keys that the caller never asked for, and those that have no value; or that this
    /// is not a map.
    pub(super) fn report_wrong_keys(&self) {
        if let Some(node) = self.no_map {
            let path = self.path.trim_end_matches('.');
            let key = path.rsplit('.').next().unwrap_or_default();
            let message = format!("this must be a map, and is {}", node.kind());
            self.wrong(node.mark, message, &help_for_map(key, &self.asked.borrow()));
        }
        let mut known = self.asked.borrow().clone();
        known.sort_unstable();
        known.dedup();
        for (key, value) in self.entries() {
            let Some(text) = key.scalar().map(|scalar| scalar.text.as_str()) else {
                continue;
            };
            if !known.contains(&text) {
                if self.is_other_file.get() {
                    continue; // Which is reported.
                }
                self.report_unknown_key(key, text, &known);
            } else if self.has_no_value(text, value) {
                // A word of the caller, and so no password.
                self.report_no_value(key.mark, text);
            }
        }
    }

    /// As [`Settings::value`], where some keys belong to another place below `key`, which the error
    /// says: `retries` to `upstreams.NAME`.
    pub fn value_or_place<T: DeserializeOwned>(
        &self,
        key: &'static str,
        places: &'static [(&'static str, &'static str)],
    ) -> Option<T> {
        let node = self.get(key)?;
        self.findings.borrow_mut().hide_text(self.hides(key));
        value::read(key, node, places, self.findings)
    }

    /// Whether the map has one of the keys that the caller has asked for.
    pub fn has_known_key(&self) -> bool {
        let known = self.asked.borrow();
        self.entries().any(|(key, _)| {
            let text = key.scalar().map(|scalar| scalar.text.as_str());
            text.is_some_and(|text| known.contains(&text))
        })
    }

    /// Reports that the file has no settings, in place of its unknown keys.
    pub fn report_other_file(&self, message: String, help: &str) {
        self.is_other_file.set(true);
        let mark = self.node.map_or(Mark::top(0), |node| node.mark);
        self.wrong(mark, message, help);
    }

    /// Whether nothing is written for a key, or `null` where that is not a value.
    pub(super) fn has_no_value(&self, key: &str, value: &Node) -> bool {
        let is_empty = value.scalar().is_none_or(|scalar| scalar.text.is_empty());
        value.is_null() && (is_empty || !self.nullable.borrow().contains(&key))
    }

    /// Reports a key without a value.
    pub(super) fn report_no_value(&self, mark: Mark, key: &str) {
        let help = match self.nullable.borrow().contains(&key) {
            true => format!("write a value for it, or `{key}: null` to turn it off"),
            false => NO_VALUE_HELP.to_owned(),
        };
        let mut findings = self.findings.borrow_mut();
        findings.error(mark, "no-value", no_value(&quote(key)), help);
    }

    /// Reports a key that was not asked for, with the one that was probably meant.
    fn report_unknown_key(&self, key: &Node, text: &str, known: &[&'static str]) {
        // A URL without the key before it is a key for YAML.
        let is_hidden = self.is_secret || text.contains(['@', ':', '/']);
        let message = if is_hidden && !self.secrets.is_empty() {
            "unknown key".to_owned()
        } else {
            format!("unknown key {}", quote(text))
        };
        let now = sharing::current_name(text).filter(|key| known.contains(key));
        let help = match now.or_else(|| nearest(text, known)) {
            _ if self.path.is_empty() && matches!(text, "domain" | "descriptors") => {
                "rules are documents of their own: put `---` on a line of its own before `domain`"
                    .to_owned()
            }
            Some(key) if now.is_some() => format!("it is called `{}{key}` now", self.path),
            Some(key) => format!("did you mean `{}{key}`?", self.path),
            None => format!("the keys are `{}`", known.join("`, `")),
        };
        let mut findings = self.findings.borrow_mut();
        findings.error(key.mark, "unknown-key", message, help);
    }
}
