//! Settings of Tollgate that are read as rules.
//!
//! They may be the first document of a file whose other documents are rules: then they are skipped.
//! Otherwise they are in the wrong place. Any of their keys and values may be a password, also in
//! the wrong place. So one error says what they are, and nothing of their text is shown.

use crate::findings::{FindingRange, Findings, Mark, narrow};

/// Keys at the top of a settings file that show what it is.
const KEYS: [&str; 10] = [
    "rules",
    "store",
    "stores",
    "listen",
    "gateway",
    "auth",
    "admin",
    "memory",
    "redis_protocol",
    "telemetry",
];

/// Whether a key at the top of a document shows that it is settings.
pub(crate) fn is_settings_key(key: &str) -> bool {
    KEYS.contains(&key)
}

/// One of [`KEYS`], and where it is.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SettingsKey {
    key: &'static str,
    mark: Mark,
}

/// The first of the keys at the top of a document that shows that it is settings, unless there is
/// a `domain`.
pub(crate) fn find<'t>(keys: impl Iterator<Item = (&'t str, Mark)>) -> Option<SettingsKey> {
    let mut found = None;
    for (text, mark) in keys {
        if text == "domain" {
            return None;
        }
        let key = KEYS.into_iter().find(|key| *key == text);
        found = found.or(key.map(|key| SettingsKey { key, mark }));
    }
    found
}

/// The same for a document that cannot be parsed, and that `line` belongs to: a guess at its keys
/// from those that were `parsed`, and from how its lines begin.
pub(crate) fn guess<'t>(
    text: &'t str,
    line: u32,
    parsed: impl Iterator<Item = (&'t str, Mark)>,
    file: usize,
) -> Option<SettingsKey> {
    let lines = lines_of_document(text, line);
    find(parsed.chain(lines.filter_map(|(line, text)| key_of_line(file, line, text))))
}

/// Replaces all findings since `before` by the error that the document is settings.
pub(crate) fn report(found: SettingsKey, before: FindingRange, findings: &mut Findings) {
    let SettingsKey { key, mark } = found;
    let message =
        format!("these are settings of Tollgate, not rules: `{key}` is a key of settings");
    let help = format!(
        "`tollgate check --config {}` checks them; if they are in a directory of rules, move them \
         out of it",
        findings.file_name(mark)
    );
    findings.replace_since(before, mark, "not-rules", message, help);
}

/// The lines of the document that `line` belongs to, with their numbers.
fn lines_of_document(text: &str, line: u32) -> impl Iterator<Item = (u32, &str)> {
    let is_border = |text: &str| text.starts_with("---") || text.starts_with("...");
    let numbered = || (1..).zip(text.lines());
    let borders = numbered().filter(|(_, text)| is_border(text));
    let mut borders = borders.map(|(number, _)| number);
    let start = borders.clone().take_while(|border| *border <= line).last();
    let end = borders.find(|border| *border > line);
    let (start, end) = (start.unwrap_or(0), end.unwrap_or(u32::MAX));
    numbered().filter(move |(number, _)| (start..end).contains(number))
}

/// The key that a line begins with, if it is one at the top of a document.
fn key_of_line(file: usize, line: u32, text: &str) -> Option<(&str, Mark)> {
    let text = text.trim_start_matches('\u{feff}');
    let opened = text.strip_prefix('{').map_or(text, str::trim_start);
    let begin = opened.trim_start_matches(['"', '\'']);
    let (key, _) = begin.split_once(':')?;
    let key = key.trim_end().trim_end_matches(['"', '\'']);
    let mark = Mark {
        file,
        line,
        column: narrow(text.len() - begin.len()).saturating_add(1),
        length: narrow(key.len()),
    };
    Some((key, mark))
}
