//! Keys that a map does not have: what was probably meant, and what to write in their place.

use tollgate_core::Span;

use crate::findings::Findings;
use crate::misplaced_settings;
use crate::quote::quote;
use crate::section::{SECTIONS, Section};
use crate::sharing::current_name;
use crate::window;
use crate::yaml::{Body, Looks, Node, Pair, Scalar};

use super::foreign::{self, Foreign, SIBLINGS_MAX};
use super::nearest_key::nearest_key;

/// What to write in place of a key.
struct Advice {
    help: String,
    /// The keys that the key stands for, so that they are not reported as missing.
    meant: &'static [&'static str],
}

/// A key in a map that does not have it.
struct Stray<'n> {
    section: Section,
    entries: &'n [Pair],
    text: &'n str,
    value: &'n Node,
}

/// Reports a key that `section` does not have; returns the keys of `section` that it stands for.
pub(super) fn report(
    (key, value): (&Node, &Node),
    section: Section,
    entries: &[Pair],
    findings: &mut Findings,
) -> &'static [&'static str] {
    let text = key_text(key);
    let shown = quote(text);
    let looks = key.scalar().map(Scalar::looks);
    if !matches!(looks, None | Some(Looks::Text)) {
        let message = format!("config error, key is not of type string: {shown}");
        findings.error(key.mark, "key-type", message, describe_valid_keys(section));
        return &[];
    }
    let stray = Stray {
        section,
        entries,
        text,
        value,
    };
    let elsewhere = SECTIONS.iter().filter(|other| other.field(text).is_some());
    let elsewhere: Vec<&str> = elsewhere.map(|other| other.describe()).collect();
    if !elsewhere.is_empty() {
        let message = format!("{shown} does not belong in {}", section.noun());
        let place = format!("it belongs {}", elsewhere.join(", or "));
        let advice = stray.place_of_key(place);
        report_misplaced(key, message, advice.help, findings);
        return advice.meant;
    }
    let message = format!("config error, unknown key {shown}");
    let advice = stray.unknown();
    findings.error(key.mark, "unknown-key", message, advice.help);
    advice.meant
}

/// Reports a key of another map; where a merge key brought it here, unless it is wrong in its own
/// map as well.
fn report_misplaced(key: &Node, message: String, help: String, findings: &mut Findings) {
    const CODE: &str = "misplaced-key";
    let mark = key.use_mark();
    if mark == key.mark {
        findings.error(mark, CODE, message, help);
    } else if findings.has(key.mark, CODE) {
        findings.reject();
    } else {
        let place = findings.describe_position(key.mark, mark);
        let message = format!("{message}; `<<` adds it from the map {place}");
        findings.error(mark, CODE, message, help);
    }
}

pub(super) fn key_text(key: &Node) -> &str {
    key.scalar().map_or("", |scalar| &scalar.text)
}

fn describe_valid_keys(section: Section) -> String {
    let keys: Vec<String> = section
        .fields()
        .map(|field| format!("`{}`", field.key))
        .collect();
    format!("{} takes {}", section.noun(), keys.join(", "))
}

// === impl Advice ===

impl Advice {
    fn new(help: impl Into<String>, meant: &'static [&'static str]) -> Advice {
        Advice {
            help: help.into(),
            meant,
        }
    }
}

// === impl Stray ===

impl Stray<'_> {
    /// What to do with a key of another map, which belongs in `place`.
    fn place_of_key(&self, place: String) -> Advice {
        let belongs_in_limit = Section::RateLimit.field(self.text).is_some();
        let limit = self.sibling("rate_limit");
        match (self.section, self.text) {
            (Section::Domain, "name") if self.sibling("domain").is_none() => {
                Advice::new("write `domain: NAME`", &["domain"])
            }
            (Section::Domain, key) if Section::Descriptor.field(key).is_some() => Advice::new(
                "it belongs in an item of `descriptors`, which begins with `- key: NAME`",
                &[],
            ),
            (Section::Descriptor, "name") if self.sibling("key").is_none() => Advice::new(
                "write `key: NAME`, the key that requests carry; the `name` of a limit belongs \
                 inside `rate_limit`",
                &["key"],
            ),
            (Section::Descriptor, _) if belongs_in_limit => match limit {
                Some(limit) if limit.is_null() => Advice::new(
                    format!("{place}: indent it by two more spaces, below `rate_limit`"),
                    &[],
                ),
                Some(limit) if limit.scalar().is_some() => Advice::new(
                    format!(
                        "{place}; `rate_limit` is then a map: \
                         `{{requests_per_unit: …, unit: …, {}: …}}`",
                        self.text
                    ),
                    &[],
                ),
                _ => Advice::new(place, &[]),
            },
            _ => Advice::new(place, &[]),
        }
    }

    /// What to write in place of a key that no map has.
    fn unknown(&self) -> Advice {
        if let Some(name) = current_name(self.text) {
            return Advice::new(format!("it is called `{name}` now"), &[]);
        }
        if Foreign::of(self.text) == Some(Foreign::Note) && self.value.scalar().is_some() {
            return Advice::new("write it as a comment, after `# `", &[]);
        }
        let special = self.without_space().or_else(|| match self.section {
            Section::Domain => self.of_document(),
            Section::Descriptor => self.of_descriptor(),
            Section::RateLimit => self.of_limit(),
            _ => None,
        });
        if let Some(advice) = special {
            return advice;
        }
        match nearest_key(self.text, self.section) {
            Some((field, Some(other))) => Advice::new(
                format!("did you mean `{field}`? It belongs {}", other.describe()),
                &[],
            ),
            Some((field, None)) => Advice::new(
                format!("did you mean `{field}`?"),
                as_list(field, self.section),
            ),
            None => self
                .shorthand()
                .unwrap_or_else(|| Advice::new(describe_valid_keys(self.section), &[])),
        }
    }

    /// `{unit:minute}`: without a space after the colon, all of it is the key.
    fn without_space(&self) -> Option<Advice> {
        let (key, value) = self.text.split_once(':')?;
        let field = self.section.field(key.trim())?;
        let meant = as_list(field.key, self.section);
        let value = quote(value.trim());
        let value = value.trim_matches('`');
        let help = format!("write a space after the colon: `{}: {value}`", field.key);
        Some(Advice::new(help, meant))
    }

    /// What a key at the top of a document means in settings, or to other products.
    fn of_document(&self) -> Option<Advice> {
        let has_rules = matches!(&self.value.body, Body::List(items)
            if items.iter().any(|item| matches!(item.body, Body::Map(_))));
        if misplaced_settings::is_settings_key(self.text) && !(has_rules && self.text == "rules") {
            let help = "it is a setting of the service: put `---` on a line of its own between the \
                        settings and the rules";
            return Some(Advice::new(help, &[]));
        }
        let is_list = matches!(self.value.body, Body::List(_));
        if self.text == "domains" && is_list {
            let help = "each domain is a document of its own: write `domain: NAME`, and `---` on a \
                        line between two documents";
            return Some(Advice::new(help, &["domain"]));
        }
        if self
            .value
            .child("0")
            .is_some_and(|item| item.child("actions").is_some())
        {
            let help = "these are actions of an Envoy route: they belong in Envoy's configuration";
            return Some(Advice::new(help, &[]));
        }
        match Foreign::of(self.text)? {
            Foreign::Rules if self.sibling("descriptors").is_none() => Some(Advice::new(
                "rules are listed below `descriptors`, as `- key: NAME` with a `rate_limit`",
                &[],
            )),
            Foreign::Count | Foreign::Window(_) | Foreign::Rate(_) => Some(Advice::new(
                format!(
                    "a limit belongs in a descriptor, beside `key`, as `rate_limit: {}`",
                    foreign::short_form(self.entries)
                ),
                &[],
            )),
            _ => None,
        }
    }

    /// What a key of a descriptor means to other products.
    fn of_descriptor(&self) -> Option<Advice> {
        let limit = || foreign::short_form(self.entries);
        Some(match Foreign::of(self.text)? {
            Foreign::Count if matches!(self.value.body, Body::Map(_)) => {
                Advice::new("did you mean `rate_limit`?", &[])
            }
            Foreign::Count | Foreign::Window(_) | Foreign::Rate(_) => {
                Advice::new(format!("write the limit as `rate_limit: {}`", limit()), &[])
            }
            Foreign::Burst => Advice::new(
                "a burst belongs inside `rate_limit`: `{requests_per_unit: …, unit: …, algorithm: \
                 token_bucket, burst: …}`",
                &[],
            ),
            Foreign::Shadow => Advice::new("write `shadow_mode: true`", &[]),
            Foreign::By if self.sibling("key").is_some() => Advice::new(
                "each value of `key` has its own counter; a second key goes one level down, in \
                 `descriptors`",
                &[],
            ),
            Foreign::By => Advice::new(
                "write `key: NAME`: requests carry this key with a value, and each value has its \
                 own counter",
                &["key"],
            ),
            Foreign::Note => return None,
            Foreign::Rules => Advice::new(
                "write the limit of this descriptor as `rate_limit`, and the rules for the next \
                 entry as `descriptors`",
                &[],
            ),
        })
    }

    /// What a key inside `rate_limit` means to other products.
    fn of_limit(&self) -> Option<Advice> {
        if let Body::Map(_) | Body::List(_) = self.value.body {
            return None;
        }
        if window::short_form(self.text).is_ok() && self.value.is_null() {
            let form = quote(self.text);
            let form = form.trim_matches('`');
            let help = format!("write `rate_limit: {form}`, without braces");
            return Some(Advice::new(help, &["requests_per_unit", "unit"]));
        }
        let meant = Foreign::of(self.text)?;
        if meant == Foreign::Count
            && let Some(form) = window::meant_short_form(key_text(self.value))
        {
            let help = format!("write `rate_limit: {form}`, or `requests_per_unit` and `unit`");
            return Some(Advice::new(help, &["requests_per_unit", "unit"]));
        }
        let count = foreign::whole(self.value).unwrap_or(10);
        Some(match meant {
            Foreign::Count => Advice::new(
                format!("write `requests_per_unit: {count}`"),
                &["requests_per_unit"],
            ),
            Foreign::Window(unit) => {
                let length = foreign::window_of(self.value, unit);
                let length = length.unwrap_or_else(|| "15m".to_owned());
                let help = match Span::unit(&length) {
                    Some(_) => format!("write `unit: {length}`"),
                    None => format!("write `window: {length}`"),
                };
                Advice::new(help, &["unit"])
            }
            Foreign::Rate(unit) => Advice::new(
                format!("write `requests_per_unit: {count}` and `unit: {unit}`"),
                &["requests_per_unit", "unit"],
            ),
            Foreign::Burst => Advice::new("write `burst`, with `algorithm: token_bucket`", &[]),
            Foreign::Shadow => Advice::new(
                "write `shadow_mode: true` in the descriptor, beside `rate_limit`",
                &[],
            ),
            Foreign::By => Advice::new(
                "the `key` of the descriptor, beside `rate_limit`, determines what is counted",
                &[],
            ),
            Foreign::Rules | Foreign::Note => return None,
        })
    }

    /// `- user: alice` in place of a key and its value.
    fn shorthand(&self) -> Option<Advice> {
        let has_key = self.sibling("key").is_some();
        let value = &self.value.scalar()?.text;
        if self.section != Section::Descriptor || has_key {
            return None;
        }
        let (key, value) = (quote(self.text), quote(value));
        let (key, value) = (key.trim_matches('`'), value.trim_matches('`'));
        let help = match window::short_form(value) {
            Ok(_) => format!("write `key: {key}` and `rate_limit: {value}`"),
            Err(_) if value.is_empty() => format!("write `key: {key}`"),
            Err(_) => format!("write `key: {key}` and `value: {value}`"),
        };
        Some(Advice::new(help, &["key"]))
    }

    /// The value of another key of the map, among the first ones.
    fn sibling(&self, key: &str) -> Option<&Node> {
        let mut entries = self.entries.iter().take(SIBLINGS_MAX);
        let (_, value) = entries.find(|(other, _)| key_text(other) == key)?;
        Some(value)
    }
}

/// A list of one of the section's keys.
fn as_list(key: &str, section: Section) -> &'static [&'static str] {
    let field = section.field(key);
    field.map_or(&[], |field| std::slice::from_ref(&field.key))
}
