//! The JSON Schema of rules files, for editors.

use serde_json::{Map, Value, json};

use crate::place::{Form, PLACES, Place};

/// The schema of one document of a rules file, in JSON Schema's draft 2020-12.
///
/// Made from the table of keys that the parser reads, so the two agree on which key stands where
/// and what it takes. What a schema cannot say (which keys go with which algorithm, wildcards,
/// duplicates) the parser alone knows.
pub fn schema() -> Value {
    let places = PLACES.into_iter();
    let defs: Map<String, Value> = places
        .map(|place| (name(place).to_owned(), map(place)))
        .collect();
    json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Tollgate rules",
        "$ref": format!("#/$defs/{}", name(Place::Domain)),
        "$defs": defs,
    })
}

fn map(place: Place) -> Value {
    let fields = place.fields().filter(|field| field.form != Form::Reserved);
    let properties: Map<String, Value> = fields
        .map(|field| {
            let mut value = form(field.form);
            value["description"] = field.about.into();
            (field.key.to_owned(), value)
        })
        .collect();
    let mut map = json!({
        "type": "object",
        "properties": properties,
        "additionalProperties": false,
    });
    match place {
        Place::Domain => map["required"] = json!(["domain"]),
        Place::Descriptor => map["required"] = json!(["key"]),
        Place::Replaces => map["required"] = json!(["name"]),
        Place::RateLimit => map["oneOf"] = rate_limit(),
    }
    map
}

/// What a `rate_limit` must have: a count and one of two windows, or `unlimited`.
fn rate_limit() -> Value {
    json!([
        { "required": ["requests_per_unit", "unit"], "not": unlimited() },
        { "required": ["requests_per_unit", "window"], "not": unlimited() },
        {
            "required": ["unlimited"],
            "properties": { "unlimited": { "const": true }, "unit": false, "window": false },
        },
    ])
}

fn unlimited() -> Value {
    json!({ "required": ["unlimited"], "properties": { "unlimited": { "const": true } } })
}

fn form(form: Form) -> Value {
    match form {
        Form::Text => json!({ "type": ["string", "integer", "boolean"] }),
        Form::Flag => json!({ "type": "boolean" }),
        Form::Count(min, max) => json!({ "type": "integer", "minimum": min, "maximum": max }),
        Form::Unit(words) => json!({ "anyOf": [
            { "enum": words },
            { "type": "string", "pattern": any_case(words) },
        ] }),
        Form::Choice(words) => json!({ "enum": words }),
        Form::Window => json!({ "type": "string", "pattern": "^([0-9]+(ns|us|ms|s|m|h|d|w))+$" }),
        Form::Percent => json!({ "type": "string", "pattern": "^[0-9]+%$" }),
        Form::List(place) => json!({ "type": "array", "items": reference(place) }),
        Form::RateLimit => json!({ "anyOf": [
            { "type": "string", "pattern": "^[0-9]+( *(/| per ) *)[0-9a-zA-Z]+$" },
            reference(Place::RateLimit),
        ] }),
        Form::Free => json!({ "type": "object" }),
        Form::Reserved => json!(false),
    }
}

fn reference(place: Place) -> Value {
    json!({ "$ref": format!("#/$defs/{}", name(place)) })
}

/// Words in any case, in the regular expressions that JSON Schema has.
fn any_case(words: &[&str]) -> String {
    let words: Vec<String> = words
        .iter()
        .map(|word| {
            let letters = word.chars();
            let letters = letters.map(|c| format!("[{c}{}]", c.to_ascii_uppercase()));
            letters.collect()
        })
        .collect();
    format!("^({})$", words.join("|"))
}

const fn name(place: Place) -> &'static str {
    match place {
        Place::Domain => "domain",
        Place::Descriptor => "descriptor",
        Place::RateLimit => "rate_limit",
        Place::Replaces => "replaces",
    }
}

#[cfg(test)]
mod tests;
