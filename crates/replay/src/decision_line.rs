//! One decision as a line of JSON.

use std::io::{self, Write};

use serde::Serialize;
use serde_json::value::RawValue;
use serde_json::{Map, Value};
use tollgate_core::{Answer, Moment, Span, Wait};

use crate::timestamp::Seconds;
use crate::traffic::Place;

/// The response of the rate limit service in the JSON of proto3, and what it does not tell.
///
/// Spans beside the response are seconds with as many decimals as they need: `0.8s`.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct DecisionLine<'a> {
    /// The line of the event in its input, from 1.
    line: u32,
    /// The input, if there are several.
    #[serde(skip_serializing_if = "Option::is_none")]
    file: Option<&'a str>,
    /// Seconds since 1970, exact.
    at: Box<RawValue>,
    allowed: bool,
    /// In a refusal: how long until the same request is admitted if nobody else comes, or `never`.
    #[serde(skip_serializing_if = "Option::is_none")]
    retry_after: Option<String>,
    /// How long a leaky bucket would have the request held, if at all.
    #[serde(skip_serializing_if = "Option::is_none")]
    delay: Option<String>,
    /// Whether the request passed in the soft part of a limit.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    over_soft: bool,
    /// In a refusal: the rule that refused, by its name, or else by its place in the file.
    #[serde(skip_serializing_if = "Option::is_none")]
    denied_by: Option<&'a str>,
    #[serde(flatten)]
    response: Map<String, Value>,
}

// === impl DecisionLine ===

impl<'a> DecisionLine<'a> {
    pub(crate) fn new(place: Place<'a>, at: Moment, answer: &'a Answer) -> DecisionLine<'a> {
        let at = RawValue::from_string(Seconds(at.as_nanos()).to_string());
        DecisionLine {
            line: place.line,
            file: place.input,
            at: at.expect("digits and a point are a JSON number"),
            allowed: answer.is_admitted(),
            retry_after: answer.refused.map(|refused| match refused.wait {
                Wait::For(wait) => span(wait),
                Wait::Never => "never".to_owned(),
            }),
            delay: (!answer.delay.is_zero()).then(|| span(answer.delay)),
            over_soft: answer.is_over_soft(),
            denied_by: answer.refused_by().map(|limited| limited.rule.shown()),
            response: tollgate_rls::json(&tollgate_rls::response(answer)),
        }
    }

    pub(crate) fn write(&self, out: &mut dyn Write) -> io::Result<()> {
        // At once: a line is some fifty pieces.
        let mut line = serde_json::to_vec(self)?;
        line.push(b'\n');
        out.write_all(&line)
    }
}

fn span(span: Span) -> String {
    format!("{}s", Seconds(span.as_nanos()))
}
