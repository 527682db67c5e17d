//! The crates of the workspace and the arrows between them, as cargo knows them.

use std::collections::{BTreeMap, BTreeSet};
use std::process::Command;

use serde_json::Value;

use crate::source::root;

/// A crate of the workspace.
pub struct Crate {
    /// Without `tollgate-`.
    pub name: String,
    /// Relative to the root of the project: `crates/core`.
    pub folder: String,
    /// The crates of the workspace that it uses outside its tests.
    pub uses: BTreeSet<String>,
}

/// Every crate of the workspace, by name.
///
/// # Panics
///
/// If cargo cannot describe the workspace.
#[must_use]
pub fn crates() -> BTreeMap<String, Crate> {
    let packages = list(&metadata()["packages"]);
    let crates = packages.iter().map(|package| {
        let dependencies = list(&package["dependencies"]);
        let ours = dependencies
            .iter()
            .filter(|used| used["path"].is_string() && used["kind"] != "dev");
        let name = short_name(package);
        let uses = ours.map(short_name).collect();
        let folder = folder(package);
        (name.clone(), Crate { name, folder, uses })
    });
    crates.collect()
}

fn metadata() -> Value {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(cargo);
    command.args(["metadata", "--no-deps", "--offline"]);
    command.args(["--format-version", "1"]);
    let output = command.current_dir(root()).output().expect("cargo runs");
    assert!(output.status.success(), "cargo metadata failed: {output:?}");
    serde_json::from_slice(&output.stdout).expect("cargo writes JSON")
}

fn list(value: &Value) -> Vec<Value> {
    value.as_array().cloned().unwrap_or_default()
}

fn short_name(package: &Value) -> String {
    let name = package["name"].as_str().unwrap_or_default();
    name.strip_prefix("tollgate-").unwrap_or(name).to_owned()
}

fn folder(package: &Value) -> String {
    let manifest = package["manifest_path"].as_str().unwrap_or_default();
    let manifest = manifest.strip_suffix("/Cargo.toml").unwrap_or(manifest);
    let root = root().to_str().unwrap_or_default();
    let folder = manifest.strip_prefix(root).unwrap_or(manifest);
    folder.trim_start_matches('/').to_owned()
}
