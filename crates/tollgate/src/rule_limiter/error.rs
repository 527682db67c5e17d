//! Why there is no decision, or no rules.

use std::fmt;

use tollgate_core::StoreError;
use tollgate_rules::{Diagnostic, ReadError};

/// Why there is no decision. Nothing was charged.
#[derive(Debug)]
#[non_exhaustive]
pub enum RuleError {
    /// There are no rules for this domain.
    UnknownDomain {
        /// The domain, with bytes that are not text escaped.
        domain: String,
    },
    /// The store failed.
    Store(StoreError),
}

/// Why rules cannot be loaded from files.
#[derive(Debug)]
#[non_exhaustive]
pub enum LoadError {
    /// No path is given. That would be no rules, and so no limits: a pattern that matches no file
    /// is far more likely.
    NoPaths,
    /// The files cannot be read.
    Read(ReadError),
    /// The rules in them cannot be used.
    Invalid(InvalidRules),
}

/// Invalid rules: every error in them, with its position and what to do.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct InvalidRules {
    /// The errors, and warnings.
    pub diagnostics: Vec<Diagnostic>,
}

// === impl RuleError ===

impl fmt::Display for RuleError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RuleError::UnknownDomain { domain } => write!(f, "no rules for the domain `{domain}`"),
            RuleError::Store(_) => f.write_str("the store has no answer"),
        }
    }
}

impl std::error::Error for RuleError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            RuleError::UnknownDomain { .. } => None,
            RuleError::Store(source) => Some(source),
        }
    }
}

// === impl LoadError ===

impl From<InvalidRules> for LoadError {
    fn from(invalid: InvalidRules) -> LoadError {
        LoadError::Invalid(invalid)
    }
}

impl fmt::Display for LoadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            LoadError::NoPaths => {
                f.write_str("no rules file is named: name at least one file or directory")
            }
            LoadError::Read(_) => f.write_str("the rules cannot be read"),
            LoadError::Invalid(_) => f.write_str("the rules cannot be used"),
        }
    }
}

impl std::error::Error for LoadError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            LoadError::NoPaths => None,
            LoadError::Read(source) => Some(source),
            LoadError::Invalid(source) => Some(source),
        }
    }
}

// === impl InvalidRules ===

impl fmt::Display for InvalidRules {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for diagnostic in &self.diagnostics {
            write!(f, "{diagnostic}")?;
        }
        Ok(())
    }
}

impl std::error::Error for InvalidRules {}
