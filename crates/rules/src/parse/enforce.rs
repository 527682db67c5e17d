//! For which share of the keys a limit is enforced.

use crate::draft::Spanned;
use crate::scalar;

use super::Reader;
use super::table::Table;

// === impl Reader ===

impl Reader<'_> {
    /// The percentage in `enforce`.
    pub(super) fn enforce(&mut self, table: &Table<'_>) -> Option<Spanned<u8>> {
        let node = table.get("enforce")?;
        let mark = node.mark;
        let percent = scalar::percent(node, "enforce", "10%", self.findings)?;
        let percent = u8::try_from(percent).ok().filter(|percent| *percent <= 100);
        let Some(value) = percent else {
            let message = "a limit has no more keys than 100%".to_owned();
            let help = "write `enforce: 10%`, or remove it to enforce the limit for all keys";
            self.findings.error(mark, "enforce", message, help);
            return None;
        };
        Some(Spanned { value, mark })
    }
}
