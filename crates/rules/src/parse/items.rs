//! Lists of maps: `descriptors` and `replaces`.

use crate::findings::Findings;
use crate::quote::quote;
use crate::section::Section;
use crate::yaml::{Body, Node};

use super::Reader;
use super::unknown_key::key_text;

/// A list of maps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum List {
    Descriptors,
    Replaces,
}

// === impl Reader ===

impl Reader<'_> {
    /// The items of a list, each of which is a map; the others are reported.
    pub(super) fn items<'n>(&mut self, node: &'n Node, list: List) -> Option<Vec<&'n Node>> {
        let Body::List(items) = &node.body else {
            let message = format!("`{}` takes a list, and this is {}", list.key(), node.kind());
            let help = list.help_for_list(node, self.findings);
            self.findings.error(node.mark, "type", message, help);
            return None;
        };
        let items = items.iter().filter(|item| {
            let is_map = matches!(item.body, Body::Map(_));
            if !is_map {
                let what = match item.scalar() {
                    Some(_) if item.is_null() => "nothing".to_owned(),
                    Some(scalar) => quote(&scalar.text),
                    None => item.kind().to_owned(),
                };
                let message =
                    format!("config error, yaml file contains list of type other than map: {what}");
                let help = list.help_for_item(item, self.findings);
                self.findings.error(item.mark, "list-item", message, help);
            }
            is_map
        });
        Some(items.map(|item| &**item).collect())
    }
}

// === impl List ===

impl List {
    const fn key(self) -> &'static str {
        match self {
            List::Descriptors => "descriptors",
            List::Replaces => "replaces",
        }
    }

    /// The key that each item begins with.
    const fn first_key(self) -> &'static str {
        match self {
            List::Descriptors => "key",
            List::Replaces => "name",
        }
    }

    const fn section(self) -> Section {
        match self {
            List::Descriptors => Section::Descriptor,
            List::Replaces => Section::Replaces,
        }
    }

    /// What to write in place of something that is not a list.
    fn help_for_list(self, node: &Node, findings: &Findings) -> String {
        let (list, first) = (self.key(), self.first_key());
        match &node.body {
            Body::Map(entries) => {
                let keys = || entries.iter().map(|(key, _)| key_text(key));
                match keys().next() {
                    Some(key) if !keys().any(|key| self.section().field(key).is_some()) => format!(
                        "begin each item with `- `: `- {first}: {}`, in place of `{0}:`",
                        findings.short(key)
                    ),
                    Some(key) => {
                        format!("begin each item with `- `: `- {}: …`", findings.short(key))
                    }
                    None => format!("write `{list}: []`, or leave it out"),
                }
            }
            _ => match node.scalar() {
                Some(scalar) if !scalar.text.contains(':') => {
                    format!(
                        "write `{list}: [{{{first}: {}}}]`",
                        findings.short(&scalar.text)
                    )
                }
                _ => format!("begin each item with `- `: `- {first}: NAME`"),
            },
        }
    }

    /// What to write in place of an item that is not a map.
    fn help_for_item(self, item: &Node, findings: &Findings) -> String {
        let first = self.first_key();
        let Some(scalar) = item.scalar() else {
            return format!("write `- {first}: NAME`, with one `- `");
        };
        let begin = scalar.text.split_whitespace().next().unwrap_or_default();
        if let Some((key, value)) = begin.split_once(':')
            && self.section().field(key).is_some()
        {
            let value = findings.short(value);
            return format!("write a space after the colon: `- {key}: {value}`");
        }
        let mut words = scalar.text.split_whitespace();
        if let (Some(key), Some("=")) = (words.next(), words.next())
            && self.section().field(key).is_some()
        {
            return format!("write `:` in place of ` =`: `- {key}: NAME`");
        }
        match scalar.text.is_empty() || scalar.text.contains([' ', ':', '=']) {
            true => format!("write `- {first}: NAME`"),
            false => format!("write `- {first}: {}`", findings.short(&scalar.text)),
        }
    }
}
