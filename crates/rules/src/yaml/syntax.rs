//! What causes a syntax error, and what to write instead.
//!
//! The parser stops where the text no longer makes sense, often a line after the cause. So these
//! are guesses from how the lines around that position look.

use crate::findings::{Findings, Mark, narrow};
use crate::section::SECTIONS;

use super::text::tab_in_indentation;

const QUOTES_HELP: &str = "put all of the value in one pair of quotes; a `'` inside single quotes \
                           is written `''`, a `\"` inside double quotes `\\\"`";

/// The probable cause of a syntax error.
#[derive(Debug)]
pub(super) struct Cause {
    pub(super) mark: Mark,
    pub(super) code: &'static str,
    pub(super) message: String,
    pub(super) help: String,
}

/// The text around a syntax error.
struct Place<'t> {
    text: &'t str,
    /// Where the parser stopped, and why.
    mark: Mark,
    info: &'t str,
    /// The line of the mark.
    line: &'t str,
    /// The last line before it that is neither empty nor a comment, and its number.
    before: Option<(u32, &'t str)>,
    findings: &'t Findings,
}

/// The probable cause of the error `info` at `mark`.
pub(super) fn find(text: &str, mark: Mark, info: &str, findings: &Findings) -> Option<Cause> {
    let mut before = None;
    let mut line = "";
    for (number, text) in (1..=mark.line).zip(text.lines()) {
        let content = text.trim_start();
        if number == mark.line {
            line = text;
        } else if !content.is_empty() && !content.starts_with('#') {
            before = Some((number, text));
        }
    }
    let place = Place {
        text,
        mark,
        info,
        line,
        before,
        findings,
    };
    place
        .tab()
        .or_else(|| place.odd_space())
        .or_else(|| place.list_mark())
        .or_else(|| place.value_without_quotes())
        .or_else(|| place.quotes())
        .or_else(|| {
            place
                .lines()
                .find_map(|(number, line)| place.odd_line(number, line))
        })
        .or_else(|| place.second_colon())
        .or_else(|| place.indentation())
}

// === impl Place ===

impl<'t> Place<'t> {
    /// The line before the error, and its own.
    fn lines(&self) -> impl Iterator<Item = (u32, &'t str)> + use<'t> {
        let line = Some((self.mark.line, self.line));
        self.before.into_iter().chain(line)
    }

    /// A cause at a column of a line, both from 1.
    fn at(&self, line: u32, column: usize, message: &str, help: String) -> Option<Cause> {
        let mark = Mark {
            line,
            column: narrow(column),
            length: 1,
            ..self.mark
        };
        Some(Cause {
            mark,
            code: "syntax",
            message: format!("this is not YAML: {message}"),
            help,
        })
    }

    /// The same where the parser stopped.
    fn here(&self, message: &str, help: String) -> Option<Cause> {
        let column = usize::try_from(self.mark.column).ok()?;
        self.at(self.mark.line, column, message, help)
    }

    /// A tab in the indentation of this line or the next one, or after a colon.
    fn tab(&self) -> Option<Cause> {
        let next = self.info.contains("tab").then_some(self.mark.line + 1);
        let mut lines = [Some(self.mark.line), next].into_iter().flatten();
        let indented = lines.find_map(|line| Some((line, tab_in_indentation(self.text, line)?)));
        if let Some((line, column)) = indented {
            return Some(Cause {
                mark: Mark {
                    line,
                    column,
                    length: 1,
                    ..self.mark
                },
                code: "tab",
                message: "a tab in the indentation".to_owned(),
                help: "YAML is indented with spaces only".to_owned(),
            });
        }
        let (before, _) = self.line.split_once(":\t")?;
        let column = before.chars().count() + 2;
        let cause = self.at(
            self.mark.line,
            column,
            "",
            "write a space after the colon".to_owned(),
        );
        let message = "a tab after the colon".to_owned();
        cause.map(|cause| Cause {
            code: "tab",
            message,
            ..cause
        })
    }

    /// A space that looks like an ordinary one.
    fn odd_space(&self) -> Option<Cause> {
        self.lines().find_map(|(number, line)| {
            let is_odd = |c: char| c.is_whitespace() && !c.is_ascii();
            let at = line.chars().position(is_odd)?;
            let space = line.chars().nth(at)?;
            let message = format!("this space is the character U+{:04X}", u32::from(space));
            let help = "replace it with an ordinary space".to_owned();
            self.at(number, at + 1, &message, help)
        })
    }

    /// A character in place of the `-` of a list item.
    fn list_mark(&self) -> Option<Cause> {
        let marks = ["* ", "– ", "— ", "• ", "+ "];
        self.lines().find_map(|(number, line)| {
            let content = line.trim_start();
            let column = line.chars().count() - content.chars().count() + 1;
            let is_marked = marks.iter().any(|mark| content.starts_with(mark));
            let help = "begin it with `- `".to_owned();
            is_marked
                .then(|| self.at(number, column, "a list item does not begin like this", help))
                .flatten()
        })
    }

    /// A value that begins with a character that has a meaning in YAML.
    fn value_without_quotes(&self) -> Option<Cause> {
        let column = usize::try_from(self.mark.column.checked_sub(1)?).ok()?;
        let (start, first) = self.line.char_indices().nth(column)?;
        let is_anchor = self.info.contains("anchor");
        let key = self.line[..start].trim_matches([' ', '-', ':']);
        let is_alias = first == '*' && !matches!(key, "value" | "key" | "domain");
        if is_anchor && is_alias && !self.line[start..].trim_end().ends_with('*') {
            let help = "`*NAME` repeats a value with `&NAME` before it, further up in the document";
            return self.here("no value has this anchor", help.to_owned());
        }
        let is_special = matches!(first, '@' | '`' | '%')
            || (matches!(first, '|' | '>') && self.info.contains("block scalar"))
            || (matches!(first, '-' | '?') && self.info.contains("not allowed in this context"));
        if !is_special && !is_anchor {
            return None;
        }
        let value = self.line[start..].trim_end();
        let value = self
            .findings
            .short(value.split(" #").next().unwrap_or(value));
        let quoted = match value.contains(['"', '\\']) {
            true => format!("'{value}'"),
            false => format!("\"{value}\""),
        };
        if is_anchor {
            let help = format!(
                "a wildcard goes in quotes: `{quoted}`; an alias `*NAME` repeats a value with \
                 `&NAME` before it, further up in the document"
            );
            return self.here(self.info, help);
        }
        if first == '`' {
            let help = "put it in quotes".to_owned();
            return self.here("a value without quotes cannot begin with a backquote", help);
        }
        let message = format!("a value without quotes cannot begin with `{first}`");
        self.here(&message, format!("put it in quotes: `{quoted}`"))
    }

    /// A quote that is not closed, or one too many.
    fn quotes(&self) -> Option<Cause> {
        if self.info.contains("trailing content after") {
            let before = usize::try_from(self.mark.column.saturating_sub(1)).unwrap_or(usize::MAX);
            let help = match self.line.chars().nth(before) {
                Some('"') => "write a comma between two entries",
                Some(',' | ';') => "remove it: in YAML, lines do not end with it",
                _ => QUOTES_HELP,
            };
            return self.here("there is text after the closing quote", help.to_owned());
        }
        if self.info.contains("escape character") || self.info.contains("hexadecimal") {
            let help = "use single quotes, in which `\\` is an ordinary character";
            return self.here("a `\\` in double quotes begins an escape", help.to_owned());
        }
        let is_open = self.info.contains("in quoted scalar") || self.info.contains("end of stream");
        if is_open && self.info.contains("quoted scalar") {
            let help = "close it at the end of the value".to_owned();
            return self.here("a quote is opened here and not closed", help);
        }
        None
    }

    /// A line that YAML does not read as a key and its value.
    fn odd_line(&self, number: u32, line: &str) -> Option<Cause> {
        let content = line.trim_start();
        let column = line.chars().count() - content.chars().count() + 1;
        if content.starts_with("{{") {
            let help = "render the template first, and check its result".to_owned();
            return self.at(number, column, "this is a line of a template", help);
        }
        if content.starts_with("//") {
            let help = "a comment begins with `#`".to_owned();
            return self.at(number, column, "`//` does not begin a comment", help);
        }
        let is_dashes = content.trim_end().bytes().all(|byte| byte == b'-');
        if is_dashes && content.len() > 1 && content.trim_end() != "---" {
            let help = "write `---` on a line of its own between two documents".to_owned();
            return self.at(number, column, "these dashes separate no documents", help);
        }
        if let Some(at) = line.chars().position(|c| c == '：') {
            let message = "this is a full-width colon, not `:`";
            return self.at(number, at + 1, message, "write `: `".to_owned());
        }
        if let Some(rest) = content.strip_prefix('-')
            && rest.starts_with(char::is_alphabetic)
            && rest.contains(':')
        {
            let help = format!("write `- {}`", self.findings.short(rest.trim_end()));
            return self.at(number, column, "there is no space after the `-`", help);
        }
        self.odd_entry(number, line)
    }

    /// A key that is not followed by a colon and a space.
    fn odd_entry(&self, number: u32, line: &str) -> Option<Cause> {
        let entry = line.trim_start_matches(['-', ' ']);
        let column = line.chars().count() - entry.chars().count() + 1;
        let is_key = |key: &str| {
            let is_word = |c: char| c.is_alphanumeric() || c == '_';
            !key.is_empty() && key.chars().all(is_word)
        };
        if entry.contains(": ") || entry.trim_end().ends_with(':') {
            return None;
        }
        if let Some((key, value)) = entry.split_once(':')
            && is_key(key)
            && !value.starts_with("//")
        {
            let column = column + key.chars().count();
            let [key, value] = [key, value.trim_end()].map(|text| self.findings.short(text));
            let help = format!("write `{key}: {value}`");
            return self.at(number, column, "there is no space after the colon", help);
        }
        if let Some((key, value)) = entry.split_once('=')
            && is_key(key.trim())
        {
            let column = column + key.chars().count();
            let [key, value] = [key.trim(), value.trim()].map(|text| self.findings.short(text));
            let help = format!("write `{key}: {value}`");
            return self.at(number, column, "a key ends with `:`, not with `=`", help);
        }
        let (key, value) = entry
            .trim_end()
            .split_once(' ')
            .unwrap_or((entry.trim_end(), ""));
        let is_known = SECTIONS.iter().any(|section| section.field(key).is_some());
        let help = match value.trim() {
            "" => format!("write `{key}:`"),
            value => format!("write `{key}: {}`", self.findings.short(value)),
        };
        let column = column + key.chars().count();
        is_known
            .then(|| self.at(number, column, "there is no colon after this key", help))
            .flatten()
    }

    /// `key: a: b`.
    fn second_colon(&self) -> Option<Cause> {
        if !self.info.contains("mapping values") {
            return None;
        }
        let column = usize::try_from(self.mark.column.checked_sub(1)?).ok()?;
        let (end, _) = self.line.char_indices().nth(column)?;
        let (key, _) = self.line[..end].split_once(": ")?;
        let value = self.line[key.len() + 2..].trim();
        let value = self
            .findings
            .short(value.split(" #").next().unwrap_or(value));
        let key = self.findings.short(key.trim_start_matches([' ', '-']));
        let help = format!("put the value in quotes: `{key}: \"{value}\"`");
        self.here("there is a second colon in this value", help)
    }

    /// A line that begins further left or right than the map that it belongs to.
    fn indentation(&self) -> Option<Cause> {
        let mine = self.line.find(|c| c != ' ')?;
        if self.line[mine..].starts_with("- ") {
            return self.item_indentation(mine);
        }
        let (number, column, key) = match self.info {
            info if info.contains("mapping values") => {
                let (number, before) = self.before?;
                let (key, _) = before.split_once(": ")?;
                let column = first_column(before);
                (mine > column).then_some((number, column, key))?
            }
            info if info.contains("block collection") || info.contains("block mapping") => {
                self.map_above(mine)?
            }
            _ => return None,
        };
        let key = key.trim_start_matches([' ', '-']);
        let message = "the indentation of this line does not match the lines above";
        let help = format!(
            "begin it in column {}, as `{}` in line {number}, if it belongs to the same map",
            column + 1,
            self.findings.short(key)
        );
        self.at(self.mark.line, mine + 1, message, help)
    }

    /// A list item that begins further left or right than those above.
    fn item_indentation(&self, mine: usize) -> Option<Cause> {
        let count = usize::try_from(self.mark.line).ok()?.checked_sub(1)?;
        let lines = (1..).zip(self.text.lines()).take(count);
        let items = lines.filter(|(_, line): &(u32, &str)| line.trim_start().starts_with("- "));
        let Some((number, item)) = items.last() else {
            let help = "write `descriptors:` in the line above the list".to_owned();
            return self.at(
                self.mark.line,
                mine + 1,
                "this list belongs to no key",
                help,
            );
        };
        let column = item.len() - item.trim_start().len();
        let message = "the indentation of this item does not match the items above";
        let help = format!(
            "begin it in column {}, as the item in line {number}",
            column + 1
        );
        (column != mine)
            .then(|| self.at(self.mark.line, mine + 1, message, help))
            .flatten()
    }

    /// The line, the column from 0 and the key of the closest map above that begins further right.
    fn map_above(&self, mine: usize) -> Option<(u32, usize, &'t str)> {
        let count = usize::try_from(self.mark.line).ok()?.checked_sub(1)?;
        let lines: Vec<(u32, &str)> = (1..).zip(self.text.lines()).take(count).collect();
        let mut nearest = None;
        for (number, line) in lines.into_iter().rev() {
            let column = first_column(line);
            let Some((key, _)) = line.split_once(':') else {
                continue;
            };
            if column <= mine {
                break;
            }
            if nearest.is_none_or(|(_, least, _)| column <= least) {
                nearest = Some((number, column, key));
            }
        }
        nearest
    }
}

/// The column from 0 at which the first key of a line begins.
fn first_column(line: &str) -> usize {
    line.find(|c| c != ' ' && c != '-').unwrap_or(line.len())
}
