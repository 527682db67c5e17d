//! The files of `deploy/` that start the service: their command lines, settings and rules.

use serde_json::Value;

use crate::ground::Ground;
use crate::{STARTS_TRIED, read};

const UNIT: &str = "deploy/systemd/tollgate.service";
const MANIFEST: &str = "deploy/kubernetes/tollgate.yaml";
const DOCKERFILE: &str = "deploy/docker/Dockerfile";
/// Where all of them have the settings.
const SETTINGS: &str = "/etc/tollgate/tollgate.yaml";
/// Where they have the program.
const PROGRAM: &str = "/usr/local/bin/tollgate";

#[test]
fn the_unit_checks_its_settings_and_starts_with_them() {
    let unit = read(UNIT);
    let [start] = &commands(&unit, "ExecStart=")[..] else {
        panic!("{UNIT} has another number of `ExecStart`");
    };
    let [check, signal] = &commands(&unit, "ExecReload=")[..] else {
        panic!("{UNIT} has another number of `ExecReload`");
    };
    assert_eq!(signal, "/bin/kill -HUP $MAINPID");
    let has_started = |_| {
        let mut ground = Ground::new();
        ground.write(
            "etc/tollgate/tollgate.yaml",
            &read("deploy/systemd/tollgate.yaml"),
        );
        ground.write(
            "etc/tollgate/rules/shop.yaml",
            &read("examples/rules/shop.yaml"),
        );
        check_with(&ground, &format!("{check} --deny-warnings"));
        ground.start(start)
    };
    assert!((0..STARTS_TRIED).any(has_started), "{start}");
}

#[test]
fn the_image_and_the_deployment_start_with_the_same_settings() {
    let dockerfile = read(DOCKERFILE);
    assert_eq!(list(&dockerfile, "ENTRYPOINT "), [PROGRAM]);
    assert_eq!(list(&dockerfile, "CMD "), ["serve", SETTINGS]);
    let manifest = read(MANIFEST);
    for line in [
        &format!("args: [serve, {SETTINGS}]"),
        "{name: settings, mountPath: /etc/tollgate, readOnly: true}",
        "{name: rules, mountPath: /etc/tollgate-rules, readOnly: true}",
    ] {
        assert!(manifest.contains(line), "{MANIFEST} has no `{line}`");
    }
}

#[test]
fn the_settings_and_rules_of_the_config_maps_have_no_error_and_no_warning() {
    let ground = Ground::new();
    let files = embedded_files(&read(MANIFEST));
    assert_eq!(files.len(), 2, "{files:?}");
    for (name, text) in files {
        let folder = match name.as_str() {
            "tollgate.yaml" => "tollgate",
            _ => "tollgate-rules",
        };
        // Relative to the settings.
        let text = text.replace("/etc/", "../");
        ground.write(&format!("etc/{folder}/{name}"), &text);
    }
    let check = format!("tollgate check --config {SETTINGS} --deny-warnings");
    let token = "TOLLGATE_ADMIN_TOKEN=0123456789abcdef";
    check_with(&ground, &format!("{token} {}", local(&check)));
}

/// Runs `tollgate check`, which must find nothing.
fn check_with(ground: &Ground, command: &str) {
    let (status, output) = ground.run(command);
    assert_eq!(status, 0, "{command}\n{output}");
    assert!(
        output.contains("0 errors, 0 warnings"),
        "{command}\n{output}"
    );
}

/// The commands of a unit behind a key.
fn commands(unit: &str, key: &str) -> Vec<String> {
    let values = unit.lines().filter_map(|line| line.strip_prefix(key));
    values.map(local).collect()
}

/// A command with the program and the folder of the tests in place of those of a host.
fn local(command: &str) -> String {
    command
        .replace(PROGRAM, "tollgate")
        .replace("/etc/", "etc/")
}

/// The list behind an instruction of a Dockerfile.
fn list(dockerfile: &str, instruction: &str) -> Vec<String> {
    let line = dockerfile
        .lines()
        .find_map(|line| line.strip_prefix(instruction));
    let list: Value = serde_json::from_str(line.unwrap()).unwrap();
    let words = list.as_array().unwrap().iter();
    words
        .map(|word| word.as_str().unwrap().to_owned())
        .collect()
}

/// The names and texts of the files in the ConfigMaps of a manifest: block scalars, two columns in.
fn embedded_files(manifest: &str) -> Vec<(String, String)> {
    let mut files = Vec::new();
    let mut lines = manifest.lines().peekable();
    while let Some(line) = lines.next() {
        let key = line
            .strip_prefix("  ")
            .and_then(|line| line.strip_suffix(": |"));
        let Some(name) = key else { continue };
        let mut text = String::new();
        while let Some(line) = lines.next_if(|line| line.is_empty() || line.starts_with("    ")) {
            text.push_str(line.get(4..).unwrap_or(""));
            text.push('\n');
        }
        files.push((name.to_owned(), text));
    }
    files
}

#[test]
fn files_are_found_in_a_manifest() {
    let manifest =
        "data:\n  # c\n  a.yaml: |\n    b:\n\n      - c\n  d.yaml: |\n    e\n---\nf: g\n";
    let expected = [("a.yaml", "b:\n\n  - c\n"), ("d.yaml", "e\n")];
    let expected = expected.map(|(name, text)| (name.to_owned(), text.to_owned()));
    assert_eq!(embedded_files(manifest), expected);
}
