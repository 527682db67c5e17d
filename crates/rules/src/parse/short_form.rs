//! A limit in short form: `100/minute`, `5 per 15m`.

use std::sync::Arc;

use tollgate_core::Limit;

use crate::findings::Mark;
use crate::section::Section;
use crate::window::{self, Bad};
use crate::yaml::Node;

use super::Reader;

const SHORT_FORM_HELP: &str = "write `rate_limit: 100/minute`, `5 per 15m`, or a map with \
                               `requests_per_unit` and `unit`";
const SECOND_LIMIT_HELP: &str = "a descriptor has one limit: for another one, add a descriptor \
                                 with a second key, and send both descriptors";

// === impl Reader ===

impl Reader<'_> {
    /// The limit of a short form.
    pub(super) fn short_form(&mut self, text: &str, mark: Mark) -> Option<Limit> {
        let (count, window) = match window::short_form(text) {
            Ok(parts) => parts,
            Err(bad) => {
                let message = bad.message(text, self.findings);
                self.findings.error(
                    mark,
                    "short-form",
                    message,
                    short_form_help(text, &self.findings.short(text), &bad),
                );
                return None;
            }
        };
        self.validate(Limit::fixed_window(count, window), mark)
    }

    /// Reports a list in place of a limit.
    pub(super) fn report_limits(&mut self, mark: Mark, items: &[Arc<Node>]) {
        let message = "`rate_limit` is one limit, and this is a list".to_owned();
        let help = match items {
            [one] => match one.scalar() {
                Some(scalar) if window::short_form(&scalar.text).is_ok() => {
                    format!("write `rate_limit: {}`", self.findings.short(&scalar.text))
                }
                _ => SHORT_FORM_HELP.to_owned(),
            },
            _ => SECOND_LIMIT_HELP.to_owned(),
        };
        self.findings.error(mark, "type", message, help);
    }
}

/// What to write in place of a text that is not a short form, and that help texts quote as `shown`.
fn short_form_help(text: &str, shown: &str, bad: &Bad) -> String {
    let words = [
        "unlimited",
        "none",
        "off",
        "no",
        "false",
        "disabled",
        "infinite",
        "never",
    ];
    let limits = text.split([',', ';', ' ']).filter(|part| !part.is_empty());
    let is_limit = |part: &str| window::short_form(part).is_ok();
    if let Some(form) = window::meant_short_form(text) {
        return format!("did you mean `rate_limit: {form}`?");
    }
    match bad {
        Bad::NoWindow => {
            let count = shown.trim_end_matches(['/', ' ']);
            format!("write its window as well: `rate_limit: {count}/second`, or `{count} per 15m`")
        }
        Bad::NoPer if words.contains(&text.to_lowercase().as_str()) => {
            "write `rate_limit: {unlimited: true}`, or leave out `rate_limit`".to_owned()
        }
        Bad::Count if text.split(['/', ' ']).next().is_some_and(is_fraction) => {
            "write a whole number and a window to match: 1.5 per minute is `rate_limit: 3/2m`"
                .to_owned()
        }
        Bad::NoUnit if window::short_form(&format!("{text}s")).is_ok() => {
            format!("for seconds, write `rate_limit: {shown}s`")
        }
        _ if text.contains("burst") => {
            "other parameters go in a map: `rate_limit: {requests_per_unit: 5, unit: second, \
             algorithm: token_bucket, burst: 10}`"
                .to_owned()
        }
        _ if text
            .split_once(':')
            .is_some_and(|(key, _)| Section::RateLimit.field(key).is_some()) =>
        {
            "write a space after each colon, one key a line".to_owned()
        }
        _ if limits.clone().count() > 1 && limits.clone().all(is_limit) => {
            SECOND_LIMIT_HELP.to_owned()
        }
        _ => bad.help().unwrap_or_else(|| SHORT_FORM_HELP.to_owned()),
    }
}

fn is_fraction(text: &str) -> bool {
    text.contains('.')
        && text
            .bytes()
            .all(|byte| byte.is_ascii_digit() || byte == b'.')
}
