//! How wrong maps and missing values are reported, by name or through serde.

use crate::findings::{Findings, Mark};
use crate::nearest::nearest;
use crate::quote::no_value;

/// What an error without a value has to help.
pub(super) const NO_VALUE_HELP: &str = "write a value for it, or remove the key";

/// How to write the map `key` with these keys, of which some may be there twice; without a name if
/// it is the whole file.
pub(super) fn help_for_map(key: &str, keys: &[&'static str]) -> String {
    let mut unique: Vec<&str> = Vec::new();
    for one in keys {
        if !unique.contains(one) {
            unique.push(one);
        }
    }
    let first = unique.first().copied().unwrap_or("KEY");
    match unique.get(1..).unwrap_or_default() {
        _ if key.is_empty() => "write `key: value`, one key a line".to_owned(),
        [] => format!("write `{key}: {{{first}: VALUE}}`"),
        others => format!(
            "write `{key}: {{{first}: VALUE}}`; its other keys are `{}`",
            others.join("`, `")
        ),
    }
}

/// The known word that was probably meant, or all of them.
pub(super) fn suggest(found: &str, known: &'static [&'static str]) -> String {
    match nearest(found, known) {
        Some(word) => format!("did you mean `{word}`?"),
        None => format!("write one of `{}`", known.join("`, `")),
    }
}

/// Reports an entry without a value in a map of which any key is shown that may be.
pub(super) fn report_empty_entry(mark: Mark, key: &str, findings: &mut Findings) {
    let message = no_value(&findings.quote(key));
    findings.error(mark, "no-value", message, NO_VALUE_HELP);
}

/// Reports an item without a value in the list `key`.
pub(super) fn report_empty_item(mark: Mark, key: &str, findings: &mut Findings) {
    let message = format!("an item of `{key}` has no value");
    findings.error(
        mark,
        "no-value",
        message,
        "write a value, or remove the item",
    );
}
