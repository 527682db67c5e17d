//! `tollgate check`.

use serde_json::Value;

use crate::house::{RULES, directory, run};

#[test]
fn check_tells_good_rules_from_bad_and_from_none() {
    let rules = directory(&[("good.yaml", RULES), ("bad.yaml", "domain: e\nx: 1\n")]);
    let good = run(rules.path(), &["check", "good.yaml"]);
    assert_eq!(good.status.code(), Some(0));
    let bad = run(rules.path(), &["check", "."]);
    assert_eq!(bad.status.code(), Some(1));
    let text = String::from_utf8(bad.stdout).unwrap();
    assert!(text.contains("bad.yaml:2:1"), "{text}");
    assert!(text.contains("1 errors"), "{text}");
    let json = run(rules.path(), &["check", "--format", "json", "bad.yaml"]);
    assert_eq!(json.status.code(), Some(1));
    let json: Value = serde_json::from_slice(&json.stdout).unwrap();
    assert_eq!(json["errors"], 1);
    assert_eq!(json["diagnostics"][0]["line"], 2);
    let none = run(rules.path(), &["check", "nowhere.yaml"]);
    assert_eq!(none.status.code(), Some(2));
    assert_eq!(run(rules.path(), &["check"]).status.code(), Some(2));
}
