//! The commands as processes.
#![allow(clippy::unwrap_used)]

#[cfg(all(target_os = "linux", target_env = "gnu"))]
mod address_space;
mod bounds;
mod checking;
mod deploying;
mod driving;
mod ending_early;
mod explaining;
mod house;
mod keys;
mod log_formats;
mod log_output;
mod monitoring;
mod open_files;
mod outputs;
mod planning;
mod prometheus;
mod remote_explaining;
mod replaying;
mod schema;
mod serving;
mod simulating;
mod suggesting;
mod tls;
mod top;

use serde_json::Value;

use house::{directory, run};

#[test]
fn schema_writes_json() {
    let output = run(directory(&[]).path(), &["schema"]);
    assert_eq!(output.status.code(), Some(0));
    let schema: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert!(schema["$schema"].as_str().unwrap().contains("2020-12"));
}
