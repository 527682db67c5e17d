//! What stands for a number in the text of a body.

use http::StatusCode;

use crate::setting::InvalidSetting;

/// The seconds of `Retry-After`.
const RETRY_AFTER: &str = "{retry_after}";
/// The status.
const STATUS: &str = "{status}";

/// Whether a text names the retry time.
pub(super) fn has_retry_after(text: &str) -> bool {
    text.contains(RETRY_AFTER)
}

/// The text with numbers in its places, so that nothing needs to be escaped.
pub(super) fn fill(text: &str, status: StatusCode, retry_after: Option<u64>) -> String {
    let text = text.replace(STATUS, status.as_str());
    match retry_after {
        Some(secs) => text.replace(RETRY_AFTER, &secs.to_string()),
        None => text,
    }
}

/// Checks that a text has no words in braces that are not placeholders: clients would see them. The
/// braces of JSON, style sheets and scripts have something else directly behind them.
pub(super) fn check(text: &str) -> Result<(), InvalidSetting> {
    let wrong = |problem, instead: String| Err(InvalidSetting::new("text", problem, instead));
    for (start, _) in text.match_indices('{') {
        let Some(placeholder) = placeholder(&text[start..]) else {
            continue;
        };
        let is_known = [RETRY_AFTER, STATUS].contains(&placeholder);
        if !is_known {
            let problem = format!("`{placeholder}` is not a placeholder, so clients would see it");
            let instead = format!(
                "write `{RETRY_AFTER}` or `{STATUS}`; a space behind the brace makes it text"
            );
            return wrong(problem, instead);
        }
        let behind = &text[start + placeholder.len()..];
        if text[..start].ends_with('{') && behind.starts_with('}') {
            let problem = format!("clients would see a number in braces for `{{{placeholder}}}`");
            return wrong(problem, format!("write `{placeholder}`"));
        }
    }
    Ok(())
}

/// A word in braces at the beginning of a text, with its braces.
fn placeholder(text: &str) -> Option<&str> {
    let end = text.find('}')?;
    let name = text.get(1..end)?;
    let is_in_word = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-');
    let is_word = name.starts_with(|first: char| first.is_ascii_alphabetic() || first == '_')
        && name.bytes().all(is_in_word);
    text.get(..=end).filter(|_| is_word)
}
