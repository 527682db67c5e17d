//! Where and when the constants were measured.

use std::process::Command;

use serde_json::{Value, json};

/// What was so when the measurement began.
#[derive(Debug)]
pub(crate) struct Origin {
    at: String,
    load: String,
}

// === impl Origin ===

impl Origin {
    pub(crate) fn now() -> Origin {
        Origin {
            at: output("date", &["-u", "+%Y-%m-%dT%H:%M:%SZ"]),
            load: load(),
        }
    }

    /// With the load at the beginning and now.
    pub(crate) fn json(&self) -> Value {
        let mut commit = output("git", &["rev-parse", "--short=12", "HEAD"]);
        // What is written by this program is not a change of what was measured.
        let changes = output(
            "git",
            &["status", "--porcelain", "--", "*.rs", "*.lua", "*.toml"],
        );
        if !changes.is_empty() {
            commit.push_str(" with uncommitted changes");
        }
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        json!({
            "at": self.at,
            "commit": commit,
            "processor": processor(),
            "processors": cores,
            "redis": redis_version(),
            "load_average": format!("{} before, {} after", self.load, load()),
        })
    }
}

/// The model of the processors.
fn processor() -> String {
    let text = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let line = text.lines().find(|line| line.starts_with("model name"));
    let model = line.and_then(|line| line.split_once(": "));
    model.map_or("unknown".to_owned(), |(_, model)| model.to_owned())
}

/// The load average of the last minute.
fn load() -> String {
    let text = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    text.split(' ').next().unwrap_or_default().to_owned()
}

fn redis_version() -> String {
    let text = output("redis-server", &["--version"]);
    let version = text.split(' ').find_map(|word| word.strip_prefix("v="));
    version.unwrap_or("unknown").to_owned()
}

/// What a program prints; empty if it cannot be run.
fn output(program: &str, arguments: &[&str]) -> String {
    let output = Command::new(program).args(arguments).output();
    let text = output.map(|output| String::from_utf8_lossy(&output.stdout).trim().to_owned());
    text.unwrap_or_default()
}
