//! A body of `/v1/check` of arbitrary bytes: one check, or a list of them.

use serde_json::{Value, json};
use tollgate_core::{Cost, Request};

/// Parses the input as a body, writes the request in the long form, and parses that.
///
/// # Panics
///
/// If parsing panics, if the second request differs from the first, or if an error is not reported
/// as the client's.
pub fn check(input: &[u8]) {
    match tollgate_server::fuzzed::check(input, written) {
        Ok(document) => {
            let text = document.to_string();
            let again = tollgate_server::fuzzed::check(text.as_bytes(), written);
            assert_eq!(again, Ok(document), "{text}");
        }
        Err(problem) => assert_is_the_clients(&problem),
    }
}

/// Parses the input as a list of checks, writes the requests in the long form, and parses those: as
/// a list, and each by itself.
///
/// # Panics
///
/// If parsing panics, if the second requests differ from the first, or if an error is not reported
/// as the client's.
pub fn checks(input: &[u8]) {
    match tollgate_server::fuzzed::checks(input, written) {
        Ok(documents) => {
            let text = Value::Array(documents.clone()).to_string();
            let again = tollgate_server::fuzzed::checks(text.as_bytes(), written);
            assert_eq!(again.as_ref(), Ok(&documents), "{text}");
            for document in documents {
                let text = document.to_string();
                let alone = tollgate_server::fuzzed::check(text.as_bytes(), written);
                assert_eq!(alone, Ok(document), "{text}");
            }
        }
        Err(problem) => assert_is_the_clients(&problem),
    }
}

fn assert_is_the_clients(problem: &Value) {
    assert_eq!(problem["status"], 400, "{problem}");
    let detail = problem["detail"].as_str();
    assert!(detail.is_some_and(|detail| !detail.is_empty()), "{problem}");
}

fn written(request: &Request<'_>) -> Value {
    let (cost, peek) = match request.cost {
        Cost::Take(units) => (to_signed(units), false),
        Cost::Peek(units) => (to_signed(units), true),
        Cost::Refund(units) => (-to_signed(units), false),
    };
    let descriptors = request.descriptors.iter().map(|descriptor| {
        let entries = descriptor.entries.iter();
        let entries =
            entries.map(|entry| json!({"key": text(entry.key), "value": text(entry.value)}));
        json!({"entries": entries.collect::<Value>()})
    });
    json!({
        "domain": text(request.domain),
        "descriptors": descriptors.collect::<Value>(),
        "cost": cost,
        "peek": peek,
    })
}

/// JSON's strings become UTF-8.
fn text(bytes: &[u8]) -> &str {
    str::from_utf8(bytes).expect("JSON is UTF-8")
}

fn to_signed(units: u64) -> i64 {
    i64::try_from(units).expect("a cost in JSON has a sign, and is bounded far below")
}
