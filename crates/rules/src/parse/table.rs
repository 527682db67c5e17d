//! A map whose keys are known.

use crate::findings::{Findings, Mark};
use crate::quote::{no_value, quote};
use crate::section::{Field, SECTIONS, Section};
use crate::sharing::current_name;
use crate::yaml::{Body, Looks, Node};

/// How far apart two words may be for one to be taken for a misspelling of the other.
const SLIPS_MAX: usize = 3;

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
            let help = format!("write it as `{first}: …`, one key a line");
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
                    if value.is_null() {
                        empty(key, findings);
                    }
                    table.entries.push((field, key, value));
                }
                None => {
                    let meant = report_misplaced(key, section, findings);
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

    /// Whether a key is missing because it is misspelt, which is reported already.
    pub(super) fn misspells(&self, key: &str) -> bool {
        self.misspelt.contains(&key)
    }

    /// Where the map begins.
    pub(super) fn mark(&self) -> Mark {
        match &self.node.body {
            Body::Map(entries) if !entries.is_empty() => entries[0].0.mark,
            _ => self.node.mark,
        }
    }
}

fn key_text(key: &Node) -> &str {
    key.scalar().map_or("", |scalar| &scalar.text)
}

fn empty(key: &Node, findings: &mut Findings) {
    let message = no_value(&quote(key_text(key)));
    let help = "without a value it has no effect: give it one or remove it";
    findings.warning(key.mark, "no-value", message, help);
}

/// Reports a key that `section` does not have; returns the key of `section` that it resembles.
fn report_misplaced(key: &Node, section: Section, findings: &mut Findings) -> Option<&'static str> {
    let text = key_text(key);
    let shown = quote(text);
    let looks = key.scalar().map(crate::yaml::Scalar::looks);
    if !matches!(looks, None | Some(Looks::Text)) {
        let message = format!("config error, key is not of type string: {shown}");
        findings.error(key.mark, "key-type", message, describe_valid_keys(section));
        return None;
    }
    let elsewhere = SECTIONS.iter().filter(|other| other.field(text).is_some());
    let elsewhere: Vec<&str> = elsewhere.map(|other| other.describe()).collect();
    if !elsewhere.is_empty() {
        let message = format!("{shown} does not belong in {}", section.noun());
        let help = format!("it belongs {}", elsewhere.join(", or "));
        findings.error(key.mark, "misplaced-key", message, help);
        return None;
    }
    let message = format!("config error, unknown key {shown}");
    if let Some(name) = current_name(text) {
        let help = format!("it is called `{name}` now");
        findings.error(key.mark, "unknown-key", message, help);
        return None;
    }
    let near = nearest(text, section);
    let help = match near {
        Some((field, Some(other))) => {
            format!("did you mean `{field}`? It belongs {}", other.describe())
        }
        Some((field, None)) => format!("did you mean `{field}`?"),
        None => describe_valid_keys(section),
    };
    findings.error(key.mark, "unknown-key", message, help);
    near.and_then(|(field, other)| other.is_none().then_some(field))
}

fn describe_valid_keys(section: Section) -> String {
    let keys: Vec<String> = section
        .fields()
        .map(|field| format!("`{}`", field.key))
        .collect();
    format!("{} takes {}", section.noun(), keys.join(", "))
}

/// The key most like `text`, and its section if that is another one. Keys of `section` win ties.
fn nearest(text: &str, section: Section) -> Option<(&'static str, Option<Section>)> {
    let others = SECTIONS.into_iter().filter(|other| *other != section);
    let places = std::iter::once(section).chain(others);
    let fields = places.flat_map(|at| at.fields().map(move |field| (at, field.key)));
    let near = fields.filter_map(|(at, key)| {
        let slips = slips(text, key);
        let allowed = SLIPS_MAX.min(key.len() / 2);
        (slips <= allowed).then_some((slips, key, (at != section).then_some(at)))
    });
    let (_, key, at) = near.min_by_key(|(slips, _, _)| *slips)?;
    Some((key, at))
}

/// How many letters must change to get from one word to the other.
fn slips(text: &str, word: &str) -> usize {
    // Compared in full, a long text would take long; it is no misspelling of a short word.
    if text.len() > 2 * word.len() + SLIPS_MAX {
        return usize::MAX;
    }
    let plain = |text: &str| text.to_lowercase().replace(['-', ' '], "_");
    strsim::damerau_levenshtein(&plain(text), word)
}

/// The word most like `text`.
pub(super) fn nearest_word(text: &str, words: &[&'static str]) -> Option<&'static str> {
    let near = words.iter().filter_map(|word| {
        let slips = slips(text, word);
        (slips <= SLIPS_MAX.min(word.len() / 2)).then_some((slips, *word))
    });
    near.min_by_key(|(slips, _)| *slips).map(|(_, word)| word)
}
