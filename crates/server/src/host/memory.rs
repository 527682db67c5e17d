//! The use of the memory: of the host, and of what the control groups allow.

use std::io;
use std::path::Path;

use super::control_groups::{find_groups, read_memory_pressure};
use super::reading::{format_error, per_mille, read};

/// The use in parts of a thousand: that of the host or that of a control group, whichever is
/// greater. Memory that the kernel can free at once, such as a cache of files, is not used.
pub(super) fn read_use(root: &Path) -> io::Result<u32> {
    let path = root.join("proc/meminfo");
    let host = parse_use(&read(&path)?).ok_or_else(|| format_error(&path))?;
    let mut greatest = host;
    for group in find_groups(root) {
        if let Some(pressure) = read_memory_pressure(&group)? {
            greatest = greatest.max(pressure);
        }
    }
    Ok(greatest)
}

/// `MemTotal` and `MemAvailable` of `/proc/meminfo`.
fn parse_use(text: &str) -> Option<u32> {
    let field = |name: &str| {
        let mut lines = text.lines();
        let value = lines.find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))?;
        let kibibytes: u64 = value.trim().strip_suffix("kB")?.trim().parse().ok()?;
        Some(kibibytes)
    };
    let total = field("MemTotal").filter(|total| *total > 0)?;
    let used = total.saturating_sub(field("MemAvailable")?);
    Some(per_mille(used, total))
}
