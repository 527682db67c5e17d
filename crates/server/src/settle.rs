//! `/v1/settle`: its requests and its responses.

use axum::response::Response;
use http::StatusCode;
use serde::Deserialize;
use serde_json::{Value, json};
use tollgate_core::COST_MAX;
use tollgate_engine::{ReservationId, SettleError, SettledLimit};

use crate::reply::{Failure, json as reply_json, read_object};
use crate::whole_number::read_units;

/// The body of a request.
#[derive(Debug, Deserialize, PartialEq, Eq)]
#[serde(deny_unknown_fields)]
pub(crate) struct Settle {
    reservation: String,
    /// The units that the request really consumed.
    #[serde(deserialize_with = "read_units")]
    cost: u64,
}

/// What is to be settled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ActualCost {
    pub(crate) id: ReservationId,
    pub(crate) units: u64,
}

// === impl Settle ===

impl Settle {
    pub(crate) fn read(body: &[u8]) -> Result<Settle, Failure> {
        let example = r#"{"reservation": "00112233445566778899aabbccddeeff", "cost": 120}"#;
        read_object(body, example)
    }

    /// The reservation and its cost, within the bounds of a request.
    pub(crate) fn actual_cost(&self) -> Result<ActualCost, Failure> {
        let invalid = |error| Failure::bad_request(format!("`reservation`: {error}"));
        let id = self.reservation.parse().map_err(invalid)?;
        let units = self.cost;
        if units > COST_MAX {
            let detail = format!("a cost of {units}; {COST_MAX} is the most");
            return Err(Failure::bad_request(detail));
        }
        Ok(ActualCost { id, units })
    }
}

/// The response: what each limit was charged.
pub(crate) fn settlement(id: ReservationId, settled: &[SettledLimit]) -> Response {
    let limits: Vec<Value> = settled.iter().map(limit_json).collect();
    let body = json!({"reservation": id.to_string(), "limits": limits});
    reply_json(StatusCode::OK, &body)
}

/// One limit of the response; `openapi.json` documents the members.
fn limit_json(settled: &SettledLimit) -> Value {
    let mut entry = json!({
        "rule": settled.rule.path,
        "reserved": settled.reserved,
    });
    if let Some(name) = &settled.rule.name {
        entry["name"] = json!(name);
    }
    match settled.settlement {
        Some(settlement) => {
            entry["outcome"] = json!("settled");
            entry["charged"] = json!(settlement.charged);
            entry["remaining"] = json!(settlement.remaining);
        }
        None => entry["outcome"] = json!("no_limit"),
    }
    entry
}

impl From<SettleError> for Failure {
    fn from(error: SettleError) -> Failure {
        match error {
            SettleError::Store(error) => Failure::from(error),
            error => {
                let status = StatusCode::NOT_FOUND;
                Failure::new("unknown_reservation", status, error.to_string())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    const ID: &str = "00112233445566778899aabbccddeeff";

    fn read(body: &str) -> Result<ActualCost, String> {
        let settle = Settle::read(body.as_bytes());
        let cost = settle.and_then(|settle| settle.actual_cost());
        cost.map_err(|failure| failure.problem.detail)
    }

    #[test]
    fn a_reservation_and_its_cost_are_read() {
        for units in [0, 7, COST_MAX] {
            let body = format!(r#"{{"reservation":"{ID}","cost":{units}}}"#);
            let id = ID.parse().unwrap();
            assert_eq!(read(&body), Ok(ActualCost { id, units }));
        }
    }

    #[test]
    fn what_cannot_be_settled_is_reported() {
        for (body, expected) in [
            (String::new(), "EOF"),
            (format!(r#"["{ID}", 1]"#), "is a list"),
            (
                format!(r#"{{"reservation":"{ID}"}}"#),
                "missing field `cost`",
            ),
            (r#"{"cost":1}"#.to_owned(), "missing field `reservation`"),
            (
                format!(r#"{{"reservation":"{ID}","cost":-1}}"#),
                "a whole number",
            ),
            (
                format!(r#"{{"reservation":"{ID}","cost":1.5}}"#),
                "a whole number",
            ),
            (
                format!(r#"{{"reservation":"{ID}","cost":1,"cost":2}}"#),
                "duplicate field `cost`",
            ),
            (
                format!(r#"{{"reservation":"{ID}","cost":4294967296}}"#),
                "4294967295 is the most",
            ),
            (
                r#"{"reservation":"abc","cost":1}"#.to_owned(),
                "32 hexadecimal digits",
            ),
            (
                format!(r#"{{"reservation":"{}","cost":1}}"#, ID.to_uppercase()),
                "in lower case",
            ),
        ] {
            let detail = read(&body).unwrap_err();
            assert!(detail.contains(expected), "{body}: {detail}");
        }
    }
}
