//! As much of JSON Schema as the schemas in `docs/` use.

use serde_json::Value;

/// The schemas of what the commands write.
const SCHEMAS: [&str; 4] = [
    include_str!("../../../../docs/replay.schema.json"),
    include_str!("../../../../docs/explain.schema.json"),
    include_str!("../../../../docs/plan.schema.json"),
    include_str!("../../../../docs/suggest.schema.json"),
];

/// What is wrong with a value, by the definition of this name; nothing if it is valid.
pub(crate) fn violations(definition: &str, value: &Value) -> Vec<String> {
    let schemas = SCHEMAS.map(|text| serde_json::from_str::<Value>(text).unwrap());
    let mut schemas = schemas.into_iter();
    let defines = |schema: &Value| schema["$defs"][definition].is_object();
    let schema = schemas.find(defines).expect("a definition of a schema");
    let mut found = Vec::new();
    check(
        &schema,
        &schema["$defs"][definition],
        value,
        definition,
        &mut found,
    );
    found
}

fn check(root: &Value, schema: &Value, value: &Value, place: &str, found: &mut Vec<String>) {
    let mut fail = |what: &str| found.push(format!("{place}: {what}: {value}"));
    for (keyword, rule) in schema.as_object().expect("a definition") {
        match keyword.as_str() {
            "const" if rule != value => fail("another value"),
            "enum" if !rule.as_array().unwrap().contains(value) => fail("none of the values"),
            "type" if !is_of_type(rule, value) => fail("another type"),
            "const" | "enum" | "type" | "additionalProperties" => {}
            "$ref" => {
                let name = rule.as_str().unwrap().strip_prefix("#/$defs/").unwrap();
                check(root, &root["$defs"][name], value, place, found);
                return;
            }
            "anyOf" => {
                let fits = |one: &Value| {
                    let mut wrong = Vec::new();
                    check(root, one, value, place, &mut wrong);
                    wrong.is_empty()
                };
                if !rule.as_array().unwrap().iter().any(fits) {
                    fail("none of the alternatives");
                }
            }
            "required" => {
                for name in rule.as_array().unwrap() {
                    if value.get(name.as_str().unwrap()).is_none() {
                        fail(&format!("no {name}"));
                    }
                }
            }
            "items" | "properties" => {}
            other => panic!("{other} is not checked here"),
        }
    }
    for (index, item) in value.as_array().into_iter().flatten().enumerate() {
        check(
            root,
            &schema["items"],
            item,
            &format!("{place}[{index}]"),
            found,
        );
    }
    for (name, member) in value.as_object().into_iter().flatten() {
        match schema["properties"].get(name) {
            Some(rule) => check(root, rule, member, &format!("{place}.{name}"), found),
            None if schema["additionalProperties"] == false => {
                found.push(format!("{place}: {name} is not described"));
            }
            None if schema["additionalProperties"].is_object() => check(
                root,
                &schema["additionalProperties"],
                member,
                &format!("{place}.{name}"),
                found,
            ),
            None => {}
        }
    }
}

fn is_of_type(rule: &Value, value: &Value) -> bool {
    let is = |name: &Value| match name.as_str().unwrap() {
        "object" => value.is_object(),
        "array" => value.is_array(),
        "string" => value.is_string(),
        "integer" => value.is_u64(),
        "boolean" => value.is_boolean(),
        "null" => value.is_null(),
        other => panic!("{other} is not checked here"),
    };
    match rule.as_array() {
        Some(names) => names.iter().any(is),
        None => is(rule),
    }
}
