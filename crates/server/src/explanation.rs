//! Explanations as people and programs read them: why a request is allowed or denied.

use tollgate_core::{Limit, Request, Span, Status};
use tollgate_engine::{DeniedRequest, Explanation};
use tollgate_rules::{Finding, RuleDescriptor, Walk};

mod json;
mod reason;
mod text;

/// The version of [`ExplanationReport::to_json`]. It changes when a member changes its meaning or
/// is removed; new members keep it.
pub const EXPLANATION_VERSION: u32 = 1;

/// Whether the values of a request are shown. They may be secrets, such as API keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Values {
    /// As they are, escaped.
    Show,
    /// Only the keys. Values of the rules file are shown: they are the operator's.
    Hide,
}

/// The explanation of a request. `Display` writes it for people.
#[derive(Clone, Copy, Debug)]
pub struct ExplanationReport<'a, 'r> {
    /// What was asked.
    pub request: &'a Request<'r>,
    /// What would be decided now, and why.
    pub explanation: &'a Explanation,
    /// Whether the values of the request are shown.
    pub values: Values,
    /// The denial that is explained, if there was one.
    pub denial: Option<PastDenial<'a>>,
    /// Whether the keys' states are those of the service. If not, each key is as if it was never
    /// used.
    pub has_states: bool,
}

/// A denial that was kept by its id.
#[derive(Clone, Copy, Debug)]
pub struct PastDenial<'a> {
    /// The request that was denied.
    pub denied: &'a DeniedRequest,
    /// How long ago.
    pub ago: Span,
}

/// One descriptor of a report.
struct Part<'a, 'r> {
    descriptor: &'a tollgate_core::Descriptor<'r>,
    walk: &'a Walk,
    finding: &'a Finding,
    status: &'a Status,
    /// If the store has no answer: this instance's share of the limit, if it decides on that.
    fallback: Option<Option<&'a Limit>>,
}

// === impl ExplanationReport ===

impl<'a, 'r> ExplanationReport<'a, 'r> {
    /// Each descriptor with its search, what was found, and what came of it.
    fn parts(&self) -> impl Iterator<Item = Part<'a, 'r>> {
        let Explanation {
            findings,
            answer,
            shares,
            ..
        } = self.explanation;
        let descriptors = self.request.descriptors.iter();
        let parts = descriptors.zip(findings).zip(&answer.statuses).enumerate();
        parts.map(|(index, ((descriptor, (walk, finding)), status))| {
            let share = |shares: &'a Vec<Option<Limit>>| shares.get(index)?.as_ref();
            Part {
                descriptor,
                walk,
                finding,
                status,
                fallback: shares.as_ref().map(share),
            }
        })
    }
}

// === impl Values ===

impl Values {
    /// A value of the request, if it may be shown.
    fn show(self, value: &[u8]) -> Option<&[u8]> {
        (self == Values::Show).then_some(value)
    }
}

/// A descriptor of the rules: `user: a*`, or `user`.
fn written(descriptor: &RuleDescriptor) -> String {
    match &descriptor.value {
        Some(value) => format!("{}: {value}", descriptor.key),
        None => descriptor.key.to_string(),
    }
}

fn place(descriptor: &RuleDescriptor) -> String {
    format!("{}:{}", descriptor.file, descriptor.line)
}

#[cfg(test)]
mod tests;
