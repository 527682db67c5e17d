//! One command of a chore: shown, timed, and its tests counted.

use std::ffi::OsStr;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use xtask::source::root;

use crate::test_results::TestResults;

/// A command that is about to run.
pub(crate) struct Step {
    name: &'static str,
    command: Command,
    runs_tests: bool,
}

/// What came of a step.
pub(crate) struct Outcome {
    pub(crate) name: &'static str,
    pub(crate) took: Duration,
    pub(crate) tests: TestResults,
    pub(crate) problem: Option<String>,
}

/// Where everything that is built goes: `part` of the target directory.
pub(crate) fn target(part: &str) -> PathBuf {
    let target = std::env::var_os("CARGO_TARGET_DIR").unwrap_or_else(|| "target".into());
    root().join(target).join(part)
}

// === impl Step ===

impl Step {
    /// `program`, run in the root of the project.
    pub(crate) fn new(name: &'static str, program: impl AsRef<OsStr>) -> Step {
        let mut command = Command::new(program);
        command.current_dir(root());
        Step {
            name,
            command,
            runs_tests: false,
        }
    }

    /// Cargo, the one that runs this program.
    pub(crate) fn cargo(name: &'static str, args: &[&str]) -> Step {
        let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
        Step::new(name, cargo).args(args)
    }

    pub(crate) fn args<A: AsRef<OsStr>>(mut self, args: impl IntoIterator<Item = A>) -> Step {
        self.command.args(args);
        self
    }

    pub(crate) fn env(mut self, variable: &str, value: impl AsRef<OsStr>) -> Step {
        self.command.env(variable, value);
        self
    }

    /// Requires that a test passes: without one, nothing was tested.
    pub(crate) fn runs_tests(mut self) -> Step {
        self.runs_tests = true;
        self
    }

    /// Runs it to its end, its words passed on as they come.
    pub(crate) fn outcome(mut self) -> Outcome {
        println!("\n=== {}: {}", self.name, self.words());
        let start = Instant::now();
        let mut tests = TestResults::default();
        let problem = self.watch(&mut tests).err();
        Outcome {
            name: self.name,
            took: start.elapsed(),
            tests,
            problem,
        }
    }

    /// Runs it; says what went wrong.
    pub(crate) fn run(self) -> Result<(), String> {
        let Outcome { took, problem, .. } = self.outcome();
        println!("=== {:.1} s", took.as_secs_f64());
        problem.map_or(Ok(()), Err)
    }

    fn watch(&mut self, tests: &mut TestResults) -> Result<(), String> {
        let child = self.command.stdout(Stdio::piped()).spawn();
        let mut child = child.map_err(|error| format!("{}: {error}", self.words()))?;
        let stdout = child.stdout.take().map(BufReader::new);
        for line in stdout.into_iter().flat_map(BufRead::lines) {
            let line = line.map_err(|error| format!("{}: {error}", self.words()))?;
            println!("{line}");
            tests.read(&line);
        }
        let status = child.wait().map_err(|error| error.to_string())?;
        if !status.success() {
            return Err(format!("`{}` failed ({status})", self.words()));
        }
        if self.runs_tests && tests.passed == 0 {
            return Err(format!("`{}` ran no test", self.words()));
        }
        Ok(())
    }

    fn words(&self) -> String {
        let program = Path::new(self.command.get_program());
        let program = program.file_name().unwrap_or(program.as_os_str());
        let words = std::iter::once(program).chain(self.command.get_args());
        let words = words.map(OsStr::to_string_lossy);
        words.collect::<Vec<_>>().join(" ")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What comes of a step whose program prints this line.
    fn step(line: &str) -> Step {
        Step::new("echo", "echo").args([line])
    }

    #[test]
    fn a_step_of_tests_that_runs_none_fails() {
        let none = "test result: ok. 0 passed; 0 failed; 0 ignored; 0 measured; 9 filtered out";
        let problem = step(none).runs_tests().outcome().problem;
        assert_eq!(problem, Some(format!("`echo {none}` ran no test")));
        assert_eq!(step("running 0 tests").outcome().problem, None);
        let one = "test result: ok. 1 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out";
        assert_eq!(step(one).runs_tests().outcome().problem, None);
    }
}
