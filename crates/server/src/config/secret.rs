//! Mistakes in a file with passwords, told without them.
//!
//! A mistake is told with its line. In a settings file that line may hold a password, also where it
//! is not where it belongs, so what looks as if it could is not shown: only where it is.

use tollgate_rules::Diagnostic;

/// What is shown in place of a line.
const HIDDEN: &str = "(not shown: there may be a password in it)";
/// What tells that a line may hold one, in lower case.
const SIGNS: [&str; 6] = ["pass", "secret", "redis", "url", "user", "@"];
/// The keys at the top of a file below which every value may be one, whatever its own key: a URL
/// in the wrong place is easily written.
pub(super) const KEYS: [&str; 2] = ["store", "stores"];

/// Takes the lines out that may hold a password.
pub(super) fn hide(diagnostics: &mut [Diagnostic], text: &[u8]) {
    let hidden = hidden(&String::from_utf8_lossy(text));
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

/// For each line, whether it may hold one.
fn hidden(text: &str) -> Vec<bool> {
    let mut in_store = false;
    let lines = text.lines().map(|line| {
        let lower = line.to_lowercase();
        let begins_key = line.starts_with(|c: char| c.is_alphanumeric() || c == '\'' || c == '"');
        if KEYS.iter().any(|key| lower.contains(key)) {
            in_store = true;
        } else if begins_key {
            in_store = false;
        }
        let is_signed = SIGNS.iter().any(|sign| lower.contains(sign));
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
        assert_eq!(hidden(text), expected);
    }
}
