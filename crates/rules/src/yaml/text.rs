//! Checks of a file's text that need no YAML parser.

use crate::findings::{Findings, Mark, narrow};
use crate::source::{FILE_BYTES_MAX, Source};

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
        line: narrow(line),
        column: narrow(column),
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
    Some(narrow(tab + 1))
}

/// Whether there is a `[` or `{` at a position.
pub(super) fn is_bracket(text: &str, mark: Mark) -> bool {
    let before = |position: u32| {
        usize::try_from(position)
            .unwrap_or(usize::MAX)
            .saturating_sub(1)
    };
    let line = text.lines().nth(before(mark.line)).unwrap_or_default();
    matches!(line.chars().nth(before(mark.column)), Some('[' | '{'))
}

/// What no name begins with unless it is quoted (YAML 1.2, section 5.3). In a text that cannot be
/// parsed, one of them after `domain:` may be the error itself.
const NO_NAMES: [char; 14] = [
    '[', ']', '{', '}', ',', '&', '*', '!', '|', '>', '%', '@', '`', '#',
];

const QUOTES: [char; 2] = ['"', '\''];

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
        if name.starts_with(NO_NAMES) || ["- ", "? "].iter().any(|mark| name.starts_with(mark)) {
            return None;
        }
        let name = name.trim_matches(QUOTES);
        let is_name = !name.is_empty() && !name.contains(QUOTES) && !name.contains(": ");
        is_name.then(|| name.to_owned())
    });
    names.collect()
}
