//! Checks of a file's text that need no YAML parser.

use crate::findings::{Findings, Mark};
use crate::source::{FILE_BYTES_MAX, Source};

use super::Looks;

/// The file's text, if it is text and not too long; otherwise the line of the error.
pub(super) fn check<'s>(
    source: &'s Source,
    file: usize,
    findings: &mut Findings,
) -> Result<&'s str, u32> {
    if source.text.len() > FILE_BYTES_MAX {
        let message = format!("the file is larger than {FILE_BYTES_MAX} bytes");
        let help = "split it into several files";
        findings.error(Mark::top(file), "file-too-large", message, help);
        return Err(1);
    }
    match std::str::from_utf8(&source.text) {
        Ok(text) => Ok(text.strip_prefix('\u{feff}').unwrap_or(text)),
        Err(error) => {
            let mark = end_of(&source.text[..error.valid_up_to()], file);
            let message = "the file is not UTF-8 text: this byte is wrong".to_owned();
            let help = "save the file as UTF-8";
            findings.error(mark, "encoding", message, help);
            Err(mark.line)
        }
    }
}

/// The position just after `valid` text.
pub(super) fn end_of(valid: &[u8], file: usize) -> Mark {
    let text = String::from_utf8_lossy(valid);
    let line = text.bytes().filter(|byte| *byte == b'\n').count() + 1;
    let column = text.rsplit('\n').next().unwrap_or_default().chars().count() + 1;
    Mark {
        file,
        line: super::narrow(line),
        column: super::narrow(column),
        length: 1,
    }
}

/// The column of the first tab in a line's indentation.
pub(super) fn tab_in_indentation(text: &str, line: u32) -> Option<u32> {
    let line = text
        .lines()
        .nth(usize::try_from(line).ok()?.checked_sub(1)?)?;
    let indentation = line.len() - line.trim_start().len();
    let tab = line[..indentation].find('\t')?;
    Some(super::narrow(tab + 1))
}

/// The names after `domain:` at the beginning of lines from `line` on: a guess at the domains of a
/// text that cannot be parsed.
pub(super) fn domains_after(text: &str, line: u32) -> Vec<String> {
    let before = usize::try_from(line)
        .unwrap_or(usize::MAX)
        .saturating_sub(1);
    let lines = text.lines().skip(before);
    let names = lines.filter_map(|line| {
        let name = line.trim_end().strip_prefix("domain:")?;
        let name = name.split(" #").next()?.trim();
        let name = name.trim_matches(['"', '\'']);
        (!name.is_empty()).then(|| name.to_owned())
    });
    names.collect()
}

/// Whether a plain scalar is a number, as YAML 1.2's core schema and Go's parser see it.
pub(super) fn number_looks(text: &str) -> Looks {
    let unsigned = text.strip_prefix(['-', '+']).unwrap_or(text);
    let all = |digits: &str, radix: u32| {
        !digits.is_empty() && digits.chars().all(|c| c == '_' || c.is_digit(radix))
    };
    let radix = |prefix: &str, radix: u32| {
        unsigned
            .strip_prefix(prefix)
            .is_some_and(|digits| all(digits, radix))
    };
    if all(unsigned, 10) && !unsigned.starts_with('_') {
        return Looks::Int;
    }
    if radix("0x", 16) || radix("0o", 8) || radix("0b", 2) {
        return Looks::Int;
    }
    let special = matches!(unsigned, ".inf" | ".Inf" | ".INF");
    if special || matches!(text, ".nan" | ".NaN" | ".NAN") || is_float(unsigned) {
        return Looks::Float;
    }
    Looks::Text
}

/// `1.5`, `.5`, `1.`, `1e3`, `1.5e-3`.
fn is_float(text: &str) -> bool {
    let (number, exponent) = match text.split_once(['e', 'E']) {
        Some((number, exponent)) => (number, Some(exponent)),
        None => (text, None),
    };
    let digits = |digits: &str| digits.chars().all(|c| c.is_ascii_digit());
    let exponent_fits = exponent.is_none_or(|exponent| {
        let exponent = exponent.strip_prefix(['-', '+']).unwrap_or(exponent);
        !exponent.is_empty() && digits(exponent)
    });
    let (whole, part) = number.split_once('.').unwrap_or((number, ""));
    let some = !(whole.is_empty() && part.is_empty());
    some && digits(whole) && digits(part) && exponent_fits
}
