//! What test programs print of their results: how many passed, and the words of those that failed.

/// The lines that are kept of one failed test: few tests print as many before they panic.
const LINES_OF_A_TEST: usize = 20;
/// The failed tests of which lines are kept.
const TESTS_KEPT: usize = 20;

/// The results of the tests of a command, read from its output line by line.
#[derive(Default)]
pub(crate) struct TestResults {
    pub(crate) passed: u64,
    pub(crate) failed: u64,
    /// The first lines that each failed test printed, below one with its name.
    failures: Vec<Vec<String>>,
    /// Whether the lines that come are the output of the last failure.
    in_failure: bool,
}

// === impl TestResults ===

impl TestResults {
    /// Reads one line of a test program's output.
    pub(crate) fn read(&mut self, line: &str) {
        if let Some(counts) = line.strip_prefix("test result: ") {
            self.in_failure = false;
            self.passed += count_before(counts, " passed;");
            self.failed += count_before(counts, " failed;");
        } else if is_heading(line) {
            self.in_failure = self.failures.len() < TESTS_KEPT;
            if self.in_failure {
                self.failures.push(vec![line.to_owned()]);
            }
        } else if line == "failures:" {
            // The names of all failed tests follow.
            self.in_failure = false;
        } else if self.in_failure && !line.trim().is_empty() {
            self.keep(line);
        }
    }

    /// Adds the results of another command.
    pub(crate) fn add(&mut self, other: TestResults) {
        self.passed += other.passed;
        self.failed += other.failed;
        let room = TESTS_KEPT.saturating_sub(self.failures.len());
        self.failures.extend(other.failures.into_iter().take(room));
    }

    /// The failed tests and the first lines that each printed.
    pub(crate) fn failures(&self) -> impl Iterator<Item = &str> {
        self.failures.iter().flatten().map(String::as_str)
    }

    fn keep(&mut self, line: &str) {
        if let Some(failure) = self.failures.last_mut()
            && failure.len() <= LINES_OF_A_TEST
        {
            failure.push(line.to_owned());
        }
    }
}

/// Whether what a failed test printed follows: `---- module::test stdout ----`.
fn is_heading(line: &str) -> bool {
    line.starts_with("---- ") && line.ends_with(" ----")
}

/// The number before `what` in `ok. 7 passed; 0 failed; ...`; 0 if there is none.
fn count_before(counts: &str, what: &str) -> u64 {
    let before = counts.split(what).next().unwrap_or_default();
    let number = before.split_whitespace().next_back();
    number.and_then(|number| number.parse().ok()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(output: &str) -> TestResults {
        let mut results = TestResults::default();
        for line in output.lines() {
            results.read(line);
        }
        results
    }

    #[test]
    fn closing_lines_are_added_up() {
        let results = read(
            "test result: ok. 7 passed; 0 failed; 1 ignored; 0 measured\n\
             test result: FAILED. 12 passed; 3 failed; 0 ignored; 0 measured\n\
             test passed_5_failed ... ok",
        );
        assert_eq!((results.passed, results.failed), (19, 3));
    }

    const FAILED: &str = "\
test a::one ... FAILED
test a::two ... ok

failures:

---- a::one stdout ----

thread 'a::one' panicked at src/a.rs:7:5:
two limits


failures:
    a::one

test result: FAILED. 1 passed; 1 failed; 0 ignored; 0 measured; 0 filtered out";

    #[test]
    fn what_a_failed_test_printed_is_kept() {
        let mut all = read("test result: ok. 7 passed; 0 failed; 1 ignored; 0 measured");
        all.add(read(FAILED));
        let failures: Vec<&str> = all.failures().collect();
        let panicked = "thread 'a::one' panicked at src/a.rs:7:5:";
        assert_eq!(
            failures,
            ["---- a::one stdout ----", panicked, "two limits"]
        );
        assert_eq!((all.passed, all.failed), (8, 1));
    }

    #[test]
    fn no_more_than_the_first_lines_of_the_first_tests_are_kept() {
        let mut results = TestResults::default();
        for test in 0..TESTS_KEPT + 5 {
            results.read(&format!("---- test{test} stdout ----"));
            for line in 0..LINES_OF_A_TEST + 5 {
                results.read(&format!("{test}.{line}"));
            }
        }
        let failures: Vec<&str> = results.failures().collect();
        assert_eq!(failures.len(), TESTS_KEPT * (LINES_OF_A_TEST + 1));
        assert_eq!(failures.last(), Some(&"19.19"));
    }
}
