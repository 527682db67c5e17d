//! The control groups (version 2) of this process, and what they limit.

use std::io::{self, ErrorKind};
use std::path::{Component, Path, PathBuf};

use super::reading::{format_error, per_mille, read};

/// The most groups, each inside the next, that are looked at.
const GROUPS_MAX: usize = 32;

/// How much processor time a group has in each period, in microseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Limit {
    quota_us: u64,
    period_us: u64,
}

/// The group of this process and those around it. None where there are no groups of version 2.
pub(super) fn find_groups(root: &Path) -> Vec<PathBuf> {
    let top = root.join("sys/fs/cgroup");
    let own = read(&root.join("proc/self/cgroup")).unwrap_or_default();
    let own = own.lines().find_map(|line| line.strip_prefix("0::/"));
    let Some(own) = own.filter(|_| top.join("cgroup.controllers").exists()) else {
        return Vec::new();
    };
    // A process that was moved out of its namespace has a path that begins with `..`.
    let steps = Path::new(own).components();
    let steps: Option<Vec<_>> = steps
        .map(|step| match step {
            Component::Normal(name) => Some(name),
            _ => None,
        })
        .collect();
    let steps = steps.unwrap_or_default();
    let mut groups = vec![top];
    for step in steps.into_iter().take(GROUPS_MAX - 1) {
        let next = groups[groups.len() - 1].join(step);
        groups.push(next);
    }
    groups
}

/// The use of what a group allows of the memory, in parts of a thousand; `None` if it has no limit.
pub(super) fn read_memory_pressure(group: &Path) -> io::Result<Option<u32>> {
    let path = group.join("memory.max");
    let max = match read_if_there(&path)?.as_deref().map(str::trim) {
        None | Some("max") => return Ok(None),
        Some(max) => max.parse().map_err(|_| format_error(&path))?,
    };
    let path = group.join("memory.current");
    let current: u64 = read(&path)?
        .trim()
        .parse()
        .map_err(|_| format_error(&path))?;
    // The kernel drops these pages first.
    let stat = read(&group.join("memory.stat"))?;
    let mut lines = stat.lines();
    let cached = lines.find_map(|line| line.strip_prefix("inactive_file ")?.parse().ok());
    Ok(Some(per_mille(
        current.saturating_sub(cached.unwrap_or(0)),
        max,
    )))
}

/// A file that the groups without a limit, and the outermost one, may not have.
fn read_if_there(path: &Path) -> io::Result<Option<String>> {
    match read(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        read => read.map(Some),
    }
}

// === impl Limit ===

impl Limit {
    /// The limit of a group; `None` if it has none.
    pub(super) fn read_cpu(group: &Path) -> io::Result<Option<Limit>> {
        let path = group.join("cpu.max");
        let Some(text) = read_if_there(&path)? else {
            return Ok(None);
        };
        let mut words = text.split_whitespace();
        let (quota, period) = (words.next(), words.next());
        if quota == Some("max") {
            return Ok(None);
        }
        let parse = |word: Option<&str>| word?.parse().ok().filter(|number: &u64| *number > 0);
        let (Some(quota_us), Some(period_us)) = (parse(quota), parse(period)) else {
            return Err(format_error(&path));
        };
        Ok(Some(Limit {
            quota_us,
            period_us,
        }))
    }

    /// What this processor time in this time is of the limit, in parts of a thousand.
    pub(super) fn cpu_pressure(self, used_us: u64, elapsed_us: u64) -> u32 {
        per_mille(
            used_us.saturating_mul(self.period_us),
            elapsed_us.saturating_mul(self.quota_us),
        )
    }
}
