//! The use of the processors between two samples, and what the control groups allow of them.

use std::io;
use std::path::{Path, PathBuf};

use tollgate_core::Moment;

use super::control_groups::{Limit, find_groups};
use super::reading::{format_error, per_mille, read};

/// Compares each reading with the one before.
#[derive(Debug, Default)]
pub(super) struct CpuMeter(Option<Reading>);

#[derive(Debug)]
struct Reading {
    at: Moment,
    host: HostTime,
    groups: Vec<GroupTime>,
}

/// Since the host has started, in ticks of all its processors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct HostTime {
    total: u64,
    idle: u64,
}

/// What a control group with a limit has used.
#[derive(Debug)]
struct GroupTime {
    group: PathBuf,
    used_us: u64,
    limit: Limit,
}

// === impl CpuMeter ===

impl CpuMeter {
    /// The use since the last call, in parts of a thousand: that of the host or that of a control
    /// group, whichever is greater. `None` if there is nothing to compare with yet.
    pub(super) fn sample(&mut self, root: &Path, now: Moment) -> io::Result<Option<u32>> {
        let last = self.0.take();
        let reading = Reading::read(root, now)?;
        let pressure = last.and_then(|last| reading.pressure_since(&last));
        self.0 = Some(reading);
        Ok(pressure)
    }
}

// === impl Reading ===

impl Reading {
    fn read(root: &Path, at: Moment) -> io::Result<Reading> {
        let path = root.join("proc/stat");
        let host = HostTime::parse(&read(&path)?).ok_or_else(|| format_error(&path))?;
        let mut groups = Vec::new();
        for group in find_groups(root) {
            if let Some(limit) = Limit::read_cpu(&group)? {
                let used_us = read_used_us(&group)?;
                groups.push(GroupTime {
                    group,
                    used_us,
                    limit,
                });
            }
        }
        Ok(Reading { at, host, groups })
    }

    /// The use between two readings, in parts of a thousand; `None` if no time lies between them.
    fn pressure_since(&self, last: &Reading) -> Option<u32> {
        let elapsed_us = self.at.since(last.at).as_nanos() / 1000;
        if elapsed_us == 0 {
            return None;
        }
        let total = self.host.total.checked_sub(last.host.total)?;
        // The kernel has counted back the idle time of a processor before.
        let idle = self.host.idle.saturating_sub(last.host.idle);
        let host = match total {
            0 => return None,
            total => per_mille(total.saturating_sub(idle), total),
        };
        let groups = self.groups.iter().filter_map(|now| {
            let mut before = last.groups.iter();
            let before = before.find(|before| before.group == now.group)?;
            let used_us = now.used_us.saturating_sub(before.used_us);
            Some(now.limit.cpu_pressure(used_us, elapsed_us))
        });
        groups.chain([host]).max()
    }
}

/// The processor time of a group, in microseconds.
fn read_used_us(group: &Path) -> io::Result<u64> {
    let path = group.join("cpu.stat");
    let text = read(&path)?;
    let mut lines = text.lines();
    let used = lines.find_map(|line| line.strip_prefix("usage_usec ")?.trim().parse().ok());
    used.ok_or_else(|| format_error(&path))
}

// === impl HostTime ===

impl HostTime {
    /// The first line of `/proc/stat`: user, nice, system, idle, iowait, irq, softirq, steal. What
    /// follows is part of the first two. Time that a hypervisor has stolen is not idle.
    fn parse(text: &str) -> Option<HostTime> {
        let fields = text.lines().next()?.strip_prefix("cpu ")?;
        let fields = fields.split_whitespace().take(8).map(str::parse);
        let fields: Vec<u64> = fields.collect::<Result<_, _>>().ok()?;
        let idle = fields.get(3)?.saturating_add(*fields.get(4)?);
        let total = fields
            .iter()
            .fold(0, |sum: u64, one| sum.saturating_add(*one));
        Some(HostTime { total, idle })
    }
}
