//! How instances share a limit: the same keys at the top of a domain and in a rule.

use std::num::NonZeroU32;

use tollgate_core::ChargeDenied;

use crate::draft::{DomainDraft, Spanned};
use crate::findings::Findings;
use crate::scalar;
use crate::section::CHARGE_DENIED;
use crate::sharing::{INSTANCES, MODES, ON_STORE_ERROR, SharingDraft, mode, on_store_error};

use super::Reader;
use super::table::Table;

// === impl Reader ===

impl Reader<'_> {
    /// Reads the settings of one level; an invalid one counts as missing, and its domain is not
    /// loaded.
    pub(super) fn sharing(&mut self, table: &Table<'_>) -> SharingDraft {
        SharingDraft {
            mode: self.sharing_word(table, "mode", &MODES, mode),
            on_store_error: self.sharing_word(
                table,
                "on_store_error",
                &ON_STORE_ERROR,
                on_store_error,
            ),
            instances: table.get("instances").and_then(|node| {
                let instances = scalar::count(node, "instances", INSTANCES, self.findings)?;
                let (value, mark) = (NonZeroU32::new(instances)?, node.mark);
                Some(Spanned { value, mark })
            }),
        }
    }

    /// Which denied requests are charged: a name, or a flag as in Envoy's terms.
    pub(super) fn charge_denied(&mut self, table: &Table<'_>) -> Option<Spanned<ChargeDenied>> {
        let key = "charge_denied";
        let node = table.get(key)?;
        let value = if scalar::is_flag(node) {
            match scalar::flag(node, key, self.findings)? {
                true => ChargeDenied::Always,
                false => ChargeDenied::Never,
            }
        } else {
            let word = self.word(node, key, &CHARGE_DENIED)?;
            let mut all = ChargeDenied::ALL.into_iter();
            all.find(|one| one.to_string() == word)?
        };
        let mark = node.mark;
        Some(Spanned { value, mark })
    }

    fn sharing_word<T>(
        &mut self,
        table: &Table<'_>,
        key: &str,
        words: &[&'static str],
        meant: fn(&str) -> Option<T>,
    ) -> Option<Spanned<T>> {
        let node = table.get(key)?;
        let value = meant(self.word(node, key, words)?)?;
        Some(Spanned {
            value,
            mark: node.mark,
        })
    }
}

/// Joins the settings of several documents of one domain; the same value twice is not an error.
pub(super) fn join(into: &mut DomainDraft, other: &DomainDraft, findings: &mut Findings) {
    join_word(
        &mut into.charge_denied,
        other.charge_denied,
        "charge_denied",
        findings,
    );
    join_word(
        &mut into.priority_key,
        other.priority_key.clone(),
        "priority_key",
        findings,
    );
    let (all, more) = (&mut into.sharing, &other.sharing);
    join_word(&mut all.mode, more.mode, "mode", findings);
    join_word(
        &mut all.on_store_error,
        more.on_store_error,
        "on_store_error",
        findings,
    );
    join_word(&mut all.instances, more.instances, "instances", findings);
}

fn join_word<T: PartialEq>(
    into: &mut Option<Spanned<T>>,
    other: Option<Spanned<T>>,
    key: &str,
    findings: &mut Findings,
) {
    if let (Some(first), Some(second)) = (&*into, &other)
        && first.value != second.value
    {
        let message = format!("another document of this domain sets `{key}` differently");
        let help = format!("set `{key}` in one of them");
        findings.error(second.mark, "contradiction", message, help);
    }
    *into = into.take().or(other);
}
