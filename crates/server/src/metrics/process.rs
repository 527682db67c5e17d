//! What the process takes from the system, by the names that every client of Prometheus gives it.
//!
//! Read from `/proc`, at each scrape; where the system has none there is no such metric.

use std::fmt::Error;
use std::fs;
use std::time::Duration;

use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use rustix::param::{clock_ticks_per_second, page_size};
use tollgate_listen::open_files;

use super::stores::whole;

/// What `/proc/self/stat` says.
#[derive(Debug, PartialEq, Eq)]
struct Stat {
    /// Ticks of the processors, in user and in system mode.
    cpu_ticks: u64,
    /// Ticks from the boot to the start of the process.
    start_ticks: u64,
    resident_pages: u64,
}

/// Writes what the system says about the process.
pub(super) fn write(encoder: &mut DescriptorEncoder<'_>) -> Result<(), Error> {
    let stat = read("/proc/self/stat").and_then(|text| Stat::parse(&text));
    let boot = read("/proc/stat").and_then(|text| boot_seconds(&text));
    if let Some(stat) = &stat {
        let cpu = ConstCounter::new(span(stat.cpu_ticks).as_secs_f64());
        let about = "Time on processors, in user and in system mode, in seconds";
        let name = "process_cpu_seconds";
        cpu.encode(encoder.encode_descriptor(name, about, None, cpu.metric_type())?)?;
    }
    let resident = stat.as_ref().map(|stat| {
        let page = u64::try_from(page_size()).unwrap_or(u64::MAX);
        whole(stat.resident_pages.saturating_mul(page))
    });
    let started = stat.zip(boot);
    let started = started
        .map(|(stat, boot)| Duration::from_secs(boot).saturating_add(span(stat.start_ticks)));
    let gauges = [
        (
            "process_resident_memory_bytes",
            "Resident memory of the process",
            resident,
        ),
        (
            "process_start_time_seconds",
            "When the process started, in seconds since 1970",
            started.map(|since| since.as_secs_f64()),
        ),
        (
            "process_open_fds",
            "Files and connections that the process has open",
            open_fds().map(whole),
        ),
        (
            "process_max_fds",
            "The most files and connections that the process may have open",
            open_files::limit().map(whole),
        ),
    ];
    for (name, help, value) in gauges {
        let Some(value) = value else { continue };
        let gauge = ConstGauge::new(value);
        gauge.encode(encoder.encode_descriptor(name, help, None, gauge.metric_type())?)?;
    }
    Ok(())
}

// === impl Stat ===

impl Stat {
    /// Reads the line of `proc_pid_stat(5)`, whose second field, the name, may hold anything.
    fn parse(text: &str) -> Option<Stat> {
        let (_, fields) = text.rsplit_once(')')?;
        let fields: Vec<&str> = fields.split_whitespace().collect();
        // The manual counts from 1, and two fields are before these.
        let field = |number: usize| fields.get(number - 3)?.parse::<u64>().ok();
        Some(Stat {
            cpu_ticks: field(14)?.saturating_add(field(15)?),
            start_ticks: field(22)?,
            resident_pages: field(24)?,
        })
    }
}

fn boot_seconds(stat: &str) -> Option<u64> {
    let mut times = stat.lines().filter_map(|line| line.strip_prefix("btime "));
    times.next()?.trim().parse().ok()
}

fn read(path: &str) -> Option<String> {
    // The name of a process may be any bytes.
    let bytes = fs::read(path).ok()?;
    Some(String::from_utf8_lossy(&bytes).into_owned())
}

/// The open descriptors, without the one that counts them.
fn open_fds() -> Option<u64> {
    let count = fs::read_dir("/proc/self/fd").ok()?.count();
    u64::try_from(count.saturating_sub(1)).ok()
}

/// How long so many ticks take.
fn span(ticks: u64) -> Duration {
    let per_second = clock_ticks_per_second().max(1);
    let nanos = ticks % per_second * 1_000_000_000 / per_second;
    Duration::from_secs(ticks / per_second).saturating_add(Duration::from_nanos(nanos))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_with_spaces_and_brackets_moves_no_field() {
        let text = "7 (a) b) c) S 1 7 7 0 -1 4194560 1 2 3 4 250 50 0 0 20 0 9 0 1234 99 77 1 2";
        let expected = Stat {
            cpu_ticks: 300,
            start_ticks: 1234,
            resident_pages: 77,
        };
        assert_eq!(Stat::parse(text), Some(expected));
        assert_eq!(Stat::parse("7 (a) S 1"), None);
    }

    #[test]
    fn the_boot_is_a_line_of_its_own() {
        let text = "cpu 1 2\nintr 5\nbtime 1700000000\nprocesses 9\n";
        assert_eq!(boot_seconds(text), Some(1_700_000_000));
        assert_eq!(boot_seconds("cpu 1\n"), None);
    }
}
