//! The names of the limits that a limit replaces.

use crate::draft::Spanned;
use crate::scalar;
use crate::section::Section;

use super::Reader;
use super::items::List;
use super::table::Table;

// === impl Reader ===

impl Reader<'_> {
    /// The names in `replaces`.
    pub(super) fn replaces(
        &mut self,
        table: &Table<'_>,
        own: Option<&Spanned<String>>,
    ) -> Vec<Spanned<String>> {
        let Some(list) = table.get("replaces") else {
            return Vec::new();
        };
        let items = self.items(list, List::Replaces).unwrap_or_default();
        let mut names = Vec::with_capacity(items.len());
        for item in items {
            let Some(item_table) = Table::read(item, Section::Replaces, self.findings) else {
                continue;
            };
            let name = match item_table.get("name") {
                Some(node) => scalar::text(node, "name", self.findings),
                None => None,
            };
            match name {
                Some(name) if own.is_some_and(|own| own.value == name.value) => {
                    let message = "replaces should not contain name of same descriptor".to_owned();
                    let help = "a limit cannot replace itself: remove this item";
                    self.findings
                        .error(name.mark, "replaces-itself", message, help);
                }
                Some(name) if !name.value.is_empty() => names.push(name),
                _ => {
                    let message = "should not have an empty replaces entry".to_owned();
                    let help = "write `- name: NAME`, or remove the item";
                    self.findings
                        .error(item_table.mark(), "empty-replaces", message, help);
                }
            }
        }
        names
    }
}
