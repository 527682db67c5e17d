//! Instructions of a decision, counted by `valgrind`: the same in every run, on any machine with
//! the same instructions, whatever else it does.
//!
//! For each contender this program is started once more under `callgrind`, which counts only what
//! [`COUNTED_FUNCTION`] does: decisions of one thread on warm keys.

use std::process::Command;

use tollgate_bench::callgrind::total;

use crate::load::COUNTED;

/// Hidden: the option with which this program starts a process whose decisions are counted; a
/// scenario and a contender follow.
pub(crate) const COUNT_ONE: &str = "--count-one";

/// What its stack frame is called: that of [`crate::entrant::Entrant::count`].
const COUNTED_FUNCTION: &str = "*decide_counted*";

/// Starts processes under `valgrind`, as long as it can be started.
#[derive(Debug, Default)]
pub(crate) struct Counter {
    has_failed: bool,
}

// === impl Counter ===

impl Counter {
    /// The instructions of one decision. `None` where they cannot be counted, of which the first
    /// reason is printed.
    pub(crate) fn count(&mut self, scenario: &str, contender: &str) -> Option<f64> {
        if self.has_failed {
            return None;
        }
        match count(scenario, contender) {
            Ok(instructions) => Some(instructions),
            Err(reason) => {
                eprintln!("instructions are not counted: {reason}");
                self.has_failed = true;
                None
            }
        }
    }
}

/// Runs a contender under `valgrind`; the error says why that is not possible.
fn count(scenario: &str, contender: &str) -> Result<f64, String> {
    let program = std::env::current_exe().map_err(|error| error.to_string())?;
    let toggle = format!("--toggle-collect={COUNTED_FUNCTION}");
    let output = Command::new("valgrind")
        .args(["--tool=callgrind", "--callgrind-out-file=/dev/null"])
        .args(["--collect-atstart=no", &toggle])
        .arg(program)
        .args([COUNT_ONE, scenario, contender])
        .output()
        .map_err(|error| {
            format!("`valgrind` cannot be started ({error}); apt-get install -y valgrind")
        })?;
    let report = String::from_utf8_lossy(&output.stderr);
    if !output.status.success() {
        let last = report.lines().last().unwrap_or_default();
        return Err(format!("`valgrind` ended with {}: {last}", output.status));
    }
    match total(&report) {
        Some(0) | None => Err("`valgrind` did not report what it counted".to_owned()),
        Some(instructions) => Ok(per_decision(instructions)),
    }
}

#[expect(
    clippy::as_conversions,
    reason = "exact below 2^53, which no count here reaches"
)]
fn per_decision(instructions: u64) -> f64 {
    instructions as f64 / COUNTED as f64
}
