//! The process of a server that is measured.

use std::error::Error;
use std::fs;
use std::time::Duration;

use tollgate_testbed::Process;

/// Starts a command on one core. What it logs is discarded.
///
/// # Errors
///
/// If it ends at once.
pub fn start_on_core(core: &str, words: Vec<String>) -> Result<Process, Box<dyn Error>> {
    let pinned = "echo started; exec taskset -c \"$0\" \"$@\" 2>/dev/null";
    let mut arguments = vec!["-c".to_owned(), pinned.to_owned(), core.to_owned()];
    let program = words.first().cloned().unwrap_or_default();
    arguments.extend(words);
    let process = Process::start("sh", &arguments, "started");
    process.ok_or_else(|| format!("{program} does not start on core {core}").into())
}

/// The processor time of a process until now, in user and kernel mode: that of all its threads.
///
/// # Errors
///
/// If there is no such process.
pub fn cpu_time(process: &Process) -> Result<Duration, Box<dyn Error>> {
    cpu_time_of(process.number())
}

/// As [`cpu_time`], of the process with this number.
///
/// # Errors
///
/// If there is no such process.
pub fn cpu_time_of(number: &str) -> Result<Duration, Box<dyn Error>> {
    let mut nanos = 0;
    for thread in fs::read_dir(format!("/proc/{number}/task"))? {
        // Nanoseconds on a processor come first; a thread may just have ended.
        let times = fs::read_to_string(thread?.path().join("schedstat")).unwrap_or_default();
        nanos += times.split(' ').next().unwrap_or("0").parse().unwrap_or(0);
    }
    Ok(Duration::from_nanos(nanos))
}
