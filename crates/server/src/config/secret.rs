//! Removes passwords and keys from the diagnostics of a settings file.
//!
//! A diagnostic quotes its line, which may contain a password, perhaps in the wrong place. So lines
//! that might contain one are not quoted; file, line and column remain.

use tollgate_backends::AnyBackend;
use tollgate_rules::Diagnostic;

/// Replaces the text of a line.
const HIDDEN: &str = "(not shown: there may be a password in it)";
/// Signs that a line may contain a password or a key, in lower case, beside the backends' keys and
/// schemes.
const SIGNS: [&str; 6] = ["pass", "secret", "url", "user", "@", "-----begin"];
/// Top-level keys below which every line is hidden, because a URL with a password is easily written
/// in the wrong place.
pub(super) const KEYS: [&str; 2] = ["store", "stores"];

/// Hides the lines that may contain a password.
pub(super) fn hide(diagnostics: &mut [Diagnostic], text: &[u8], backends: &[AnyBackend]) {
    let hidden = lines_to_hide(&String::from_utf8_lossy(text), backends);
    for found in diagnostics {
        let line = usize::try_from(found.line).unwrap_or(usize::MAX);
        if hidden
            .get(line.saturating_sub(1))
            .is_none_or(|hidden| *hidden)
        {
            HIDDEN.clone_into(&mut found.text);
            found.length = 1;
        }
    }
}

/// For each line, whether it may contain a password.
fn lines_to_hide(text: &str, backends: &[AnyBackend]) -> Vec<bool> {
    let mut in_store = false;
    let names = |backend: &AnyBackend| backend.schemes.iter().copied().chain([backend.key]);
    let signs: Vec<&str> = SIGNS
        .into_iter()
        .chain(backends.iter().flat_map(names))
        .collect();
    let lines = text.lines().map(|line| {
        let lower = line.to_lowercase();
        let begins_key = line.starts_with(|c: char| c.is_alphanumeric() || c == '\'' || c == '"');
        if KEYS.iter().any(|key| lower.contains(key)) {
            in_store = true;
        } else if begins_key {
            in_store = false;
        }
        let is_signed = signs.iter().any(|sign| lower.contains(sign));
        is_signed || in_store
    });
    lines.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whatever_belongs_to_a_store_is_hidden() {
        let text = "rules: r\nstore:\n  redis:\n\n    # hm\n    password:\n hunter2\nlog: {}\n\
            stoer: {pw: a@b}\n{x: y,\n stores: {a:\n {pw: x},\n\nlimits: {}\n\
            store:\n  mode: lax\nlog:\n  level: info\n";
        let expected = [
            false, true, true, true, true, true, true, false, true, false, true, true, true, false,
            true, true, false, false,
        ];
        assert_eq!(lines_to_hide(text, tollgate_backends::BACKENDS), expected);
    }
}
