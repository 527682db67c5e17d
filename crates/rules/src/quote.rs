//! How messages quote a file's text.

use tollgate_core::is_printable;

/// The most characters of a file's text that a message quotes.
const QUOTED_MAX: usize = 60;

/// Whether it is a URL with a user, and so perhaps with a password, in place of some other value.
pub(crate) fn has_user(text: &str) -> bool {
    let after_scheme = text.split_once("://");
    after_scheme.is_some_and(|(_, rest)| rest.contains('@'))
}

/// What is wrong with a key that has no value, if this is the key in quotes.
pub(crate) fn no_value(quoted: &str) -> String {
    format!("{quoted} has no value")
}

/// Quotes a file's text in a message: in backquotes, shortened, without control characters.
pub(crate) fn quote(text: &str) -> String {
    let mut quoted = String::from("`");
    for (at, character) in text.chars().enumerate() {
        if at == QUOTED_MAX {
            quoted.push('…');
            break;
        }
        if !is_printable(character) {
            quoted.extend(character.escape_default());
        } else {
            quoted.push(character);
        }
    }
    quoted.push('`');
    quoted
}
