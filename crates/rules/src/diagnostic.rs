//! What is wrong with a rules file, where, and what to do about it.

use std::fmt;

use serde_json::{Value, json};

mod excerpt;

pub use excerpt::escape;

/// How bad it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Severity {
    /// The domain is not loaded.
    Error,
    /// The domain is loaded, and does something that its author may not have meant.
    Warning,
}

/// One error or warning about a rules file.
///
/// Shown with [`fmt::Display`] as people know it from compilers, and with
/// [`Diagnostic::to_json`] as programs like it. Text that comes from the file is shortened and its
/// control characters are escape.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Diagnostic {
    /// How bad it is.
    pub severity: Severity,
    /// A short, stable name for this kind of diagnostic: `unknown-key`.
    pub code: &'static str,
    /// What is wrong.
    pub message: String,
    /// What to do instead.
    pub help: Option<String>,
    /// [`crate::Source::name`].
    pub file: String,
    /// The line, from 1.
    pub line: u32,
    /// The column in characters, from 1.
    pub column: u32,
    /// How many characters of the line are meant; at least 1.
    pub length: u32,
    /// The line itself. Empty if it is an empty line, or is not shown because it may contain a
    /// password.
    pub text: String,
    /// The domain that it is about, if known.
    pub domain: Option<String>,
}

// === impl Severity ===

impl fmt::Display for Severity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Severity::Error => "error",
            Severity::Warning => "warning",
        })
    }
}

// === impl Diagnostic ===

impl Diagnostic {
    /// Whether the domain was not loaded because of this.
    pub fn is_error(&self) -> bool {
        self.severity == Severity::Error
    }

    /// This diagnostic as a JSON object with the names of the fields.
    pub fn to_json(&self) -> Value {
        json!({
            "severity": self.severity.to_string(),
            "code": self.code,
            "message": self.message,
            "help": self.help,
            "file": self.file,
            "line": self.line,
            "column": self.column,
            "length": self.length,
            "text": self.text,
            "domain": self.domain,
        })
    }
}

impl fmt::Display for Diagnostic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}[{}]: {}", self.severity, self.code, self.message)?;
        let margin = self.line.to_string().len();
        let file = escape(&self.file);
        writeln!(f, "{:margin$}--> {file}:{}:{}", "", self.line, self.column)?;
        if !self.text.is_empty() {
            let excerpt = excerpt::Excerpt::of(self);
            writeln!(f, "{:margin$} |", "")?;
            writeln!(f, "{} | {}", self.line, excerpt.text)?;
            writeln!(f, "{:margin$} | {}", "", excerpt.carets)?;
        }
        if let Some(help) = &self.help {
            writeln!(f, "{:margin$} = help: {help}", "")?;
        }
        Ok(())
    }
}
