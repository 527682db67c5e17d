//! The errors and warnings found so far, and the domains that are rejected because of them.

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::diagnostic::{Diagnostic, Severity, escape};
use crate::quote::{has_user, quote};
use crate::source::Source;

use counts::Counts;
use lines::Lines;

pub use counts::DIAGNOSTICS_MAX;
pub(crate) use counts::FindingRange;

mod counts;
mod lines;

/// The replacement for hidden text in a message.
const HIDDEN: &str = "this value (not shown: it may be a password)";

/// A position in one of the files.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Mark {
    /// The file, as an index into the sources.
    pub(crate) file: usize,
    /// The line, from 1.
    pub(crate) line: u32,
    /// The column in characters, from 1.
    pub(crate) column: u32,
    /// Characters.
    pub(crate) length: u32,
}

/// A line, a column or a length; files are far shorter than what fits.
pub(crate) fn narrow(position: usize) -> u32 {
    u32::try_from(position).unwrap_or(u32::MAX)
}

/// An error or warning, before the line around it is looked up.
#[derive(Debug)]
struct Finding {
    mark: Mark,
    severity: Severity,
    code: &'static str,
    message: String,
    help: String,
    domain: Option<Arc<str>>,
    /// Whether the diagnostic leaves out the line, because it may contain a password.
    hides_line: bool,
}

/// Collects errors and warnings of a whole load.
#[derive(Debug, Default)]
pub(crate) struct Findings {
    /// At most [`DIAGNOSTICS_MAX`] errors and as many warnings, of which [`Findings::finish`] keeps
    /// that many in all: a later error must displace a warning, which may be in a range.
    list: Vec<Finding>,
    counts: Counts,
    /// The domain that is being read.
    domain: Option<Arc<str>>,
    rejected: Rejected,
    /// What the files are called: [`Source::name`].
    files: Vec<String>,
    /// Whether messages leave out the file's text, because it may contain a password.
    hides_text: bool,
}

/// What may not be replaced by what was read. The names of files are those of [`Source::name`], as
/// a domain has them, without escapes.
#[derive(Clone, Debug, Default)]
pub(crate) struct Rejected {
    /// Domains with an error in them.
    pub(crate) domains: BTreeSet<String>,
    /// Files with an error in a domain whose name could not be read.
    pub(crate) files: BTreeSet<String>,
    /// Files with any error. A domain that is missing in them may have got a wrong name.
    pub(crate) wrong_files: BTreeSet<String>,
    /// Whether a file could not be read to its end: a missing domain may be in the rest.
    pub(crate) is_incomplete: bool,
}

// === impl Mark ===

impl Mark {
    /// The beginning of a file.
    pub(crate) const fn top(file: usize) -> Mark {
        Mark {
            file,
            line: 1,
            column: 1,
            length: 1,
        }
    }
}

// === impl Findings ===

impl Findings {
    /// None yet, in these files.
    pub(crate) fn of(sources: &[Source]) -> Findings {
        let files = sources.iter().map(|source| source.name.clone());
        Findings {
            files: files.collect(),
            ..Findings::default()
        }
    }

    /// Where `other` is, for a message about `mark`: `in line 7`, or `at a.yaml:7` if that is
    /// another file.
    pub(crate) fn describe_position(&self, other: Mark, mark: Mark) -> String {
        match self.files.get(other.file) {
            Some(file) if other.file != mark.file => {
                format!("at {}:{}", escape(file), other.line)
            }
            _ => format!("in line {}", other.line),
        }
    }

    /// Sets whether the following messages leave out the file's text.
    pub(crate) fn hide_text(&mut self, hides_text: bool) {
        self.hides_text = hides_text;
    }

    /// Quotes a file's text in a message, or its replacement if it is hidden.
    pub(crate) fn quote(&self, text: &str) -> String {
        if self.hides_text || has_user(text) {
            return HIDDEN.to_owned();
        }
        quote(text)
    }

    /// Quotes a key in a message, or its replacement if it is hidden.
    pub(crate) fn quote_key(&self, text: &str) -> String {
        if self.hides_text || has_user(text) {
            return "this key".to_owned();
        }
        quote(text)
    }

    /// The part of a file's text that a help text shows inside backquotes.
    pub(crate) fn short(&self, text: &str) -> String {
        if self.hides_text || has_user(text) {
            return "…".to_owned();
        }
        quote(text).trim_matches('`').to_owned()
    }

    /// Sets the domain of the following findings.
    pub(crate) fn enter(&mut self, domain: Option<&str>) {
        self.domain = domain.map(Arc::from);
    }

    /// Adds an error. An empty `help` is none.
    pub(crate) fn error(
        &mut self,
        mark: Mark,
        code: &'static str,
        message: String,
        help: impl Into<String>,
    ) {
        self.add(Severity::Error, mark, code, message, help.into());
    }

    /// Adds a warning.
    pub(crate) fn warning(
        &mut self,
        mark: Mark,
        code: &'static str,
        message: String,
        help: impl Into<String>,
    ) {
        self.add(Severity::Warning, mark, code, message, help.into());
    }

    /// Adds a finding and rejects the domain of an error.
    fn add(
        &mut self,
        severity: Severity,
        mark: Mark,
        code: &'static str,
        message: String,
        help: String,
    ) {
        if let (Severity::Error, Some(domain)) = (severity, &self.domain) {
            self.rejected.domains.insert(domain.to_string());
        }
        if let (Severity::Error, Some(file)) = (severity, self.files.get(mark.file)) {
            self.rejected.wrong_files.insert(file.clone());
        }
        let finding = Finding {
            mark,
            severity,
            code,
            message,
            help,
            domain: self.domain.clone(),
            hides_line: false,
        };
        self.push(finding);
    }

    fn push(&mut self, finding: Finding) {
        if self.counts.add(finding.severity) {
            self.list.push(finding);
        }
    }

    /// Where the following findings begin.
    pub(crate) fn mark(&self) -> FindingRange {
        FindingRange {
            first: self.counts,
            end: self.counts,
        }
    }

    /// The findings since `mark`.
    pub(crate) fn since(&self, mark: FindingRange) -> FindingRange {
        FindingRange {
            first: mark.first,
            end: self.counts,
        }
    }

    /// Replaces all findings since `mark`, which belong to no domain yet, by one error that leaves
    /// out its line.
    pub(crate) fn replace_since(
        &mut self,
        mark: FindingRange,
        at: Mark,
        code: &'static str,
        message: String,
        help: String,
    ) {
        self.drop_since(mark);
        self.push(Finding {
            mark: at,
            severity: Severity::Error,
            code,
            message,
            help,
            domain: None,
            hides_line: true,
        });
    }

    /// Drops all findings since `mark`, which belong to no domain yet.
    pub(crate) fn drop_since(&mut self, mark: FindingRange) {
        self.drop_beyond(mark.first);
    }

    /// Drops the findings after this range, before which there are none.
    pub(crate) fn drop_after(&mut self, range: FindingRange) {
        self.drop_beyond(range.end);
    }

    fn drop_beyond(&mut self, counts: Counts) {
        self.list.truncate(counts.list_length());
        self.counts = counts;
    }

    /// The name of a file, for messages.
    pub(crate) fn file_name(&self, mark: Mark) -> String {
        let file = self.files.get(mark.file);
        file.map_or_else(|| "FILE".to_owned(), |file| escape(file))
    }

    /// Whether something with this code was reported at a position.
    pub(crate) fn has(&self, mark: Mark, code: &str) -> bool {
        let mut list = self.list.iter();
        list.any(|finding| finding.mark == mark && finding.code == code)
    }

    /// Assigns findings to a domain.
    pub(crate) fn belong(&mut self, range: FindingRange, domain: &str) {
        for finding in &mut self.list[range.places()] {
            finding.domain.get_or_insert_with(|| Arc::from(domain));
        }
        if range.any() {
            self.reject_domain(domain);
        }
    }

    /// Rejects the current domain, for a reason that was reported before.
    pub(crate) fn reject(&mut self) {
        self.counts.reject();
        if let Some(domain) = &self.domain {
            self.rejected.domains.insert(domain.to_string());
        }
    }

    /// Rejects a domain, whatever was read of it.
    pub(crate) fn reject_domain(&mut self, domain: &str) {
        self.rejected.domains.insert(domain.to_owned());
    }

    /// Records that a file could not be read to its end.
    pub(crate) fn mark_incomplete(&mut self) {
        self.rejected.is_incomplete = true;
    }

    /// Rejects every domain that a file may have contained.
    pub(crate) fn reject_file(&mut self, name: &str) {
        self.rejected.files.insert(name.to_owned());
        self.rejected.is_incomplete = true;
    }

    /// Records that a file may have the error that was reported in another one.
    pub(crate) fn suspect_file(&mut self, name: &str) {
        self.rejected.wrong_files.insert(name.to_owned());
    }

    /// Whether a domain has an error in it.
    pub(crate) fn is_rejected(&self, domain: &str) -> bool {
        self.rejected.domains.contains(domain)
    }

    /// All findings by file and line, with the lines that they are in.
    pub(crate) fn finish(mut self, sources: &[Source]) -> (Vec<Diagnostic>, Rejected) {
        self.list.sort_by_key(|finding| {
            let mark = finding.mark;
            (mark.file, mark.line, mark.column)
        });
        self.list.dedup_by(|one, other| {
            one.mark == other.mark && one.code == other.code && one.message == other.message
        });
        let mut omitted = self.counts.remainder();
        omitted.warnings += shorten(&mut self.list);
        let mut lines = Lines::default();
        let mut diagnostics: Vec<Diagnostic> = self
            .list
            .into_iter()
            .map(|finding| finding.into_diagnostic(sources, &mut lines))
            .collect();
        if let (Some(last), Some(message)) = (diagnostics.last().cloned(), omitted.message()) {
            diagnostics.push(Diagnostic {
                severity: omitted.severity(),
                code: "too-many-diagnostics",
                message,
                help: Some("fix these first".to_owned()),
                ..last
            });
        }
        (diagnostics, self.rejected)
    }
}

/// Drops the last warnings until the list fits, and returns how many.
fn shorten(list: &mut Vec<Finding>) -> usize {
    let excess = list.len().saturating_sub(DIAGNOSTICS_MAX);
    let is_warning = |finding: &Finding| finding.severity == Severity::Warning;
    let warnings = list.iter().filter(|finding| is_warning(finding)).count();
    let dropped = excess.min(warnings);
    let mut left = warnings - dropped;
    list.retain(|finding| {
        let stays = !is_warning(finding) || left > 0;
        left -= usize::from(stays && is_warning(finding));
        stays
    });
    dropped
}

// === impl Finding ===

impl Finding {
    fn into_diagnostic<'s>(self, sources: &'s [Source], lines: &mut Lines<'s>) -> Diagnostic {
        let source = &sources[self.mark.file];
        let line = usize::try_from(self.mark.line).unwrap_or(usize::MAX);
        let text = (!self.hides_line).then(|| lines.line(self.mark.file, source, line));
        Diagnostic {
            severity: self.severity,
            code: self.code,
            message: self.message,
            help: Some(self.help).filter(|help| !help.is_empty()),
            file: source.name.clone(),
            line: self.mark.line,
            column: self.mark.column,
            length: self.mark.length.max(1),
            text: text.unwrap_or_default(),
            domain: self.domain.map(|domain| domain.to_string()),
        }
    }
}
