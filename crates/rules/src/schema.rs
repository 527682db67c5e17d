//! The JSON Schema of rules files, for editors.

use serde_json::{Map, Value, json};
use tollgate_core::Span;

use crate::headroom::HeadroomSource;
use crate::section::{
    ALGORITHMS, BELONGS, CHARGE_DENIED, Form, NOT_IF_UNLIMITED, SECTIONS, Section,
};

/// A short unit, as in `15m`.
const UNIT: &str = "(ns|us|ms|s|m|h|d|w)";
/// A length of time above 0: in one of its parts is another digit than 0.
const WINDOW: &str = "([0-9]+(ns|us|ms|s|m|h|d|w))*[0-9]*[1-9][0-9]*(ns|us|ms|s|m|h|d|w)\
    ([0-9]+(ns|us|ms|s|m|h|d|w))*";

/// The schema of one document of a rules file, in JSON Schema's draft 2020-12.
///
/// Made from the table of keys that the parser reads, so the two agree on which key stands where
/// and what it takes, and on which parameter goes with which algorithm. What a schema cannot say
/// (wildcards, duplicates, which rates an algorithm can keep) the parser alone knows.
pub fn schema() -> Value {
    let places = SECTIONS.into_iter();
    let defs: Map<String, Value> = places
        .map(|section| (name(section).to_owned(), map(section)))
        .collect();
    json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Tollgate rules",
        "$ref": format!("#/$defs/{}", name(Section::Domain)),
        "$defs": defs,
    })
}

/// The schema of a section's map.
fn map(section: Section) -> Value {
    let properties: Map<String, Value> = section
        .fields()
        .map(|field| {
            let mut value = form(field.form);
            // `check` warns of a key without a value.
            let may_be_empty = matches!(section, Section::Domain | Section::Descriptor);
            if may_be_empty && !necessary_keys(section).contains(&field.key) {
                allow_null(&mut value);
            }
            value["description"] = field.about.into();
            (field.key.to_owned(), value)
        })
        .collect();
    let mut map = json!({
        "type": "object",
        "properties": properties,
        "additionalProperties": false,
    });
    match section {
        Section::RateLimit => rate_limit(&mut map),
        _ => map["required"] = json!(necessary_keys(section)),
    }
    if section == Section::Descriptor {
        share_threshold(&mut map);
    }
    map
}

/// The keys that a section has in any case.
const fn necessary_keys(section: Section) -> &'static [&'static str] {
    match section {
        Section::Domain => &["domain"],
        Section::Descriptor => &["key"],
        Section::Replaces => &["name"],
        Section::PriorityShare => &["share", "for"],
        Section::Elastic => &["share", "while"],
        Section::RateLimit => &[],
    }
}

/// Allows a key that has no value.
fn allow_null(schema: &mut Value) {
    if let Some(values) = schema.get_mut("enum").and_then(Value::as_array_mut) {
        values.push(Value::Null);
    }
    match schema.get_mut("type") {
        Some(Value::Array(types)) => types.push("null".into()),
        Some(Value::String(only)) => schema["type"] = json!([only, "null"]),
        _ => {}
    }
}

/// One counter for several values needs a wildcard.
fn share_threshold(map: &mut Value) {
    map["if"] = json!({
        "required": ["share_threshold"],
        "properties": { "share_threshold": { "const": true } },
    });
    map["then"] = json!({
        "required": ["value"],
        "properties": { "value": { "type": "string", "pattern": "[*]" } },
    });
}

/// What goes with what in a `rate_limit`. Conditions in place of alternatives, so that an editor
/// names the one key that is wrong, and not every alternative that does not apply.
fn rate_limit(map: &mut Value) {
    map["if"] = json!({
        "required": ["unlimited"],
        "properties": { "unlimited": { "const": true } },
    });
    let without: Map<String, Value> = NOT_IF_UNLIMITED
        .iter()
        .map(|key| ((*key).to_owned(), json!(false)))
        .collect();
    map["then"] = json!({ "properties": without });
    map["else"] = json!({
        "required": ["requests_per_unit"],
        "if": { "required": ["window"] },
        "then": { "properties": { "unit": false } },
        "else": { "required": ["unit"] },
    });
    let mut demands: Map<String, Value> = BELONGS
        .iter()
        .map(|(key, algorithm)| ((*key).to_owned(), belongs_to(algorithm)))
        .collect();
    let soft = json!({ "properties": { "elastic": false } });
    demands.insert("soft".to_owned(), soft);
    map["else"]["dependentSchemas"] = demands.into();
}

/// What a parameter of one algorithm requires of its limit.
fn belongs_to(algorithm: &str) -> Value {
    let mut demand = json!({ "properties": { "algorithm": { "const": algorithm } } });
    if algorithm != ALGORITHMS[0] {
        demand["required"] = json!(["algorithm"]);
    }
    demand
}

/// The schema of a key's value.
fn form(form: Form) -> Value {
    let text = json!({ "type": ["string", "integer", "boolean"] });
    let mut name = text.clone();
    name["minLength"] = 1.into();
    match form {
        Form::Text => text,
        Form::Name => name,
        Form::Flag => json!({ "type": "boolean" }),
        Form::Count(min, max) => json!({ "type": "integer", "minimum": min, "maximum": max }),
        // The names are listed for editors that complete them.
        Form::Unit(words) => json!({
            "type": "string",
            "pattern": format!("^({})$", any_case(words)),
            "examples": words,
        }),
        Form::Choice(words) => json!({ "enum": words }),
        Form::ChargeDenied => {
            let [never, excess, always] = CHARGE_DENIED;
            json!({ "enum": [never, excess, always, false, true] })
        }
        Form::Window => json!({ "type": "string", "pattern": format!("^{WINDOW}$") }),
        Form::Percent(min, max) => json!({ "type": "string", "pattern": percent(min, max) }),
        Form::List(section) => json!({ "type": "array", "items": reference(section) }),
        Form::Texts(most) => json!({
            "type": "array",
            "items": name,
            "minItems": 1,
            "maxItems": most,
        }),
        Form::HeadroomSources(most) => json!({
            "type": "array",
            "items": { "enum": HeadroomSource::ALL.map(HeadroomSource::as_str) },
            "minItems": 1,
            "maxItems": most,
        }),
        Form::Map(section) => reference(section),
        Form::RateLimit => json!({
            "type": ["string", "object"],
            "if": { "type": "object" },
            "then": reference(Section::RateLimit),
            "else": { "pattern": short_form() },
        }),
        Form::Free => json!({ "type": "object" }),
    }
}

fn reference(section: Section) -> Value {
    json!({ "$ref": format!("#/$defs/{}", name(section)) })
}

/// Percentages from 0 or 1 up to `max`, zeros before them allowed.
fn percent(min: u32, max: u32) -> String {
    let numbers = up_to(max);
    let numbers = match min {
        0 => numbers.as_str(),
        _ => numbers.trim_start_matches("0|"),
    };
    format!("^0*({numbers})%$")
}

/// `100/minute`, `5 per 15m`, `10/s`.
fn short_form() -> String {
    let units = any_case(&Span::UNITS.map(|(unit, _)| unit));
    format!(
        "^({}) *(/| per ) *({units}|{UNIT}|{WINDOW})$",
        up_to(u32::MAX)
    )
}

/// The whole numbers up to `max`, which has two digits or more, as a regular expression. They do
/// not begin with a 0.
fn up_to(max: u32) -> String {
    let digits = max.to_string();
    let shorter = format!("[1-9][0-9]{{0,{}}}", digits.len() - 2);
    let mut ways = vec!["0".to_owned(), shorter];
    // Equal up to here, smaller here, and anything after.
    for (at, digit) in digits.char_indices() {
        let (before, behind) = (&digits[..at], digits.len() - at - 1);
        let smaller = digit.to_digit(10).and_then(|digit| digit.checked_sub(1));
        // A number of as many digits does not begin with a 0.
        let first = u32::from(at == 0);
        if let Some(smaller) = smaller.filter(|smaller| *smaller >= first) {
            ways.push(format!("{before}[{first}-{smaller}][0-9]{{{behind}}}"));
        }
    }
    ways.push(digits);
    ways.join("|")
}

/// Words in any case, in the regular expressions of JSON Schema.
fn any_case(words: &[&str]) -> String {
    let words: Vec<String> = words
        .iter()
        .map(|word| {
            let letters = word.chars();
            let letters = letters.map(|c| format!("[{c}{}]", c.to_ascii_uppercase()));
            letters.collect()
        })
        .collect();
    words.join("|")
}

const fn name(section: Section) -> &'static str {
    match section {
        Section::Domain => "domain",
        Section::Descriptor => "descriptor",
        Section::RateLimit => "rate_limit",
        Section::Replaces => "replaces",
        Section::PriorityShare => "reserved",
        Section::Elastic => "elastic",
    }
}

#[cfg(test)]
mod tests;
