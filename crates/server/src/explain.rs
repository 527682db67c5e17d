//! `GET /v1/explain`: why a request would be allowed or denied now.

use std::collections::HashSet;
use std::num::{IntErrorKind, ParseIntError};

use axum::response::Response;
use http::header::ACCEPT;
use http::{HeaderMap, StatusCode};
use tollgate_core::{COST_MAX, ChargeDenied, Cost, Descriptor, Request};
use tollgate_engine::{DENIED_REQUEST_BYTES_MAX, DENIED_REQUEST_KEPT, Engine};

use crate::descriptor_text::DescriptorText;
use crate::explanation::{ExplanationReport, PastDenial, Values};
use crate::options::Options;
use crate::reply::{Failure, json, reply};

/// A query that works, for errors.
const EXAMPLE: &str = "?domain=shop&descriptor=user%3Dann,path%3D/x";

/// What the query asks about.
#[derive(Debug, Default, PartialEq, Eq)]
struct Question {
    domain: String,
    descriptors: Vec<DescriptorText>,
    cost: Option<u64>,
    any_order: bool,
}

/// Answers with an explanation, as text if the client asks for `text/plain`, otherwise as JSON.
pub(crate) async fn explain(
    engine: &Engine,
    query: &str,
    headers: &HeaderMap,
    options: Options,
) -> Result<Response, Failure> {
    if let Some(id) = query_id(query).map_err(Failure::bad_request)? {
        return explain_denial(engine, &id, headers, options).await;
    }
    let question = Question::read(query).map_err(Failure::bad_request)?;
    let request = question.request();
    request.check_bounds()?;
    let explanation = engine.explain(&request).await?;
    let report = ExplanationReport {
        request: &request,
        explanation: &explanation,
        // They came with this request.
        values: Values::Show,
        denial: None,
        has_states: true,
    };
    Ok(respond(&report, headers))
}

/// Explains the latest denied request with this id, as it would be decided now.
async fn explain_denial(
    engine: &Engine,
    id: &str,
    headers: &HeaderMap,
    options: Options,
) -> Result<Response, Failure> {
    let Some((denied, ago)) = engine.find_denials(id).into_iter().next() else {
        let detail = format!(
            "no denied request with this id is kept; one is for at most {DENIED_REQUEST_KEPT}, \
             while it is among the latest, if it has at most {DENIED_REQUEST_BYTES_MAX} bytes"
        );
        return Err(Failure::new("not_found", StatusCode::NOT_FOUND, detail));
    };
    let request = denied.request();
    let explanation = engine.explain(&request).await?;
    let report = ExplanationReport {
        request: &request,
        explanation: &explanation,
        values: match options.show_values {
            true => Values::Show,
            false => Values::Hide,
        },
        denial: Some(PastDenial {
            denied: &denied,
            ago,
        }),
        has_states: true,
    };
    Ok(respond(&report, headers))
}

/// The parameter `request_id`, which is the only one if it is there.
fn query_id(query: &str) -> Result<Option<String>, String> {
    let mut parameters = form_urlencoded::parse(query.as_bytes());
    let Some((_, id)) = parameters.find(|(name, _)| name == "request_id") else {
        return Ok(None);
    };
    match form_urlencoded::parse(query.as_bytes()).count() {
        1 => Ok(Some(id.into_owned())),
        _ => Err("`request_id` with another parameter; it names the whole request".to_owned()),
    }
}

fn respond(report: &ExplanationReport<'_, '_>, headers: &HeaderMap) -> Response {
    let mut accepted = headers.get_all(ACCEPT).into_iter();
    let is_text = accepted.any(|accept| {
        let accept = String::from_utf8_lossy(accept.as_bytes()).to_ascii_lowercase();
        accept.contains("text/plain")
    });
    match is_text {
        true => reply(
            StatusCode::OK,
            "text/plain; charset=utf-8",
            report.to_string(),
        ),
        false => json(StatusCode::OK, &report.to_json()),
    }
}

// === impl Question ===

impl Question {
    /// Reads a query; the error says what is wrong with it and what to write.
    fn read(query: &str) -> Result<Question, String> {
        let mut question = Question::default();
        let mut given = HashSet::new();
        for (name, value) in form_urlencoded::parse(query.as_bytes()) {
            if value.contains(char::REPLACEMENT_CHARACTER) {
                return Err(format!("`{name}` is not UTF-8"));
            }
            if name != "descriptor" && !given.insert(name.clone()) {
                return Err(format!("`{name}` is given twice; leave out one of them"));
            }
            match &*name {
                "domain" => question.domain = value.into_owned(),
                "descriptor" => {
                    let descriptor = value.parse::<DescriptorText>();
                    let invalid = |invalid| format!("descriptor: {invalid}");
                    question.descriptors.push(descriptor.map_err(invalid)?);
                }
                "cost" => {
                    let invalid = |error: ParseIntError| match error.kind() {
                        IntErrorKind::PosOverflow => {
                            format!("a cost of {value}; {COST_MAX} is the most")
                        }
                        _ => format!("`cost={value}` is not a whole number"),
                    };
                    question.cost = Some(value.parse().map_err(invalid)?);
                }
                "any_order" => match &*value {
                    "true" | "false" => question.any_order = value == "true",
                    _ => return Err("`any_order` is `true` or `false`".to_owned()),
                },
                _ => {
                    return Err(format!(
                        "there is no parameter `{name}`; there are domain, descriptor, cost, \
                         any_order and request_id, as in {EXAMPLE}"
                    ));
                }
            }
        }
        if question.domain.is_empty() || question.descriptors.is_empty() {
            return Err(format!(
                "`domain` and at least one `descriptor` are needed, as in {EXAMPLE}"
            ));
        }
        Ok(question)
    }

    fn request(&self) -> Request<'_> {
        let descriptors = self.descriptors.iter().map(|text| Descriptor {
            entries: text.entries(),
            is_unordered: self.any_order,
            ..Descriptor::default()
        });
        Request {
            domain: self.domain.as_bytes(),
            descriptors: descriptors.collect(),
            cost: Cost::Peek(self.cost.unwrap_or(1)),
            charge_denied: ChargeDenied::Never,
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn a_query_is_read_with_its_escapes() {
        let question = Question::read(
            "domain=a%26b&descriptor=user%3Da%2520b%2Cpath%3D%2Fx+y&descriptor=k%3D&cost=3\
             &any_order=true",
        );
        let question = question.unwrap();
        let request = question.request();
        assert_eq!(request.domain, b"a&b");
        let values = request.descriptors.iter().flat_map(|one| &one.entries);
        let values: Vec<&[u8]> = values.map(|entry| entry.value).collect();
        assert_eq!(values, [&b"a%20b"[..], b"/x y", b""]);
        assert_eq!(request.cost, Cost::Peek(3));
        assert!(request.descriptors.iter().all(|one| one.is_unordered));
    }

    #[test]
    fn what_is_missing_or_unknown_is_named() {
        let table = [
            ("", "`domain` and at least one `descriptor`"),
            ("domain=d", "at least one `descriptor`"),
            ("descriptor=a%3Db", "`domain`"),
            (
                "domain=d&descriptor=a",
                "descriptor: `a` is not a valid entry",
            ),
            (
                "domain=d&descriptor=a%3Db&cost=-1",
                "`cost=-1` is not a whole number",
            ),
            (
                "domain=d&descriptor=a%3Db&cost=99999999999999999999",
                "a cost of 99999999999999999999; 4294967295 is the most",
            ),
            ("domain=d&descriptor=a%3Db&any_order=1", "`any_order` is"),
            ("domain=d&descriptors=a%3Db", "no parameter `descriptors`"),
            ("domain=d&descriptor=a%3D%ff", "`descriptor` is not UTF-8"),
            (
                "domain=d&descriptor=a%3Db&domain=e",
                "`domain` is given twice",
            ),
            (
                "domain=d&descriptor=a%3Db&cost=1&cost=9",
                "`cost` is given twice",
            ),
        ];
        for (query, expected) in table {
            let problem = Question::read(query).unwrap_err();
            assert!(problem.contains(expected), "{query}: {problem}");
        }
    }
}
