//! The keys and values of a map.

use std::collections::HashMap;
use std::sync::Arc;

use crate::findings::Mark;
use crate::yaml::{Body, Kind, Node, Pair};

use super::{Builder, Unreadable};

// === impl Builder ===

impl Builder<'_> {
    /// Pairs keys and values, reports duplicate keys, and merges the maps of `<<`.
    pub(super) fn entries(&mut self, items: Vec<Arc<Node>>) -> Result<Vec<Pair>, Unreadable> {
        let mut entries: Vec<Pair> = Vec::with_capacity(items.len() / 2);
        let mut lines: HashMap<String, u32> = HashMap::new();
        let mut merged = Vec::new();
        let mut begins_domain = false;
        let mut items = items.into_iter();
        while let (Some(key), Some(value)) = (items.next(), items.next()) {
            let Some(scalar) = key.scalar() else {
                let message = format!("a key must be text, and this is {}", key.kind());
                let help = match key.body {
                    Body::Map(_) => {
                        "write text before the `:`; `{{ … }}` of a template is replaced before the \
                         file is read, or goes in quotes"
                    }
                    _ => "write text before the `:`",
                };
                self.findings.error(key.mark, "key-type", message, help);
                continue;
            };
            if scalar.plain && scalar.text == "<<" {
                merged.push((key.mark, value));
                continue;
            }
            if let Some(line) = lines.get(&scalar.text) {
                if !begins_domain {
                    begins_domain = self.report_duplicate(&scalar.text, *line, key.mark);
                }
                continue;
            }
            lines.insert(scalar.text.clone(), key.mark.line);
            entries.push((key, value));
        }
        for (at, value) in merged {
            self.merge(at, &value, &mut lines, &mut entries)?;
        }
        Ok(entries)
    }

    /// Merges the entries of the maps of the merge key `at`; entries that exist already win.
    fn merge(
        &mut self,
        at: Mark,
        value: &Node,
        lines: &mut HashMap<String, u32>,
        entries: &mut Vec<Pair>,
    ) -> Result<(), Unreadable> {
        match &value.body {
            Body::Map(added) => {
                for (key, value) in added {
                    let Some(scalar) = key.scalar() else { continue };
                    if !lines.contains_key(&scalar.text) {
                        lines.insert(scalar.text.clone(), key.mark.line);
                        // The text of a key is copied.
                        self.count(value.size + key.size - 1, value.mark)?;
                        let key = Node::new(key.mark, Body::Scalar(scalar.merge_at(at)));
                        entries.push((Arc::new(key), Arc::clone(value)));
                    }
                }
            }
            Body::List(maps) if maps.iter().all(|map| matches!(map.body, Body::Map(_))) => {
                for map in maps {
                    self.merge(at, map, lines, entries)?;
                }
            }
            _ => {
                let message = format!("`<<` takes a map, and this is {}", value.kind());
                let help = "write `<<: *anchor`, with `&anchor` before a map";
                self.findings.error(value.mark, "merge-type", message, help);
            }
        }
        Ok(())
    }

    /// Reports a key that is there already; returns whether another domain begins with it, whose
    /// other keys are then there already as well.
    fn report_duplicate(&mut self, text: &str, first: u32, mark: Mark) -> bool {
        let is_top = self.open.is_empty() && self.kind == Kind::Rules;
        let begins_domain = is_top && text == "domain";
        let message = format!(
            "{} is written twice; the first is in line {first}",
            self.findings.quote_key(text)
        );
        let help = match begins_domain {
            true => "put `---` on a line of its own before it if another domain begins here",
            false => "keep one of them",
        };
        self.findings.error(mark, "duplicate-key", message, help);
        begins_domain
    }
}
