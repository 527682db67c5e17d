//! How many errors and warnings there are, in the list and beyond it.

use std::ops::Range;

use crate::diagnostic::Severity;

/// The most diagnostics of one load, errors before warnings. Those beyond are counted, and errors
/// among them reject their domain as well.
pub const DIAGNOSTICS_MAX: usize = 1000;

/// What was found up to some moment.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Counts {
    /// All errors, listed or not, and rejections for a reason that was reported before.
    errors: usize,
    listed: BySeverity,
    omitted: BySeverity,
}

/// Findings of each severity.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct BySeverity {
    errors: usize,
    pub(super) warnings: usize,
}

/// A range of findings whose domain is not known yet.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FindingRange {
    /// What was found before the first.
    pub(super) first: Counts,
    /// What was found up to and with the last.
    pub(super) end: Counts,
}

// === impl Counts ===

impl Counts {
    /// Counts a finding. Returns whether there is a place for it in the list.
    ///
    /// Errors and warnings do not share their places: no warning keeps an error from being listed.
    pub(super) fn add(&mut self, severity: Severity) -> bool {
        self.errors += usize::from(severity == Severity::Error);
        let is_listed = *self.listed.of(severity) < DIAGNOSTICS_MAX;
        let counts = match is_listed {
            true => &mut self.listed,
            false => &mut self.omitted,
        };
        *counts.of(severity) += 1;
        is_listed
    }

    /// Counts an error that was reported before.
    pub(super) fn reject(&mut self) {
        self.errors += 1;
    }

    /// The length of the list.
    pub(super) const fn list_length(&self) -> usize {
        self.listed.errors + self.listed.warnings
    }

    /// What was found and is not in the list.
    pub(super) const fn remainder(&self) -> BySeverity {
        self.omitted
    }
}

// === impl BySeverity ===

impl BySeverity {
    fn of(&mut self, severity: Severity) -> &mut usize {
        match severity {
            Severity::Error => &mut self.errors,
            Severity::Warning => &mut self.warnings,
        }
    }

    /// An error if there is one.
    pub(super) const fn severity(self) -> Severity {
        match self.errors {
            0 => Severity::Warning,
            1.. => Severity::Error,
        }
    }

    /// The message that these are not shown, if there are any.
    pub(super) fn message(self) -> Option<String> {
        let counted = |count: usize, noun: &str| match count {
            1 => format!("1 more {noun}"),
            _ => format!("{count} more {noun}s"),
        };
        let what = match (self.errors, self.warnings) {
            (0, 0) => return None,
            (errors, 0) => counted(errors, "error"),
            (0, warnings) => counted(warnings, "warning"),
            (errors, warnings) => {
                let errors = counted(errors, "error");
                format!("{errors} and {}", counted(warnings, "warning"))
            }
        };
        let verb = if self.errors + self.warnings == 1 {
            "is"
        } else {
            "are"
        };
        Some(format!("{what} {verb} not shown"))
    }
}

// === impl FindingRange ===

impl FindingRange {
    /// Whether there is an error in this range.
    pub(crate) const fn any(&self) -> bool {
        self.end.errors > self.first.errors
    }

    /// Its places in the list.
    pub(super) const fn places(&self) -> Range<usize> {
        self.first.list_length()..self.end.list_length()
    }
}
