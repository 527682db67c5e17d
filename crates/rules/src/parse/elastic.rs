//! The part of a limit that is there while there is headroom: `elastic`.

use crate::draft::{RateLimitDraft, Spanned};
use crate::findings::Mark;
use crate::headroom::HeadroomSource;
use crate::scalar;
use crate::section::{HEADROOM_SOURCES_MAX, Section};
use crate::yaml::{Body, Node};

use super::Reader;
use super::table::Table;

const WHILE_HELP: &str = "list what has to report headroom: `while: [reported]`";

// === impl Reader ===

impl Reader<'_> {
    /// Reads `elastic`, and gives the limit its elastic part. A limit with errors in it is none.
    pub(super) fn elastic_part(&mut self, table: &Table<'_>, draft: &mut RateLimitDraft) {
        let Some((mark, node)) = table.entry("elastic") else {
            return;
        };
        if table.get("soft").is_some() {
            let message = "`soft` and `elastic` both say what is allowed above the limit";
            let help = "keep `soft` to allow it always, or `elastic` to allow it with headroom";
            self.findings
                .error(mark, "soft-and-elastic", message.to_owned(), help);
            draft.limit = None;
        }
        let Some(table) = Table::read(node, Section::Elastic, self.findings) else {
            draft.limit = None;
            return;
        };
        let share = self.elastic_share(mark, &table);
        let sources = self.headroom_sources(mark, &table);
        let Some(limit) = draft.limit.take() else {
            return;
        };
        let (Some((share_mark, percent)), Some(sources)) = (share, sources) else {
            return;
        };
        draft.limit = self.validate(limit.with_elastic(percent), share_mark);
        draft.elastic = Some(Spanned {
            value: sources,
            mark: share_mark,
        });
        if let Some(limit) = &draft.limit
            && limit.capacity() == limit.nominal()
        {
            let message = "the share is less than one unit, so nothing is elastic".to_owned();
            let help = "the share is rounded down: write a larger share or a larger limit";
            self.findings
                .warning(share_mark, "no-effect", message, help);
        }
    }

    fn elastic_share(&mut self, mark: Mark, table: &Table<'_>) -> Option<(Mark, u32)> {
        let Some(node) = table.get("share") else {
            if !table.misspells("share") {
                let message = "`elastic` has no `share`".to_owned();
                let help = "write how much above the limit is allowed: `share: 50%`";
                self.findings.error(mark, "missing-share", message, help);
            }
            return None;
        };
        let percent = scalar::percent(node, "share", "50%", self.findings)?;
        if percent == 0 {
            let message = "a share of 0% allows nothing".to_owned();
            let help = "write a share from 1%, or remove `elastic`";
            self.findings.error(node.mark, "limit", message, help);
            return None;
        }
        Some((node.mark, percent))
    }

    /// The sources in `while`; `None` if one of them is wrong, or if there are none or too many.
    fn headroom_sources(&mut self, mark: Mark, table: &Table<'_>) -> Option<Vec<HeadroomSource>> {
        let Some(node) = table.get("while") else {
            if !table.misspells("while") {
                let message = "`elastic` has no `while`, so there would never be headroom";
                self.findings
                    .error(mark, "missing-while", message.to_owned(), WHILE_HELP);
            }
            return None;
        };
        let Body::List(items) = &node.body else {
            let message = format!("`while` takes a list, and this is {}", node.kind());
            self.findings.error(node.mark, "type", message, WHILE_HELP);
            return None;
        };
        if items.is_empty() || items.len() > HEADROOM_SOURCES_MAX {
            let message = format!("`while` lists 1 to {HEADROOM_SOURCES_MAX} sources of headroom");
            self.findings
                .error(node.mark, "headroom-sources", message, WHILE_HELP);
            return None;
        }
        let mut sources = Vec::with_capacity(items.len());
        for item in items {
            let Some(source) = self.headroom_source(item) else {
                continue;
            };
            if sources.contains(&source) {
                let message = format!("`{source}` is listed already");
                self.findings
                    .warning(item.mark, "no-effect", message, "remove it");
            }
            sources.push(source);
        }
        (sources.len() == items.len()).then_some(sources)
    }

    fn headroom_source(&mut self, item: &Node) -> Option<HeadroomSource> {
        let words = HeadroomSource::ALL.map(HeadroomSource::as_str);
        let word = self.word(item, "while", &words)?;
        let mut all = HeadroomSource::ALL.into_iter();
        all.find(|source| source.as_str() == word)
    }
}
