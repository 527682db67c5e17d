//! The process of a server that is measured.

use std::error::Error;
use std::fs;
use std::thread::sleep;
use std::time::Duration;

use tollgate_testbed::Process;

/// How often a process that is to end is looked at, and how long between.
const LOOKED_MOST: usize = 1200;
const LOOKED_EVERY: Duration = Duration::from_millis(50);

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

/// Starts a command whose instructions are counted by `valgrind`, with one thread for requests. At
/// its end, the report is in this file, for [`crate::callgrind::read_total`]. What it logs is
/// discarded.
///
/// # Errors
///
/// If it ends at once.
pub fn start_counted(report: &str, words: Vec<String>) -> Result<Process, Box<dyn Error>> {
    let counted = "echo started; TOKIO_WORKER_THREADS=1 exec valgrind --tool=callgrind \
         --callgrind-out-file=/dev/null --log-file=\"$0\" \"$@\" 2>/dev/null";
    let mut arguments = vec!["-c".to_owned(), counted.to_owned(), report.to_owned()];
    let program = words.first().cloned().unwrap_or_default();
    arguments.extend(words);
    let process = Process::start("sh", &arguments, "started");
    process.ok_or_else(|| format!("valgrind does not start {program}").into())
}

/// Ends a process, and waits until it has ended.
///
/// # Errors
///
/// If it does not end.
#[expect(
    clippy::disallowed_methods,
    reason = "waits for a real process, on a thread of no runtime"
)]
pub fn end(process: &Process) -> Result<(), Box<dyn Error>> {
    process.signal("TERM");
    let status = format!("/proc/{}/stat", process.number());
    let tasks = format!("/proc/{}/task", process.number());
    for _looked in 0..LOOKED_MOST {
        let state = fs::read_to_string(&status).unwrap_or_default();
        // The first thread may have ended before the others: valgrind reports with its last one.
        let threads = fs::read_dir(&tasks).map_or(0, Iterator::count);
        if state.is_empty() || (state.contains(") Z ") && threads <= 1) {
            return Ok(());
        }
        sleep(LOOKED_EVERY);
    }
    Err(format!("process {} does not end", process.number()).into())
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
