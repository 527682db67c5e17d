//! `/v1/headroom`: reports of headroom, and those that have not expired.

use axum::response::Response;
use http::StatusCode;
use serde::Deserialize;
use serde_json::{Value, json};
use tollgate_core::Span;
use tollgate_engine::{Engine, HeadroomError};
use tollgate_rules::RuleView;

use crate::reply::{Failure, json as reply_json, read_object};

/// A body that works, for errors.
const EXAMPLE: &str = r#"{"domain": "shop", "headroom": true, "expires_in": "30s"}"#;

/// The body of a report.
#[derive(Debug, Deserialize, PartialEq, Eq)]
#[serde(deny_unknown_fields)]
struct Report {
    domain: String,
    headroom: bool,
    expires_in: String,
}

/// Takes a report, and answers with all that have not expired.
pub(crate) fn report(engine: &Engine, body: &[u8]) -> Result<Response, Failure> {
    let report: Report = read_object(body, EXAMPLE)?;
    let expires_in = report.expires_in.parse::<Span>().map_err(|error| {
        Failure::bad_request(format!("`expires_in`: {error}; write \"30s\" or \"5m\""))
    })?;
    engine
        .report_headroom(&report.domain, report.headroom, expires_in)
        .map_err(Failure::from)?;
    Ok(reports(engine))
}

/// The reports that have not expired, and what each elastic rule allows now.
pub(crate) fn reports(engine: &Engine) -> Response {
    let reports: Vec<Value> = engine
        .headroom_reports()
        .iter()
        .map(|report| {
            json!({
                "domain": &*report.domain,
                "headroom": report.has_headroom,
                "expiresIn": report.expires_in.to_string(),
            })
        })
        .collect();
    let rules: Vec<Value> = engine
        .elastic_rules()
        .iter()
        .map(|view| {
            json!({
                "domain": view.rule.domain,
                "rule": view.rule.path,
                "text": view.text,
                "headroom": view.has_headroom,
                "sources": sources(view),
                "available": view.available(),
            })
        })
        .collect();
    let body = json!({"reports": reports, "rules": rules});
    reply_json(StatusCode::OK, &body)
}

/// What has to report headroom for a rule, and whether each of them does.
pub(crate) fn sources(view: &RuleView) -> Value {
    let sources = view.sources.iter();
    let sources = sources.map(|(source, reports)| (source.to_string(), json!(reports)));
    Value::Object(sources.collect())
}

// === impl Failure ===

impl From<HeadroomError> for Failure {
    fn from(error: HeadroomError) -> Failure {
        let (kind, status) = match error {
            HeadroomError::UnknownDomain => ("unknown_domain", StatusCode::NOT_FOUND),
            HeadroomError::NothingElastic => ("nothing_elastic", StatusCode::CONFLICT),
            HeadroomError::Full => ("headroom_full", StatusCode::SERVICE_UNAVAILABLE),
            _ => return Failure::bad_request(format!("`expires_in`: {error}")),
        };
        Failure::new(kind, status, error.to_string())
    }
}
