//! `docs/identity.md`: its examples are valid, and it describes every key.

#![allow(clippy::unwrap_used)]

use std::fs;

use saphyr_parser::{Event, Parser, ScalarStyle};
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};
use tollgate_http::{
    BodySettings, Classifier, ClientAddressSettings, CorsSettings, CostSettings, CostSource,
    CountWhenSettings, DescriptorSettings, Dialect, EntrySettings, HeadersOn, IdentitySettings,
    IfMissing, PathSettings, Responder, ResponseSettings, SourceSettings, UserAgentPattern,
};

const MARK: &str = "skip: checked by crates/http/tests/documents.rs";
#[cfg(feature = "jwt")]
const MARK_JWT: &str = "skip: read by crates/http/tests/documents.rs with the feature jwt";

fn page() -> String {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/identity.md");
    fs::read_to_string(path).unwrap()
}

/// What a YAML text means: the part of YAML that the page uses.
fn value(yaml: &str) -> Value {
    let mut events = Parser::new_from_str(yaml).map(|event| event.unwrap().0);
    loop {
        match events.next().unwrap() {
            Event::StreamStart | Event::DocumentStart(_) => {}
            event => return node(event, &mut events),
        }
    }
}

fn node<'a>(event: Event<'a>, events: &mut impl Iterator<Item = Event<'a>>) -> Value {
    match event {
        Event::Scalar(text, ScalarStyle::Plain, ..) => {
            // Numbers and booleans are written as in JSON.
            serde_json::from_str(&text).unwrap_or_else(|_| json!(text))
        }
        Event::Scalar(text, ..) => json!(text),
        Event::SequenceStart(..) => {
            let mut items = Vec::new();
            loop {
                match events.next().unwrap() {
                    Event::SequenceEnd => return Value::Array(items),
                    event => items.push(node(event, events)),
                }
            }
        }
        Event::MappingStart(..) => {
            let mut map = Map::new();
            loop {
                let key = match events.next().unwrap() {
                    Event::MappingEnd => return Value::Object(map),
                    event => node(event, events),
                };
                let event = events.next().unwrap();
                let old = map.insert(key.as_str().unwrap().to_owned(), node(event, events));
                assert_eq!(old, None, "{key} is there twice");
            }
        }
        event => panic!("the page uses no {event:?}"),
    }
}

#[test]
fn every_example_is_valid() {
    let page = page();
    let examples: Vec<&str> = page
        .split("```yaml ")
        .skip(1)
        .filter_map(|rest| rest.strip_prefix(MARK)?.split("```").next())
        .collect();
    for example in &examples {
        for (section, value) in value(example).as_object().unwrap() {
            match section.as_str() {
                "identity" => {
                    let settings: IdentitySettings = serde_json::from_value(value.clone()).unwrap();
                    Classifier::new(&settings).unwrap();
                }
                "responses" => {
                    let settings: ResponseSettings = serde_json::from_value(value.clone()).unwrap();
                    Responder::new(&settings).unwrap();
                }
                other => panic!("no section {other}"),
            }
        }
    }
    // All blocks of YAML but the one about tokens.
    assert_eq!(examples.len() + 1, page.matches("```yaml ").count());
}

#[cfg(feature = "jwt")]
#[test]
fn tokens_are_described() {
    let page = page();
    let (_, example) = page.split_once(MARK_JWT).unwrap();
    let example = value(example.split("```").next().unwrap());
    let settings: IdentitySettings = serde_json::from_value(example["identity"].clone()).unwrap();
    // The file of keys is not there, and nothing else is wrong.
    let error = Classifier::new(&settings).unwrap_err();
    let error = error.to_string();
    assert!(error.starts_with("token.verify.keys_file: "), "{error}");
    let all = [
        known::<tollgate_http::TokenSettings>(json!({"?": 1})),
        known::<tollgate_http::TokenSource>(json!("?")),
        known::<tollgate_http::Verify>(json!("?")),
    ];
    for name in all.iter().flatten() {
        let in_code = [format!("`{name}`"), format!("`{name}:")];
        assert!(in_code.iter().any(|text| page.contains(text)), "{name}");
    }
}

/// The keys of a section, or the words for a choice: what the error about an unknown one lists.
fn known<T: DeserializeOwned>(unknown: Value) -> Vec<String> {
    let error = serde_json::from_value::<T>(unknown)
        .err()
        .unwrap()
        .to_string();
    let (_, expected) = error.split_once(", expected ").unwrap();
    let names = expected.split('`').skip(1).step_by(2);
    names.map(str::to_owned).collect()
}

#[test]
fn every_key_and_every_choice_is_described() {
    let page = page();
    let key = || json!({"?": 1});
    let choice = || json!("?");
    let all = [
        known::<IdentitySettings>(key()),
        known::<ClientAddressSettings>(key()),
        known::<ClientAddressSettings>(json!({"source": "?"})),
        known::<PathSettings>(key()),
        known::<PathSettings>(json!({"encoded_slash": "?"})),
        known::<PathSettings>(json!({"path_parameters": "?"})),
        known::<PathSettings>(json!({"trailing_slash": "?"})),
        known::<DescriptorSettings>(key()),
        known::<CostSettings>(key()),
        known::<CostSource>(choice()),
        known::<CountWhenSettings>(key()),
        known::<EntrySettings>(key()),
        known::<IfMissing>(choice()),
        known::<SourceSettings>(choice()),
        known::<SourceSettings>(json!({"client_network": {"?": 1}})),
        known::<UserAgentPattern>(key()),
        known::<ResponseSettings>(key()),
        known::<HeadersOn>(choice()),
        known::<Dialect>(choice()),
        known::<BodySettings>(key()),
        known::<CorsSettings>(key()),
    ];
    for names in &all {
        assert!(!names.is_empty(), "{all:?}");
        for name in names {
            let in_code = [format!("`{name}`"), format!("`{name}:"), format!("{name}:")];
            assert!(in_code.iter().any(|text| page.contains(text)), "{name}");
        }
    }
}
