//! Characters in names and values that were probably not meant as a part of them.

use crate::draft::{DescriptorDraft, DomainDraft, Spanned};
use crate::findings::Findings;
use crate::quote::quote;

/// Quotes that YAML takes for ordinary characters.
const CURLY: [char; 5] = ['“', '”', '„', '‘', '’'];

/// Warns about the name of a domain.
pub(super) fn check_domain(draft: &DomainDraft, findings: &mut Findings) {
    check_text(&draft.name, "domain", findings);
    check_comma(&draft.name, "domain", findings);
}

/// Warns about the key and the value of a descriptor.
pub(super) fn check(descriptor: &DescriptorDraft, findings: &mut Findings) {
    check_text(&descriptor.key, "key", findings);
    check_comma(&descriptor.key, "key", findings);
    if let Some(value) = &descriptor.value {
        check_text(value, "value", findings);
    }
}

/// Warns about curly quotes, a line break at the end, variables, and spaces that look like
/// ordinary ones.
fn check_text(text: &Spanned<String>, key: &str, findings: &mut Findings) {
    let value = text.value.as_str();
    let shown = quote(value);
    let (message, help) = if value.starts_with(CURLY) && value.ends_with(CURLY) {
        let inner = findings.short(value.trim_matches(CURLY));
        (
            format!("the curly quotes are part of this {key}: {shown}"),
            format!("write straight quotes: `\"{inner}\"`"),
        )
    } else if value.ends_with(['\n', '\r']) {
        let line = findings.short(value.trim_end());
        (
            format!("this {key} ends with a line break: {shown}"),
            format!("write `{key}: {line}`, or `|-` in place of `|`"),
        )
    } else if value.contains("${") {
        (
            format!("variables are not replaced in rules, so they are part of this {key}: {shown}"),
            "write the text itself, or replace the variable before the file is read".to_owned(),
        )
    } else if let Some(space) = odd_space(value) {
        let code = u32::from(space);
        (
            format!("this {key} begins or ends with the character U+{code:04X}: {shown}"),
            "remove it, because only requests with the same character match".to_owned(),
        )
    } else {
        return;
    };
    findings.warning(text.mark, "look-alike", message, help);
}

/// White space at either end that is not an ordinary space.
fn odd_space(text: &str) -> Option<char> {
    let ends = [text.chars().next(), text.chars().next_back()];
    let mut ends = ends.into_iter().flatten();
    ends.find(|c| (c.is_whitespace() && *c != ' ') || matches!(c, '\u{200b}' | '\u{feff}'))
}

/// Warns about a comma or semicolon as in other formats, which is a part of the text in YAML.
fn check_comma(text: &Spanned<String>, key: &str, findings: &mut Findings) {
    if let Some(meant) = text.value.strip_suffix([',', ';']) {
        let message = format!(
            "the last character is part of this {key}: {}",
            quote(&text.value)
        );
        let help = format!("write `{key}: {}`", findings.short(meant));
        findings.warning(text.mark, "look-alike", message, help);
    }
}
