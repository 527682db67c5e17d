//! The mistakes found so far, and the domains that they spoil.

use std::collections::BTreeSet;
use std::sync::Arc;

use tollgate_core::is_printable;

use crate::diagnostic::{Diagnostic, Severity, escaped};
use crate::source::Source;

/// The most diagnostics of one load. Mistakes beyond are counted, and spoil their domain as well.
pub const DIAGNOSTICS_MAX: usize = 1000;
/// The most characters of a file's own words that a message repeats.
const QUOTED_MAX: usize = 60;
/// What stands in a message for words that are hidden.
const HIDDEN: &str = "the text here (not shown: it may be a password)";

/// A place in one of the files.
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

/// A mistake, before the text around it is looked up.
#[derive(Debug)]
struct Finding {
    mark: Mark,
    severity: Severity,
    code: &'static str,
    message: String,
    help: String,
    domain: Option<Arc<str>>,
}

/// Collects mistakes; one for a whole load.
#[derive(Debug, Default)]
pub(crate) struct Findings {
    list: Vec<Finding>,
    /// Mistakes that found no room.
    omitted: usize,
    errors: usize,
    /// The domain that is being read.
    domain: Option<Arc<str>>,
    spoilt: Spoilt,
    /// What the files are called, for people.
    files: Vec<String>,
    /// Whether messages leave out the file's own words, because a password may be among them.
    hides_text: bool,
}

/// A run of mistakes whose domain is not known yet.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Mistakes {
    first: usize,
    end: usize,
    /// All errors before, or within, shown or not.
    errors: usize,
}

/// What may not be replaced by what was read.
#[derive(Clone, Debug, Default)]
pub(crate) struct Spoilt {
    /// Domains with an error in them.
    pub(crate) domains: BTreeSet<String>,
    /// Files with an error in a domain whose name could not be read.
    pub(crate) files: BTreeSet<String>,
    /// Whether a file could not be read to its end: a domain that is missing may stand there.
    pub(crate) cut: bool,
}

// === impl Mistakes ===

impl Mistakes {
    /// Whether there is an error among them.
    pub(crate) const fn any(&self) -> bool {
        self.errors > 0
    }
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
        let files = sources.iter().map(|source| escaped(&source.name));
        Findings {
            files: files.collect(),
            ..Findings::default()
        }
    }

    /// Where `other` is, in a message about what stands at `mark`: `in line 7`, or `at a.yaml:7` if
    /// that is another file.
    pub(crate) fn place(&self, other: Mark, mark: Mark) -> String {
        match self.files.get(other.file) {
            Some(file) if other.file != mark.file => format!("at {file}:{}", other.line),
            _ => format!("in line {}", other.line),
        }
    }

    /// Decides whether the messages that follow leave out the file's own words.
    pub(crate) fn hide_text(&mut self, hides_text: bool) {
        self.hides_text = hides_text;
    }

    /// A file's own words in a message, or a stand-in where they are hidden.
    pub(crate) fn quoted(&self, text: &str) -> String {
        if self.hides_text {
            return HIDDEN.to_owned();
        }
        quoted(text)
    }

    /// As much of a file's own words as a help text repeats inside backquotes.
    pub(crate) fn short(&self, text: &str) -> String {
        if self.hides_text {
            return "…".to_owned();
        }
        quoted(text).trim_matches('`').to_owned()
    }

    /// Says which domain the mistakes that follow are in.
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

    fn add(
        &mut self,
        severity: Severity,
        mark: Mark,
        code: &'static str,
        message: String,
        help: String,
    ) {
        if let (Severity::Error, Some(domain)) = (severity, &self.domain) {
            self.spoilt.domains.insert(domain.to_string());
        }
        self.errors += usize::from(severity == Severity::Error);
        let finding = Finding {
            mark,
            severity,
            code,
            message,
            help,
            domain: self.domain.clone(),
        };
        if self.list.len() < DIAGNOSTICS_MAX {
            self.list.push(finding);
        } else {
            self.omitted += 1;
        }
    }

    /// Where the mistakes that follow begin.
    pub(crate) fn mark(&self) -> Mistakes {
        Mistakes {
            first: self.list.len(),
            end: self.list.len(),
            errors: self.errors,
        }
    }

    /// The mistakes since `mark`.
    pub(crate) fn since(&self, mark: Mistakes) -> Mistakes {
        Mistakes {
            first: mark.first,
            end: self.list.len(),
            errors: self.errors - mark.errors,
        }
    }

    /// Says that `mistakes` are in `domain`.
    pub(crate) fn belong(&mut self, mistakes: Mistakes, domain: &str) {
        for finding in &mut self.list[mistakes.first..mistakes.end] {
            finding.domain.get_or_insert_with(|| Arc::from(domain));
        }
        if mistakes.errors > 0 {
            self.spoil_domain(domain);
        }
    }

    /// Says that the present domain's rules are not to be trusted, for a reason told before.
    pub(crate) fn spoil(&mut self) {
        self.errors += 1;
        if let Some(domain) = &self.domain {
            self.spoilt.domains.insert(domain.to_string());
        }
    }

    /// Says that a domain's rules are not to be trusted, whatever was read of them.
    pub(crate) fn spoil_domain(&mut self, domain: &str) {
        self.spoilt.domains.insert(domain.to_owned());
    }

    /// Says that a file could not be read to its end.
    pub(crate) fn cut(&mut self) {
        self.spoilt.cut = true;
    }

    /// Says that a file may have held any domain.
    pub(crate) fn spoil_file(&mut self, name: &str) {
        self.spoilt.files.insert(name.to_owned());
        self.spoilt.cut = true;
    }

    /// Whether a domain has an error in it.
    pub(crate) fn is_spoilt(&self, domain: &str) -> bool {
        self.spoilt.domains.contains(domain)
    }

    /// All mistakes by file and line, with the lines that they are in.
    pub(crate) fn finish(mut self, sources: &[Source]) -> (Vec<Diagnostic>, Spoilt) {
        self.list.sort_by_key(|finding| {
            let mark = finding.mark;
            (mark.file, mark.line, mark.column)
        });
        self.list.dedup_by(|one, other| {
            one.mark == other.mark && one.code == other.code && one.message == other.message
        });
        let omitted = self.omitted;
        let mut lines = Lines::default();
        let mut diagnostics: Vec<Diagnostic> = self
            .list
            .into_iter()
            .map(|finding| finding.shown(sources, &mut lines))
            .collect();
        if let (Some(last), 1..) = (diagnostics.last().cloned(), omitted) {
            diagnostics.push(Diagnostic {
                severity: Severity::Error,
                code: "too-many-mistakes",
                message: format!("{omitted} more mistakes are not shown"),
                help: Some("mend these first".to_owned()),
                ..last
            });
        }
        (diagnostics, self.spoilt)
    }
}

// === impl Finding ===

impl Finding {
    fn shown<'s>(self, sources: &'s [Source], lines: &mut Lines<'s>) -> Diagnostic {
        let source = &sources[self.mark.file];
        let line = usize::try_from(self.mark.line).unwrap_or(usize::MAX);
        let text = lines.line(self.mark.file, source, line);
        Diagnostic {
            severity: self.severity,
            code: self.code,
            message: self.message,
            help: Some(self.help).filter(|help| !help.is_empty()),
            file: source.name.clone(),
            line: self.mark.line,
            column: self.mark.column,
            length: self.mark.length.max(1),
            text,
            domain: self.domain.map(|domain| domain.to_string()),
        }
    }
}

/// The lines of the file that was last asked for.
#[derive(Default)]
struct Lines<'s> {
    file: Option<usize>,
    lines: Vec<&'s [u8]>,
}

/// The most bytes of a line that a diagnostic carries.
const LINE_BYTES_MAX: usize = 4096;

impl<'s> Lines<'s> {
    fn line(&mut self, file: usize, source: &'s Source, line: usize) -> String {
        if self.file != Some(file) {
            self.lines = split_lines(&source.text);
            self.file = Some(file);
        }
        let line = self.lines.get(line.saturating_sub(1)).copied();
        let line = line.unwrap_or_default();
        let shown = &line[..line.len().min(LINE_BYTES_MAX)];
        let text = String::from_utf8_lossy(shown);
        text.trim_start_matches('\u{feff}').trim_end().to_owned()
    }
}

/// Lines as YAML has them: a lone carriage return ends one as well.
fn split_lines(text: &[u8]) -> Vec<&[u8]> {
    let mut lines = Vec::new();
    for line in text.split(|byte| *byte == b'\n') {
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        lines.extend(line.split(|byte| *byte == b'\r'));
    }
    lines
}

/// A file's own words in a message: in backquotes, shortened, without control characters.
pub(crate) fn quoted(text: &str) -> String {
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
