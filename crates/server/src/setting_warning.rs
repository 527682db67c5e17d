//! Warnings about settings that are valid on their own, and do not fit to the rules.

use tollgate_backends::BACKENDS;
use tollgate_rules::{Diagnostic, RuleSet, SettingPlaces, Source, nearest};

use crate::config::hide_secrets;

/// A warning about a setting.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct SettingWarning {
    /// Where it is: `gateway.routes[1].domain`.
    pub path: String,
    /// A short, stable name for this kind of warning.
    pub code: &'static str,
    /// What is wrong.
    pub message: String,
    /// What to write instead.
    pub help: String,
}

// === impl SettingWarning ===

impl SettingWarning {
    /// That there are no rules for the domain that a setting names.
    pub fn no_rules(path: String, domain: &str, message: String, rules: &RuleSet) -> Self {
        let known: Vec<&str> = rules.domains().collect();
        let help = match nearest(domain, &known) {
            Some(meant) => format!("did you mean `{meant}`?"),
            None if known.is_empty() => format!("write rules with `domain: {domain}`"),
            None => format!("the rules have the domains `{}`", known.join("`, `")),
        };
        SettingWarning {
            path,
            code: "no-rules",
            message,
            help,
        }
    }

    /// That the rules of the domain that a setting names have errors. `asks` says who names it;
    /// `rules` are those without errors.
    pub(crate) fn broken_rules(path: String, asks: &str, rules: &RuleSet) -> Self {
        let effect = match rules.is_empty() {
            true => "does not start",
            false => "that starts with them allows everything",
        };
        SettingWarning {
            path,
            code: "no-rules",
            message: format!("{asks}, whose rules have errors: a service {effect}"),
            help: "correct the errors below".to_owned(),
        }
    }

    /// These warnings at their places in the settings file, whose lines that may have a password
    /// are not shown.
    pub fn locate(warnings: impl IntoIterator<Item = Self>, source: &Source) -> Vec<Diagnostic> {
        let places = SettingPlaces::new(source);
        let located = warnings.into_iter().map(|warning| {
            let SettingWarning {
                path,
                code,
                message,
                help,
            } = warning;
            places.warning(&path, code, message, help)
        });
        let mut located: Vec<Diagnostic> = located.collect();
        hide_secrets(&mut located, &source.text, BACKENDS);
        located.sort_by_key(|found| (found.line, found.column));
        located
    }
}
