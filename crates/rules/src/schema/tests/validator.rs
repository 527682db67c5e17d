//! As much of JSON Schema as our schema uses. A keyword that it does not know fails the test.

use regex::Regex;
use serde_json::Value;

/// What is wrong with `document`, each as `path: keyword`.
pub(super) fn complaints(schema: &Value, document: &Value) -> Vec<String> {
    let mut validator = Validator {
        root: schema,
        found: Vec::new(),
    };
    validator.check(schema, document, "");
    validator.found.sort();
    validator.found.dedup();
    validator.found
}

struct Validator<'s> {
    root: &'s Value,
    found: Vec<String>,
}

// === impl Validator ===

impl<'s> Validator<'s> {
    fn holds(&self, schema: &'s Value, value: &Value) -> bool {
        let mut inner = Validator {
            root: self.root,
            found: Vec::new(),
        };
        inner.check(schema, value, "");
        inner.found.is_empty()
    }

    fn check(&mut self, schema: &'s Value, value: &Value, path: &str) {
        if let Value::Bool(takes) = schema {
            self.expect(*takes, path, "false");
            return;
        }
        for (keyword, wanted) in schema.as_object().unwrap() {
            self.keyword(keyword, wanted, value, path);
        }
        if let Some(condition) = schema.get("if") {
            let branch = if self.holds(condition, value) {
                "then"
            } else {
                "else"
            };
            if let Some(branch) = schema.get(branch) {
                self.check(branch, value, path);
            }
        }
        if schema.get("additionalProperties").is_some()
            && let Value::Object(map) = value
        {
            for key in map.keys() {
                let is_known = schema["properties"].get(key).is_some();
                self.expect(is_known, path, &format!("unknown {key}"));
            }
        }
    }

    fn keyword(&mut self, keyword: &str, wanted: &'s Value, value: &Value, path: &str) {
        let number = |value: &Value| value.as_u64();
        match keyword {
            "$schema" | "title" | "$defs" | "description" | "examples" => {}
            "if" | "then" | "else" | "additionalProperties" => {}
            "$ref" => {
                let name = wanted.as_str().unwrap().rsplit('/').next().unwrap();
                self.check(&self.root["$defs"][name], value, path);
            }
            "type" => {
                let types = wanted.as_array().cloned().unwrap_or(vec![wanted.clone()]);
                let fits = types
                    .iter()
                    .any(|wanted| is_of(wanted.as_str().unwrap(), value));
                self.expect(fits, path, "type");
            }
            "enum" => self.expect(wanted.as_array().unwrap().contains(value), path, "enum"),
            "const" => self.expect(wanted == value, path, "const"),
            "minLength" => {
                let fits = value
                    .as_str()
                    .is_none_or(|text| number(&text.chars().count().into()) >= number(wanted));
                self.expect(fits, path, "minLength");
            }
            // Maps and lists are counted by the parser alone.
            "minItems" | "maxItems" => {}
            "minimum" => {
                let fits = !value.is_number() || number(value) >= number(wanted);
                self.expect(fits, path, "minimum");
            }
            "maximum" => self.expect(number(value) <= number(wanted), path, "maximum"),
            "pattern" => {
                let pattern = Regex::new(wanted.as_str().unwrap()).unwrap();
                let fits = value.as_str().is_none_or(|text| pattern.is_match(text));
                self.expect(fits, path, "pattern");
            }
            "required" => {
                for key in wanted.as_array().unwrap() {
                    let key = key.as_str().unwrap();
                    let is_there = !value.is_object() || value.get(key).is_some();
                    self.expect(is_there, path, &format!("required {key}"));
                }
            }
            "properties" => self.each(wanted, value, path),
            "dependentSchemas" => {
                for (key, demand) in wanted.as_object().unwrap() {
                    if value.get(key).is_some() {
                        self.check(demand, value, path);
                    }
                }
            }
            "items" => {
                for item in value.as_array().into_iter().flatten() {
                    self.check(wanted, item, path);
                }
            }
            unknown => panic!("this validator does not know `{unknown}`"),
        }
    }

    fn each(&mut self, properties: &'s Value, value: &Value, path: &str) {
        for (key, schema) in properties.as_object().unwrap() {
            if let Some(value) = value.get(key) {
                self.check(schema, value, &format!("{path}/{key}"));
            }
        }
    }

    fn expect(&mut self, holds: bool, path: &str, what: &str) {
        if !holds {
            self.found.push(format!("{path}: {what}"));
        }
    }
}

fn is_of(name: &str, value: &Value) -> bool {
    match name {
        "object" => value.is_object(),
        "array" => value.is_array(),
        "string" => value.is_string(),
        "integer" => value.is_u64() || value.is_i64(),
        "boolean" => value.is_boolean(),
        "null" => value.is_null(),
        unknown => panic!("this validator does not know the type `{unknown}`"),
    }
}
