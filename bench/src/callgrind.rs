//! What `valgrind --tool=callgrind` reports.

use std::error::Error;
use std::fs;

/// The instructions that were executed, from its last lines: `==7== Collected : 1234`.
pub fn total(report: &str) -> Option<u64> {
    let line = report
        .lines()
        .find_map(|line| line.split_once("Collected :"));
    line.and_then(|(_, number)| number.trim().parse().ok())
}

/// The same, from the file that `--log-file` names.
///
/// # Errors
///
/// If there is no such file, or no such line.
pub fn read_total(path: &str) -> Result<u64, Box<dyn Error>> {
    let report = fs::read_to_string(path)?;
    let found = total(&report);
    found.ok_or_else(|| format!("valgrind does not say what it counted: {report}").into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_count_is_found_in_what_valgrind_writes() {
        let report = "==7== Events    : Ir\n==7== Collected : 1638400\n==7==\n";
        assert_eq!(total(report), Some(1_638_400));
        assert_eq!(total("==7== Collected : none"), None);
    }
}
