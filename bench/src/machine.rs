//! What the operating system is asked for: cores, and how much memory is resident.

use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

/// Keeps this thread on one of the cores that the process may use, in turn by `number`.
///
/// Where that cannot be had, the thread runs where it is put.
pub fn pin(number: usize) {
    let Ok(allowed) = sched_getaffinity(None) else {
        return;
    };
    let cores: Vec<usize> = (0..CpuSet::MAX_CPU)
        .filter(|core| allowed.is_set(*core))
        .collect();
    if cores.is_empty() {
        return;
    }
    let mut own = CpuSet::new();
    own.set(cores[number % cores.len()]);
    // Without effect at worst: threads are then where the scheduler puts them.
    let _placed = sched_setaffinity(None, &own);
}

/// Bytes of this process that are in memory now.
pub fn resident_bytes() -> u64 {
    resident_bytes_of("self")
}

/// Bytes of the process with this number that are in memory now; 0 if there is none.
pub fn resident_bytes_of(process: &str) -> u64 {
    let rollup = format!("/proc/{process}/smaps_rollup");
    let rollup = std::fs::read_to_string(rollup).unwrap_or_default();
    let line = rollup.lines().find_map(|line| line.strip_prefix("Rss:"));
    let kibibytes = line.and_then(|line| line.trim().strip_suffix(" kB"));
    kibibytes
        .and_then(|number| number.parse().ok())
        .map_or(0, |kibibytes: u64| kibibytes * 1024)
}
