//! `examples/limits`: rules for common needs, each with requests and the expected decisions.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use serde_json::Value;

use crate::root;

#[test]
fn every_example_decides_as_it_says() {
    let folder = root().join("examples/limits");
    let mut tried = 0;
    for rules in rules_files(&folder) {
        let decided = decided(&rules);
        let expected = fs::read_to_string(rules.with_extension("txt")).unwrap_or_default();
        let name = rules.display();
        assert_eq!(expected, decided, "{name}; what was decided:\n{decided}");
        tried += 1;
    }
    assert!(tried > 0, "no example in {}", folder.display());
}

#[test]
fn every_example_has_no_error_and_no_warning() {
    for folder in [
        "examples/limits",
        "examples/rules",
        "examples/envoy/rules.yaml",
        "examples/nginx/rules.yaml",
    ] {
        let mut check = Command::new(env!("CARGO_BIN_EXE_tollgate"));
        let output = check
            .arg("check")
            .arg(root().join(folder))
            .output()
            .unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        assert!(output.status.success(), "{folder}: {text}");
        assert!(text.contains("0 errors, 0 warnings"), "{folder}: {text}");
    }
}

fn rules_files(folder: &PathBuf) -> Vec<PathBuf> {
    let files = fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path());
    let mut files: Vec<PathBuf> = files
        .filter(|path| {
            path.extension()
                .is_some_and(|extension| extension == "yaml")
        })
        .collect();
    files.sort();
    files
}

/// The decisions of the rules about the requests beside them, a line for each.
fn decided(rules: &PathBuf) -> String {
    let mut replay = Command::new(env!("CARGO_BIN_EXE_tollgate"));
    replay.args(["replay", "--format", "jsonl", "--decisions", "-", "--rules"]);
    let output = replay
        .arg(rules)
        .arg(rules.with_extension("jsonl"))
        .output()
        .unwrap();
    let report = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{report}");
    let lines = serde_json::Deserializer::from_slice(&output.stdout).into_iter::<Value>();
    lines.map(|line| shown(&line.unwrap())).collect()
}

fn shown(decision: &Value) -> String {
    let text = |member: &str| decision[member].as_str().unwrap_or("").to_owned();
    let mut line = match decision["allowed"].as_bool().unwrap() {
        true => "allowed".to_owned(),
        false => format!(
            "denied by {}, retry after {}",
            text("deniedBy"),
            text("retryAfter")
        ),
    };
    if decision["delay"].is_string() {
        line += &format!(", delay {}", text("delay"));
    }
    if decision["overSoft"] == true {
        line += ", over soft";
    }
    if decision["shadowDeniedBy"].is_array() {
        line += &format!(", shadow denied by {}", decision["shadowDeniedBy"]);
    }
    format!("{} {line}\n", decision["line"])
}
