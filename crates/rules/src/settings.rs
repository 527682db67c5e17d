//! A program's own settings in YAML, with the same diagnostics as rules.
//!
//! The caller asks for each key that it knows, with a type and a default. A key in the file that it
//! never asked for is an error, which names the nearest known key. So is a key without a value, or
//! an empty `tls` would be no `tls`; only where the caller asks whether a key is off, `null` is a
//! value ([`Settings::is_off`]).

use std::cell::{Cell, RefCell, RefMut};
use std::num::NonZeroU32;

use serde::de::DeserializeOwned;
use tollgate_core::{Sharing, Span};

use crate::diagnostic::Diagnostic;
use crate::findings::{Findings, Mark};
use crate::scalar;
use crate::sharing;
use crate::source::Source;
use crate::window;
use crate::yaml::{Body, Documents, Kind, Node};

mod keys;
mod meant;
mod places;
mod reports;
mod value;

use meant::meant_value;
use reports::report_empty_item;

pub use places::SettingPlaces;

/// A map in a settings file, and the keys that were read so far.
#[derive(Debug)]
pub struct Settings<'n> {
    /// The path of this map, with a dot after it; empty at the top.
    path: String,
    /// `None` for a missing map: every key has its default.
    node: Option<&'n Node>,
    /// What is there in place of a map, which is reported once the keys are known.
    no_map: Option<&'n Node>,
    asked: RefCell<Vec<&'static str>>,
    /// The keys for which `null` is a value.
    nullable: RefCell<Vec<&'static str>>,
    /// Whether the file has no settings, and so unknown keys are not errors.
    is_other_file: Cell<bool>,
    findings: &'n RefCell<Findings>,
    /// The keys at the top below which no message shows the file's text.
    secrets: &'static [&'static str],
    /// Whether this map is below one of those keys.
    is_secret: bool,
    /// Whether further documents follow in the file of this map, the top.
    is_followed: bool,
}

/// Reads a settings file: its first document, a map. Further documents are rules
/// ([`Settings::is_followed_by_rules`]), which are not looked at.
///
/// `secrets` are keys at the top of the file. No message shows a key or a value below one of them,
/// since it may be a misplaced password. The caller decides which excerpts ([`Diagnostic::text`])
/// to show.
///
/// # Errors
///
/// All diagnostics of the file, by line.
pub fn settings<T>(
    source: &Source,
    secrets: &'static [&'static str],
    take: impl FnOnce(&Settings<'_>) -> T,
) -> Result<T, Vec<Diagnostic>> {
    let mut findings = Findings::default();
    // The YAML reader does not know which key it is below.
    findings.hide_text(!secrets.is_empty());
    let documents = Documents::read(source, 0, Kind::Settings, &mut findings);
    if !documents.whole {
        return Err(findings.finish(std::slice::from_ref(source)).0);
    }
    let (first, rules) = match documents.list.split_first() {
        Some((first, rules)) => (Some(first), rules),
        None => (None, &[][..]),
    };
    if let Some(first) = first {
        // What is wrong with the rules is reported when they are read.
        findings.drop_after(first.range);
    }
    let findings = RefCell::new(findings);
    let root = first.map(|document| &*document.root);
    let top = Settings {
        is_followed: rules.iter().any(|document| !document.root.is_null()),
        ..Settings::new(String::new(), root, &findings, secrets, false)
    };
    let taken = take(&top);
    top.report_wrong_keys();
    let findings = findings.into_inner();
    let (diagnostics, _) = findings.finish(std::slice::from_ref(source));
    if diagnostics.iter().any(Diagnostic::is_error) {
        return Err(diagnostics);
    }
    Ok(taken)
}

// === impl Settings ===

impl<'n> Settings<'n> {
    /// The map below `key`, handed to `take`.
    pub fn map<T>(&self, key: &'static str, take: impl FnOnce(&Settings<'_>) -> T) -> T {
        let path = format!("{}{key}.", self.path);
        let below = self.below(path, self.get(key), self.hides(key));
        let taken = take(&below);
        below.report_wrong_keys();
        taken
    }

    /// The maps below the names in the map `key`, each passed to `take` with its name.
    pub fn each<T>(
        &self,
        key: &'static str,
        mut take: impl FnMut(&str, &Settings<'_>) -> T,
    ) -> Vec<T> {
        let path = format!("{}{key}.", self.path);
        let named = self.below(path, self.get(key), self.hides(key));
        let each = named.entries().filter_map(|(name_node, node)| {
            let name = &name_node.scalar()?.text;
            let is_label = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-');
            let shown = match named.is_secret && !name.chars().all(is_label) {
                true => "…",
                false => name,
            };
            if node.is_null() {
                self.report_no_value(name_node.mark, shown);
                return None;
            }
            let path = format!("{}{shown}.", named.path);
            let below = named.below(path, Some(node), named.is_secret);
            let taken = take(name, &below);
            below.report_wrong_keys();
            Some(taken)
        });
        each.collect()
    }

    /// Whether rules follow in the file of this map, the top.
    pub const fn is_followed_by_rules(&self) -> bool {
        self.is_followed
    }

    /// Whether `key` has a value.
    pub fn has(&self, key: &'static str) -> bool {
        self.get(key).is_some()
    }

    /// Whether the map has `key`. Unlike [`Settings::has`], this does not make it a known key.
    pub fn contains(&self, key: &str) -> bool {
        self.entries()
            .any(|(found, _)| found.scalar().is_some_and(|scalar| scalar.text == key))
    }

    /// Whether `key` has a map.
    pub fn is_map(&self, key: &'static str) -> bool {
        self.get(key)
            .is_some_and(|node| matches!(node.body, Body::Map(_)))
    }

    /// Text that no message may repeat, as it is written.
    pub fn secret(&self, key: &'static str) -> Option<String> {
        let node = self.get(key)?;
        let text = node.scalar().map(|scalar| scalar.text.clone());
        if text.is_none() {
            let message = format!("`{key}` takes text, and this is {}", node.kind());
            self.wrong(node.mark, message, "write it in one line, in quotes");
        }
        text
    }

    /// `true` or `false`.
    pub fn flag(&self, key: &'static str, default: bool) -> bool {
        let node = self.get(key);
        let flag = node.and_then(|node| scalar::flag(node, key, &mut self.findings_about(key)));
        flag.unwrap_or(default)
    }

    /// A whole number in `range`, both ends included.
    pub fn count(&self, key: &'static str, default: u32, range: (u32, u32)) -> u32 {
        let mut findings = self.findings_about(key);
        let node = self.get(key);
        let count = node.and_then(|node| scalar::count(node, key, range, &mut findings));
        count.unwrap_or(default)
    }

    /// A length of time, such as `1m30s`, in `range`, both ends included.
    pub fn span(&self, key: &'static str, default: Span, (min, max): (Span, Span)) -> Span {
        // Its default: a common length of time would be far too long for some settings.
        let span = self.parse(key, &default.to_string(), |text| {
            let span = window::window(text).map_err(|bad| bad.describe().to_owned())?;
            if span < min || span > max {
                return Err(format!("is outside {min} to {max}"));
            }
            Ok(span)
        });
        span.unwrap_or(default)
    }

    /// Text.
    pub fn text(&self, key: &'static str) -> Option<String> {
        let mut findings = self.findings_about(key);
        let node = self.get(key)?;
        scalar::text(node, key, &mut findings).map(|text| text.value)
    }

    /// Text that `parse` converts, or returns what is wrong with it: "is not an address". The help
    /// is what was probably meant, if it is right, or else `example`.
    pub fn parse<T>(
        &self,
        key: &'static str,
        example: &str,
        parse: impl Fn(&str) -> Result<T, String>,
    ) -> Option<T> {
        let help = |text: &str| {
            let meant = meant_value(text, example).filter(|meant| parse(meant).is_ok());
            match meant.filter(|_| !self.hides(key)) {
                Some(meant) => format!("did you mean `{key}: {meant}`?"),
                None => format!("write `{key}: {example}`"),
            }
        };
        self.parse_or_help(key, |text| parse(text).map_err(|why| (why, help(text))))
    }

    /// As [`Settings::parse`], where `parse` also returns what to write instead of this text.
    pub fn parse_or_help<T>(
        &self,
        key: &'static str,
        parse: impl FnOnce(&str) -> Result<T, (String, String)>,
    ) -> Option<T> {
        let node = self.get(key)?;
        let text = &scalar::scalar(node, key, &mut self.findings_about(key))?.text;
        match parse(text) {
            Ok(parsed) => Some(parsed),
            Err((why, help)) => {
                let shown = self.findings_about(key).quote(text);
                self.wrong(node.mark, format!("{shown} {why}"), &help);
                None
            }
        }
    }

    /// One of `words`.
    pub fn choice(&self, key: &'static str, words: &[&'static str]) -> Option<&'static str> {
        let example = words.join("` or `");
        self.parse(key, &example, |text| {
            let found = words.iter().find(|word| **word == text);
            found
                .copied()
                .ok_or_else(|| format!("is not a valid `{key}`"))
        })
    }

    /// A value of a type that serde reads; `None` if it is missing, or if it is wrong and reported.
    pub fn value<T: DeserializeOwned>(&self, key: &'static str) -> Option<T> {
        self.value_or_place(key, &[])
    }

    /// `mode`, `on_store_error` and `instances`, as in rules. A missing one is as in `default`.
    pub fn sharing(&self, default: Sharing) -> Sharing {
        let mode = self.choice("mode", &sharing::MODES);
        let on_store_error = self.choice("on_store_error", &sharing::ON_STORE_ERROR);
        // 0 is out of range, and so represents a number that is missing or wrong.
        let instances = self.count("instances", 0, sharing::INSTANCES);
        Sharing {
            mode: mode.and_then(sharing::mode).unwrap_or(default.mode),
            on_store_error: on_store_error
                .and_then(sharing::on_store_error)
                .unwrap_or(default.on_store_error),
            instances: NonZeroU32::new(instances).or(default.instances),
        }
    }

    /// A list of texts; one text is a list of one.
    pub fn texts(&self, key: &'static str) -> Vec<String> {
        let Some(node) = self.get(key) else {
            return Vec::new();
        };
        let mut findings = self.findings_about(key);
        let items: Vec<&Node> = match &node.body {
            Body::List(items) => items.iter().map(|item| &**item).collect(),
            _ => vec![node],
        };
        let texts = items.into_iter().filter_map(|item| {
            if item.is_null() {
                report_empty_item(item.mark, key, &mut findings);
                return None;
            }
            scalar::text(item, key, &mut findings)
        });
        texts.map(|text| text.value).collect()
    }

    /// Whether `key` is set to `null`. This makes `null` a value of it, but not nothing at all.
    pub fn is_off(&self, key: &'static str) -> bool {
        self.nullable.borrow_mut().push(key);
        self.entry(key).is_some_and(|(_, value)| value.is_null())
    }

    /// Reports something wrong with the value of `key`, or with its absence.
    pub fn report_error(&self, key: &'static str, message: String, help: &str) {
        let at = self.entry(key).map(|(_, value)| value);
        if at.is_some_and(|value| self.has_no_value(key, value)) {
            return; // Which is reported.
        }
        let at = at.map(|value| value.mark);
        let mark = at.or(self.node.map(|node| node.mark));
        self.wrong(mark.unwrap_or(Mark::top(0)), message, help);
    }

    /// Reports something wrong with what is at `path` below `key`, such as `entries[1].from`, or
    /// with the innermost part of the path that is there.
    pub fn report_error_at(&self, key: &'static str, path: &str, message: String, help: &str) {
        let Some((_, value)) = self.entry(key) else {
            return self.report_error(key, message, help);
        };
        if self.has_no_value(key, value) {
            return; // Which is reported.
        }
        self.wrong(value.innermost(path).0.mark, message, help);
    }

    fn below(&self, path: String, node: Option<&'n Node>, is_secret: bool) -> Settings<'n> {
        Settings::new(path, node, self.findings, self.secrets, is_secret)
    }

    /// Whether the value of `key` is left out of messages.
    fn hides(&self, key: &str) -> bool {
        self.is_secret || self.path.is_empty() && self.secrets.contains(&key)
    }

    /// Where errors in the value of `key` are reported.
    fn findings_about(&self, key: &str) -> RefMut<'_, Findings> {
        let mut findings = self.findings.borrow_mut();
        findings.hide_text(self.hides(key));
        findings
    }

    /// The settings in `node`.
    fn new(
        path: String,
        node: Option<&'n Node>,
        findings: &'n RefCell<Findings>,
        secrets: &'static [&'static str],
        is_secret: bool,
    ) -> Settings<'n> {
        let node = node.filter(|node| !node.is_null());
        let is_map = |node: &&Node| matches!(node.body, Body::Map(_));
        Settings {
            path,
            node: node.filter(is_map),
            no_map: node.filter(|node| !is_map(node)),
            asked: RefCell::default(),
            nullable: RefCell::default(),
            is_other_file: Cell::new(false),
            findings,
            secrets,
            is_secret,
            is_followed: false,
        }
    }

    fn get(&self, key: &'static str) -> Option<&'n Node> {
        let (_, value) = self.entry(key)?;
        (!value.is_null()).then_some(value)
    }

    fn entry(&self, key: &'static str) -> Option<(&'n Node, &'n Node)> {
        self.asked.borrow_mut().push(key);
        self.entries()
            .find(|(found, _)| found.scalar().is_some_and(|scalar| scalar.text == key))
    }

    fn entries(&self) -> impl Iterator<Item = (&'n Node, &'n Node)> + use<'n> {
        let entries = self.node.and_then(|node| match &node.body {
            Body::Map(entries) => Some(entries),
            _ => None,
        });
        let entries = entries.into_iter().flatten();
        entries.map(|(key, value)| (&**key, &**value))
    }

    fn wrong(&self, mark: Mark, message: String, help: &str) {
        let mut findings = self.findings.borrow_mut();
        findings.error(mark, "setting", message, help);
    }
}

#[cfg(test)]
mod tests;
