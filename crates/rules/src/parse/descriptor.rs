//! One descriptor.

use crate::draft::{DescriptorDraft, Flags, Spanned};
use crate::findings::Mark;
use crate::quote::quote;
use crate::scalar;
use crate::section::Section;
use crate::yaml::Node;

use super::metadata::metadata;
use super::table::Table;
use super::{PATHS_BYTES_MAX, RULES_MAX, Reader, Siblings, TEXT_BYTES_MAX};

// === impl Reader ===

impl Reader<'_> {
    /// A descriptor and all below it; `None` if it has no key. `before` is the item before it.
    pub(super) fn descriptor(
        &mut self,
        node: &Node,
        before: Option<&Node>,
    ) -> Option<DescriptorDraft> {
        self.descriptors += 1;
        if self.descriptors > RULES_MAX {
            if self.descriptors == RULES_MAX + 1 {
                let message = format!("more than {RULES_MAX} descriptors");
                let help = "a key without a value, or with a `*` in it, serves many values";
                self.findings
                    .error(node.mark, "too-many-rules", message, help);
            }
            self.findings.reject();
            return None;
        }
        let findings_before = self.findings.mark();
        let table = Table::read(node, Section::Descriptor, self.findings)?;
        let key = self.key(&table, before);
        let value = self.value(&table);
        let above = self.path_bytes;
        self.lengthen(key.as_ref(), value.as_ref());
        let flags = self.flags(&table);
        self.check_share(&flags, &key, value.as_ref());
        let enforce = self.enforce(&table);
        let rate_limit = table
            .entry("rate_limit")
            .map(|(mark, node)| self.rate_limit(mark, node));
        let metadata = table.get("metadata").and_then(|node| {
            let value = metadata(node, self.findings)?;
            Some(Spanned {
                value,
                mark: node.mark,
            })
        });
        let descriptors = self.descriptors(table.get("descriptors"), &mut Siblings::default());
        self.path_bytes = above;
        Some(DescriptorDraft {
            key: key?,
            value,
            rate_limit,
            descriptors,
            flags,
            enforce,
            metadata,
            damaged: self.findings.since(findings_before).any(),
        })
    }

    /// Adds a key and a value to the size of all paths, and reports those that are too long.
    fn lengthen(&mut self, key: Option<&Spanned<String>>, value: Option<&Spanned<String>>) {
        for text in [key, value].into_iter().flatten() {
            self.path_bytes += text.value.len();
            if text.value.len() > TEXT_BYTES_MAX {
                let message = format!("a key or value of more than {TEXT_BYTES_MAX} bytes");
                let help = "write a shorter one; a `*` matches any text";
                self.findings.error(text.mark, "too-long", message, help);
            }
        }
        let before = self.paths_bytes;
        self.paths_bytes = before.saturating_add(self.path_bytes);
        if self.paths_bytes <= PATHS_BYTES_MAX {
            return;
        }
        match key {
            Some(key) if before <= PATHS_BYTES_MAX => {
                let message = "too many long keys and values above one another".to_owned();
                let help = "write shorter ones, or fewer levels";
                self.findings.error(key.mark, "too-long", message, help);
            }
            _ => self.findings.reject(),
        }
    }

    /// The key; `before` is the item before this one, which may be a part of it.
    fn key(&mut self, table: &Table<'_>, before: Option<&Node>) -> Option<Spanned<String>> {
        let key = match table.get("key") {
            Some(node) => {
                let key = self.name(node, "key")?;
                let mark = table.merge_mark("key").unwrap_or(key.mark);
                Spanned { mark, ..key }
            }
            None if table.misspells("key") => return None,
            None => Spanned {
                value: String::new(),
                mark: table.mark(),
            },
        };
        if key.value.is_empty() {
            let message = "descriptor has empty key".to_owned();
            let help = match before.and_then(|before| table.part_of(before)) {
                Some(first) => format!(
                    "remove the `- ` before `{first}` if it belongs to the item above, or write \
                     `key: NAME`, the key that requests carry"
                ),
                None => "write `key: NAME`, the key that requests carry".to_owned(),
            };
            self.findings.error(key.mark, "missing-key", message, help);
            return None;
        }
        Some(key)
    }

    /// The value; an empty one means any value, as for Envoy's service.
    fn value(&mut self, table: &Table<'_>) -> Option<Spanned<String>> {
        let node = table.get("value")?;
        let value = self.name(node, "value")?;
        if value.value.is_empty() {
            let message = "an empty value means any value".to_owned();
            let help = "remove `value` to make that clear";
            self.findings
                .warning(value.mark, "empty-value", message, help);
            return None;
        }
        Some(value)
    }

    fn flags(&mut self, table: &Table<'_>) -> Flags {
        let mut flag = |key: &str| -> Option<Mark> {
            let (mark, node) = table.entry(key)?;
            scalar::flag(node, key, self.findings)?.then_some(mark)
        };
        Flags {
            shadow_mode: flag("shadow_mode"),
            quota_mode: flag("quota_mode"),
            share_threshold: flag("share_threshold"),
            detailed_metric: flag("detailed_metric"),
            value_to_metric: flag("value_to_metric"),
        }
    }

    /// Reports `share_threshold` on a value without a wildcard.
    fn check_share(
        &mut self,
        flags: &Flags,
        key: &Option<Spanned<String>>,
        value: Option<&Spanned<String>>,
    ) {
        let (Some(mark), Some(key)) = (flags.share_threshold, key) else {
            return;
        };
        if value.is_some_and(|value| value.value.contains('*')) {
            return;
        }
        let message = format!(
            "share_threshold can only be used with wildcard values (containing '*'), \
             but found key {}",
            quote(&key.value)
        );
        let help = "write `value: \"*\"` for one counter over all values, or remove the flag";
        self.findings
            .error(mark, "share-without-wildcard", message, help);
    }
}
