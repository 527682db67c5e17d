//! The dynamic metadata of a request, for Envoy's filters after the rate limit.

use pbjson_types::Struct;
use serde_json::{Map, Value, json};
use tollgate_core::{Escaped, Request};

/// The `dynamic_metadata` of a response, as Envoy's service has it: the domain, what was asked, and
/// `metadata` of the rules if there is any.
///
/// It contains the values of the descriptors: return it to the caller only.
pub fn metadata(request: &Request<'_>, metadata: &Map<String, Value>) -> Struct {
    let descriptors = request.descriptors.iter().map(|descriptor| {
        let entries = descriptor.entries.iter();
        let entries: Vec<String> = entries
            .map(|entry| format!("{}={}", Escaped(entry.key), Escaped(entry.value)))
            .collect();
        let mut fields = json!({ "entries": entries });
        if let Some(cost) = descriptor.cost {
            fields["hitsAddend"] = json!(cost.units());
        }
        if let Some(limit) = descriptor.limit {
            fields["limit"] = json!({
                "requestsPerUnit": limit.count,
                "window": limit.window.to_string(),
            });
        }
        fields
    });
    let descriptors: Vec<Value> = descriptors.collect();
    let mut fields = json!({
        "domain": Escaped(request.domain).to_string(),
        "descriptors": descriptors,
        "hitsAddend": request.cost.units(),
    });
    if !metadata.is_empty() {
        fields["metadata"] = Value::Object(metadata.clone());
    }
    serde_json::from_value(fields).expect("a JSON object is a Struct")
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use tollgate_core::{ChargeDenied, Cost, Descriptor, Entry};

    use super::*;

    #[test]
    fn the_metadata_has_the_request_and_that_of_the_rules() {
        let entry = Entry {
            key: b"user",
            value: b"an\xff",
        };
        let request = Request {
            domain: b"shop",
            descriptors: vec![Descriptor {
                entries: vec![entry].into(),
                is_unordered: false,
                cost: Some(Cost::Take(3)),
                limit: None,
            }]
            .into(),
            cost: Cost::ONE,
            charge_denied: ChargeDenied::Never,
        };
        let of_rules = json!({"tier": "gold", "deep": {"flag": true, "none": null}});
        let metadata = metadata(&request, of_rules.as_object().unwrap());
        let expected = json!({
            "domain": "shop",
            "descriptors": [{"entries": ["user=an\\xff"], "hitsAddend": 3.0}],
            "hitsAddend": 1.0,
            "metadata": of_rules,
        });
        assert_eq!(serde_json::to_value(metadata).unwrap(), expected);
    }
}
