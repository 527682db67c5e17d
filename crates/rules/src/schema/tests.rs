#![allow(clippy::unwrap_used)]

use std::collections::BTreeSet;

mod validator;

use super::*;
use crate::options::Options;
use crate::rule_set::RuleSet;
use crate::section::ALGORITHMS;
use crate::source::Source;

/// What a key takes that is right for it, in YAML.
fn example(form: Form) -> Vec<String> {
    match form {
        Form::Text | Form::Name => vec!["text".to_owned(), "10".to_owned(), "true".to_owned()],
        Form::Flag => vec!["false".to_owned(), "true".to_owned()],
        Form::ChargeDenied => ["never", "excess", "always", "false", "true"]
            .map(str::to_owned)
            .into(),
        Form::Count(min, max) => vec![min.to_string(), max.to_string()],
        Form::Unit(words) => words.iter().map(|word| word.to_uppercase()).collect(),
        Form::Choice(words) => words.iter().map(|word| (*word).to_owned()).collect(),
        Form::Window => vec!["1h30m".to_owned()],
        Form::Percent(..) => vec!["10%".to_owned()],
        Form::List(Section::Replaces) => vec!["[{name: x}]".to_owned()],
        Form::List(_) => vec!["[]".to_owned()],
        Form::Texts(_) => vec!["[text, 10]".to_owned()],
        Form::HeadroomSources(_) => vec!["[reported]".to_owned(), "[host, reported]".to_owned()],
        Form::Map(Section::Elastic) => vec!["{share: 10%, while: [reported]}".to_owned()],
        Form::Map(_) => vec!["{share: 10%, for: [x]}".to_owned()],
        Form::RateLimit => vec!["100/minute".to_owned(), "5 per 15m".to_owned()],
        Form::Free => vec!["{any: thing}".to_owned()],
    }
}

/// Codes of diagnostics about the key itself, not about its combination with others.
const ABOUT_THE_KEY: [&str; 12] = [
    "unknown-key",
    "misplaced-key",
    "type",
    "number",
    "unit",
    "window",
    "choice",
    "soft",
    "list-item",
    "percent",
    "priorities",
    "headroom-sources",
];

/// Whether the parser accepts `key: value` in this section.
fn parser_takes(place: Section, key: &str, value: &str) -> bool {
    let line = format!("{key}: {value}");
    let text = match place {
        Section::Domain => line,
        Section::Descriptor => format!("domain: d\ndescriptors: [{{{line}}}]"),
        Section::RateLimit => {
            format!("domain: d\ndescriptors: [{{key: k, rate_limit: {{{line}}}}}]")
        }
        Section::Replaces => {
            format!("domain: d\ndescriptors: [{{key: k, rate_limit: {{replaces: [{{{line}}}]}}}}]")
        }
        Section::Elastic => {
            format!("domain: d\ndescriptors: [{{key: k, rate_limit: {{elastic: {{{line}}}}}}}]")
        }
        Section::PriorityShare => {
            format!("domain: d\ndescriptors: [{{key: k, rate_limit: {{reserved: {{{line}}}}}}}]")
        }
    };
    let loaded = RuleSet::parse(&[Source::new("x", text)], &Options::default());
    let codes = loaded.diagnostics.iter().map(|diagnostic| diagnostic.code);
    !codes.clone().any(|code| ABOUT_THE_KEY.contains(&code))
}

#[test]
fn the_parser_takes_what_the_schema_has_and_nothing_else() {
    let schema = schema();
    let all: BTreeSet<&str> = SECTIONS
        .iter()
        .flat_map(|place| place.fields().map(|field| field.key))
        .chain(["burts", "limit"])
        .collect();
    for place in SECTIONS {
        let properties = &schema["$defs"][name(place)]["properties"];
        for key in &all {
            let in_schema = properties.get(key).is_some();
            let form = place.field(key).map_or(Form::Text, |field| field.form);
            for value in example(form) {
                let takes = parser_takes(place, key, &value);
                assert_eq!(takes, in_schema, "{key}: {value} in {place:?}");
            }
        }
    }
}

#[test]
fn the_parser_rejects_what_the_schema_does() {
    let wrong = [
        (Section::Domain, "domain", "[a]"),
        (Section::Domain, "charge_denied", "maybe"),
        (Section::RateLimit, "charge_denied", "'true'"),
        (Section::Domain, "descriptors", "{}"),
        (Section::Descriptor, "value", "1.5"),
        (Section::Descriptor, "descriptors", "[x]"),
        (Section::Descriptor, "shadow_mode", "'true'"),
        (Section::RateLimit, "requests_per_unit", "4294967296"),
        (Section::RateLimit, "requests_per_unit", "'1'"),
        (Section::RateLimit, "segments", "0"),
        (Section::RateLimit, "unit", "minutes"),
        (Section::RateLimit, "window", "15"),
        (Section::RateLimit, "algorithm", "Token_Bucket"),
        (Section::RateLimit, "soft", "10"),
        (Section::RateLimit, "replaces", "[x]"),
        (Section::RateLimit, "reserved", "20%"),
        (Section::PriorityShare, "share", "20"),
        (Section::PriorityShare, "for", "critical"),
        (Section::PriorityShare, "for", "[]"),
        (Section::PriorityShare, "for", "[[x]]"),
        (Section::RateLimit, "elastic", "50%"),
        (Section::Elastic, "share", "50"),
        (Section::Elastic, "while", "reported"),
        (Section::Elastic, "while", "[]"),
        (Section::Elastic, "while", "[[x]]"),
    ];
    for (place, key, value) in wrong {
        let value_in_full = if key == "segments" {
            format!("{value}, algorithm: sliding_window, requests_per_unit: 1, unit: second")
        } else {
            value.to_owned()
        };
        let takes = parser_takes(place, key, &value_in_full);
        // A window that cannot be divided is not the key's error.
        let is_limit_of_buckets = matches!(key, "window") && takes && value != "15";
        assert!(!takes || is_limit_of_buckets, "{key}: {value} in {place:?}");
    }
}

#[test]
fn every_reference_leads_somewhere_and_every_key_is_explained() {
    let schema = schema();
    let text = schema.to_string();
    for (_, rest) in text
        .match_indices("#/$defs/")
        .map(|(at, found)| text.split_at(at + found.len()))
    {
        let target = rest.split('"').next().unwrap();
        assert!(schema["$defs"].get(target).is_some(), "{target}");
    }
    for place in SECTIONS {
        for field in place.fields() {
            assert!(field.about.ends_with(['.', '`']), "{}", field.key);
        }
    }
}

/// A `rate_limit`, and where a validator finds what is wrong with it: nowhere if it is right.
const RATE_LIMITS: [(&str, &[&str]); 33] = [
    (r#""100/minute""#, &[]),
    (r#""5 per 15m""#, &[]),
    (r#""100/Minute""#, &[]),
    (r#""100 / s""#, &[]),
    (r#""4294967295/1h30m""#, &[]),
    (r#""4294967296/minute""#, &["pattern"]),
    (r#""5000000000/minute""#, &["pattern"]),
    (r#""60/minutes""#, &["pattern"]),
    (r#""5/0s""#, &["pattern"]),
    (r#""5/0h05m""#, &[]),
    (
        r#"{"requests_per_unit": 1, "window": "0s"}"#,
        &["window: pattern"],
    ),
    (
        r#"{"requests_per_unit": 1, "unit": "day", "soft": "4294967296%"}"#,
        &["soft: pattern"],
    ),
    (
        r#"{"requests_per_unit": 1, "unit": "day", "soft": "010%"}"#,
        &[],
    ),
    (
        r#"{"requests_per_unit": 1, "unit": "day", "soft": "1%",
            "elastic": {"share": "1%", "while": ["host"]}}"#,
        &["elastic: false"],
    ),
    (r#""60/min""#, &["pattern"]),
    (r#""60""#, &["pattern"]),
    ("60", &["type"]),
    (r#"{"unlimited": true}"#, &[]),
    (r#"{"unlimited": true, "burst": 1}"#, &["burst: false"]),
    (r#"{"unlimited": true, "unit": "day"}"#, &["unit: false"]),
    (
        r#"{"unlimited": false, "unit": "day"}"#,
        &["required requests_per_unit"],
    ),
    (r#"{"requests_per_unit": 1}"#, &["required unit"]),
    (r#"{"requests_per_unit": 1, "unit": "Day"}"#, &[]),
    (r#"{"requests_per_unit": 1, "window": "1h30m"}"#, &[]),
    (
        r#"{"requests_per_unit": 1, "window": "1h", "unit": "hour"}"#,
        &["unit: false"],
    ),
    (
        r#"{"request_per_unit": 1, "requests_per_unit": 1, "unit": "day"}"#,
        &["request_per_unit"],
    ),
    (
        r#"{"requests_per_unit": 1, "unit": "days"}"#,
        &["unit: pattern"],
    ),
    (
        r#"{"requests_per_unit": 1, "unit": "day", "burst": 1}"#,
        &["required algorithm"],
    ),
    (
        r#"{"requests_per_unit": 1, "unit": "day", "burst": 1, "algorithm": "leaky_bucket"}"#,
        &["algorithm: const"],
    ),
    (
        r#"{"requests_per_unit": 1, "unit": "day", "queue": 1, "algorithm": "leaky_bucket"}"#,
        &[],
    ),
    (
        r#"{"requests_per_unit": 1, "unit": "day", "anchor": "clock"}"#,
        &[],
    ),
    (
        r#"{"requests_per_unit": 1, "unit": "day", "segments": 5, "algorithm": "sliding_log"}"#,
        &["algorithm: const"],
    ),
    (
        r#"{"requests_per_unit": 4294967296, "unit": "day"}"#,
        &["requests_per_unit: maximum"],
    ),
];

/// What a validator finds wrong with a document ends with these texts, and the parser, to which
/// JSON is YAML, has an error if there is one.
fn assert_complaints(schema: &Value, text: &str, expected: &[&str]) {
    let document: Value = serde_json::from_str(text).unwrap();
    let found = validator::complaints(schema, &document);
    let is_expected = found.len() == expected.len()
        && found
            .iter()
            .zip(expected)
            .all(|(found, expected)| found.ends_with(expected));
    assert!(is_expected, "{text}: {found:?}, expected {expected:?}");
    let loaded = RuleSet::parse(&[Source::new("x", text)], &Options::default());
    assert_eq!(loaded.has_errors(), !expected.is_empty(), "{text}");
}

#[test]
fn one_error_is_one_diagnostic_that_names_the_key() {
    let schema = schema();
    for (rate_limit, expected) in RATE_LIMITS {
        let text = format!(
            r#"{{"domain": "d", "descriptors": [{{"key": "k", "rate_limit": {rate_limit}}}]}}"#
        );
        assert_complaints(&schema, &text, expected);
    }
}

/// A document, and what a validator finds wrong with it.
const DOCUMENTS: [(&str, &[&str]); 20] = [
    (r#""domain": """#, &["/domain: minLength"]),
    (
        r#""domain": "d", "priority_key": """#,
        &["/priority_key: minLength"],
    ),
    (r#""domain": "d", "priority_key": null"#, &[]),
    (r#""domain": "d", "descriptors": null"#, &[]),
    (r#""domain": "d", "mode": null, "instances": null"#, &[]),
    (r#""key": """#, &["key: minLength"]),
    (r#""key": null"#, &["key: type"]),
    (r#""key": "k", "value": "", "rate_limit": null"#, &[]),
    (r#""key": "k", "value": null, "descriptors": null"#, &[]),
    (r#""key": "k", "enforce": "100%""#, &[]),
    (r#""key": "k", "enforce": "101%""#, &["enforce: pattern"]),
    (r#""key": "k", "enforce": null, "metadata": null"#, &[]),
    (r#""key": "k", "share_threshold": false"#, &[]),
    (
        r#""key": "k", "share_threshold": true"#,
        &["required value"],
    ),
    (
        r#""key": "k", "share_threshold": true, "value": "a""#,
        &["value: pattern"],
    ),
    (r#""key": "k", "share_threshold": true, "value": "a*""#, &[]),
    (r#""share": "0%", "for": ["a"]"#, &["share: pattern"]),
    (r#""share": "101%", "for": ["a"]"#, &["share: pattern"]),
    (r#""share": "100%", "for": [""]"#, &["for: minLength"]),
    (r#""share": "100%", "for": ["a"]"#, &[]),
];

#[test]
fn a_document_that_the_schema_rejects_has_an_error_and_no_other_has() {
    let schema = schema();
    for (map, expected) in DOCUMENTS {
        let limit = "{\"requests_per_unit\": 1, \"unit\": \"day\", \"reserved\": ";
        let text = match map {
            map if map.starts_with("\"domain") => format!("{{{map}}}"),
            map if map.starts_with("\"key") => {
                format!("{{\"domain\": \"d\", \"descriptors\": [{{{map}}}]}}")
            }
            map => format!(
                "{{\"domain\": \"d\", \"descriptors\": [{{\"key\": \"k\", \"rate_limit\": \
                 {limit}{{{map}}}}}}}]}}"
            ),
        };
        assert_complaints(&schema, &text, expected);
    }
}

#[test]
fn every_algorithm_is_parsed_as_itself() {
    for name in ALGORITHMS {
        let text = format!(
            "domain: d\ndescriptors:\n- key: k\n  rate_limit: {{unit: minute, \
             requests_per_unit: 60, algorithm: {name}}}\n"
        );
        let loaded = RuleSet::parse(&[Source::new("r.yaml", text)], &Options::default());
        let limit = loaded.rules.rules().find_map(|view| view.limit).unwrap();
        assert_eq!(limit.algorithm().to_string(), name);
    }
}
