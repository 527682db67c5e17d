//! A format as it stands in the configuration of a server: in quotes, in several parts, behind the
//! name of its directive.

/// The format without what the server's configuration has around it, its parts joined; `None` if it
/// stands there alone, as most do.
///
/// nginx: `log_format main '$remote_addr ' '$request';`, or the parts alone. Apache:
/// `LogFormat "%h %t" common`.
pub(super) fn unquote(text: &str) -> Option<String> {
    let text = text.trim();
    let text = text.strip_suffix(';').unwrap_or(text).trim_end();
    if let Some(rest) = strip_word(text, "log_format") {
        let (_name, rest) = rest.split_once(char::is_whitespace)?;
        let escape = rest.trim_start();
        let rest = match escape.strip_prefix("escape=") {
            Some(how) => how.split_once(char::is_whitespace)?.1,
            None => escape,
        };
        return join(rest);
    }
    if let Some(rest) = strip_word(text, "LogFormat") {
        // What follows is the nickname.
        return Some(part(rest)?.0);
    }
    // A format may begin with a value in double quotes, but with none in single ones.
    text.starts_with('\'').then(|| join(text)).flatten()
}

/// What follows a word and the blanks behind it.
fn strip_word<'t>(text: &'t str, word: &str) -> Option<&'t str> {
    let rest = text.strip_prefix(word)?;
    let inner = rest.trim_start();
    (inner.len() < rest.len()).then_some(inner)
}

/// All parts, with nothing but blanks between them.
fn join(text: &str) -> Option<String> {
    let mut joined = String::new();
    let mut rest = text.trim_start();
    while !rest.is_empty() {
        let (inner, after) = part(rest)?;
        joined.push_str(&inner);
        rest = after.trim_start();
    }
    (!joined.is_empty()).then_some(joined)
}

/// The text in quotes with which `text` begins, and what follows it.
fn part(text: &str) -> Option<(String, &str)> {
    let quote = text
        .chars()
        .next()
        .filter(|char| matches!(char, '\'' | '"'))?;
    let mut inner = String::new();
    let mut is_escaped = false;
    for (at, char) in text.char_indices().skip(1) {
        match char {
            '\\' if !is_escaped => {
                is_escaped = true;
                continue;
            }
            char if char == quote && !is_escaped => return Some((inner, &text[at + 1..])),
            // Only a quote needs its backslash; all others stay, such as those of `\t`.
            char if is_escaped && char != quote => inner.push('\\'),
            _ => {}
        }
        is_escaped = false;
        inner.push(char);
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_configurations_have_around_a_format_is_removed() {
        for (text, expected) in [
            ("$remote_addr [$time_local]", None),
            (r#""$http_host" $remote_addr"#, None),
            (
                "'$remote_addr '\n    '[$time_local]';",
                Some("$remote_addr [$time_local]"),
            ),
            ("'$a' '$b", None),
            ("'$a' $b", None),
            ("'it\\'s $a'", Some("it's $a")),
            ("log_format main '$a ' \"$b\";", Some("$a $b")),
            ("log_format main escape=json '$a';", Some("$a")),
            ("log_format main", None),
            ("''", None),
            (
                r#"LogFormat "%h \"%r\" \t%b" common"#,
                Some("%h \"%r\" \\t%b"),
            ),
            (r#"LogFormat "%h"#, None),
            ("LogFormatted", None),
        ] {
            assert_eq!(unquote(text).as_deref(), expected, "{text}");
        }
    }
}
