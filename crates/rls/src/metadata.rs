//! What Envoy's filters after the rate limit are told about a request.

use pbjson_types::Struct;
use serde_json::{Map, Value, json};
use tollgate_core::{Escaped, Request};

/// The `dynamic_metadata` of a response, as Envoy's service has it: the domain, what was asked, and
/// `metadata` of the rules if there is any.
///
/// The values of the descriptors are in it: it goes to whoever asked, and to nobody else.
pub fn metadata(request: &Request<'_>, metadata: &Map<String, Value>) -> Struct {
    let descriptors = request.descriptors.iter().map(|descriptor| {
        let entries = descriptor.entries.iter();
        let entries: Vec<String> = entries
            .map(|entry| format!("{}={}", Escaped(entry.key), Escaped(entry.value)))
            .collect();
        let mut told = json!({ "entries": entries });
        if let Some(cost) = descriptor.cost {
            told["hitsAddend"] = json!(cost.units());
        }
        if let Some(limit) = descriptor.limit {
            told["limit"] = json!({
                "requestsPerUnit": limit.count,
                "window": limit.window.to_string(),
            });
        }
        told
    });
    let descriptors: Vec<Value> = descriptors.collect();
    let mut told = json!({
        "domain": Escaped(request.domain).to_string(),
        "descriptors": descriptors,
        "hitsAddend": request.cost.units(),
    });
    if !metadata.is_empty() {
        told["metadata"] = Value::Object(metadata.clone());
    }
    serde_json::from_value(told).expect("a JSON object is a Struct")
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use tollgate_core::{ChargeDenied, Cost, Descriptor, Entry};

    use super::*;

    #[test]
    fn the_request_and_the_rules_metadata_are_told() {
        let entry = Entry {
            key: b"user",
            value: b"an\xff",
        };
        let request = Request {
            domain: b"shop",
            descriptors: vec![Descriptor {
                entries: vec![entry],
                is_unordered: false,
                cost: Some(Cost::Take(3)),
                limit: None,
            }],
            cost: Cost::ONE,
            charge_denied: ChargeDenied::Never,
        };
        let of_rules = json!({"tier": "gold", "deep": {"flag": true, "none": null}});
        let told = metadata(&request, of_rules.as_object().unwrap());
        let expected = json!({
            "domain": "shop",
            "descriptors": [{"entries": ["user=an\\xff"], "hitsAddend": 3.0}],
            "hitsAddend": 1.0,
            "metadata": of_rules,
        });
        assert_eq!(serde_json::to_value(told).unwrap(), expected);
    }
}
