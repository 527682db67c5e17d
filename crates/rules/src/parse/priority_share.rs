//! The share of a limit that is kept for requests with priority: `reserved`.

use tollgate_core::InvalidLimit;

use crate::draft::{RateLimitDraft, Spanned};
use crate::findings::Mark;
use crate::quote::quote;
use crate::scalar;
use crate::section::{PRIORITIES_MAX, PRIORITY_BYTES_MAX, Section};
use crate::yaml::{Body, Node};

use super::Reader;
use super::table::Table;

const FOR_HELP: &str = "list the priorities that can use it: `for: [critical]`";

// === impl Reader ===

impl Reader<'_> {
    /// What the priority of a request is called.
    pub(super) fn priority_key(&mut self, table: &Table<'_>) -> Option<Spanned<String>> {
        let node = table.get("priority_key")?;
        let key = scalar::text(node, "priority_key", self.findings)?;
        if key.value.is_empty() || key.value.len() > PRIORITY_BYTES_MAX {
            let message = format!("a key has 1 to {PRIORITY_BYTES_MAX} bytes");
            let help = "write the key of the descriptor that states the priority";
            self.findings.error(key.mark, "priority-key", message, help);
            return None;
        }
        Some(key)
    }

    /// Reads `reserved`, and gives the limit its share. A limit with errors in it is none.
    pub(super) fn reserve_share(&mut self, table: &Table<'_>, draft: &mut RateLimitDraft) {
        let Some((mark, node)) = table.entry("reserved") else {
            return;
        };
        let Some(table) = Table::read(node, Section::PriorityShare, self.findings) else {
            draft.limit = None;
            return;
        };
        let share = self.share(mark, &table);
        let priorities = self.priorities(mark, &table);
        let Some(limit) = draft.limit.take() else {
            return;
        };
        let (Some((share_mark, percent)), Some(priorities)) = (share, priorities) else {
            return;
        };
        draft.limit = self.validate(limit.with_priority_share(percent), share_mark);
        draft.reserved = Some(Spanned {
            value: priorities,
            mark: share_mark,
        });
    }

    /// How much is kept, in percent, and where that is written; `None` if it is missing or wrong.
    fn share(&mut self, mark: Mark, table: &Table<'_>) -> Option<(Mark, u8)> {
        let Some(node) = table.get("share") else {
            if !table.misspells("share") {
                let message = "`reserved` has no `share`".to_owned();
                let help = "write how much of the limit is kept: `share: 20%`";
                self.findings.error(mark, "missing-share", message, help);
            }
            return None;
        };
        let percent = scalar::percent(node, "share", "20%", self.findings)?;
        if percent == 0 {
            let message = "a share of 0% keeps nothing".to_owned();
            let help = "write a share from 1% to 100%, or remove `reserved`";
            self.findings.error(node.mark, "limit", message, help);
            return None;
        }
        // More than 255 is as wrong as 101.
        let percent = u8::try_from(percent).unwrap_or(u8::MAX);
        if percent > 100 {
            // Also if the limit itself has errors, so that all are reported at once.
            self.validate(Err(InvalidLimit::PriorityShare(percent)), node.mark);
            return None;
        }
        Some((node.mark, percent))
    }

    /// The priorities in `for`; `None` if one of them is wrong, or if there are none or too many.
    fn priorities(&mut self, mark: Mark, table: &Table<'_>) -> Option<Vec<String>> {
        let Some(node) = table.get("for") else {
            if !table.misspells("for") {
                let message = "`reserved` has no `for`, so nobody could use the share".to_owned();
                self.findings.error(mark, "missing-for", message, FOR_HELP);
            }
            return None;
        };
        let Body::List(items) = &node.body else {
            let message = format!("`for` takes a list, and this is {}", node.kind());
            self.findings.error(node.mark, "type", message, FOR_HELP);
            return None;
        };
        if items.is_empty() || items.len() > PRIORITIES_MAX {
            let message = format!("`for` lists 1 to {PRIORITIES_MAX} priorities");
            self.findings
                .error(node.mark, "priorities", message, FOR_HELP);
            return None;
        }
        let mut priorities = Vec::with_capacity(items.len());
        for item in items {
            priorities.extend(self.priority(item, &priorities));
        }
        (priorities.len() == items.len()).then_some(priorities)
    }

    /// One of them, after those that were listed `earlier`.
    fn priority(&mut self, item: &Node, earlier: &[String]) -> Option<String> {
        let priority = scalar::text(item, "for", self.findings)?;
        let text = priority.value;
        if text.is_empty() || text.len() > PRIORITY_BYTES_MAX {
            let message = format!("a priority has 1 to {PRIORITY_BYTES_MAX} bytes");
            self.findings
                .error(priority.mark, "priorities", message, FOR_HELP);
            return None;
        }
        if earlier.contains(&text) {
            let message = format!("{} is listed already", quote(&text));
            self.findings
                .warning(priority.mark, "no-effect", message, "remove it");
        }
        if text.contains('*') {
            let message = "a `*` in a priority is an ordinary character".to_owned();
            let help = "list each priority";
            self.findings
                .warning(priority.mark, "star-in-key", message, help);
        }
        Some(text)
    }
}
