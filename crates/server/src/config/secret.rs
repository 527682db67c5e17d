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
const SIGNS: [&str; 7] = ["pass", "secret", "token", "url", "user", "@", "-----begin"];
/// Top-level keys below which every line is hidden, because a URL with a password or a token is
/// easily written in the wrong place.
pub(super) const KEYS: [&str; 5] = ["store", "stores", "redis_protocol", "telemetry", ADMIN];
/// Hidden only as a top-level key: a listener has the same name.
const ADMIN: &str = "admin";

/// Hides the lines that may contain a password.
pub(crate) fn hide(diagnostics: &mut [Diagnostic], text: &[u8], backends: &[AnyBackend]) {
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
    let mut is_secret = false;
    let names = |backend: &AnyBackend| backend.schemes.iter().copied().chain([backend.key]);
    let signs: Vec<&str> = SIGNS
        .into_iter()
        .chain(backends.iter().flat_map(names))
        .collect();
    let lines = text.lines().map(|line| {
        let lower = line.to_lowercase();
        let begins_key = line.starts_with(|c: char| c.is_alphanumeric() || c == '\'' || c == '"');
        let is_key = |key: &str| match key {
            ADMIN => lower.trim_start_matches(['\'', '"', '{']).starts_with(key),
            key => lower.contains(key),
        };
        if KEYS.into_iter().any(is_key) {
            is_secret = true;
        } else if begins_key {
            is_secret = false;
        }
        let is_signed = signs.iter().any(|sign| lower.contains(sign));
        is_signed || is_secret
    });
    lines.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whatever_belongs_to_admin_is_hidden_but_for_its_listener() {
        let text = "listen:\n  admin: 1\n  http: 2\nadmin:\n\n  a\nlog: {}\n";
        let expected = [false, false, false, true, true, true, false];
        let hidden = lines_to_hide(text, tollgate_backends::BACKENDS);
        assert_eq!(hidden, expected);
        assert!(
            lines_to_hide("\"admin\": [x,\n y]\n", &[])
                .iter()
                .all(|hidden| *hidden)
        );
        assert!(lines_to_hide("log: 1\ntokens: x\n", &[])[1]);
    }

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
