//! A file that the kernel writes, and shares of what it counts.

use std::fs;
use std::io;
use std::path::Path;

/// The largest share. Counters that make no sense can have any.
const PER_MILLE_MAX: u32 = u32::MAX - 1;

/// `part` of `whole`, in parts of a thousand, rounded up; 0 of nothing.
pub(super) fn per_mille(part: u64, whole: u64) -> u32 {
    let scaled = u128::from(part) * 1000;
    let share = scaled.div_ceil(u128::from(whole.max(1)));
    u32::try_from(share).unwrap_or(PER_MILLE_MAX)
}

pub(super) fn format_error(path: &Path) -> io::Error {
    let problem = format!("{} is not as Linux writes it", path.display());
    io::Error::new(io::ErrorKind::InvalidData, problem)
}

pub(super) fn read(path: &Path) -> io::Result<String> {
    fs::read_to_string(path).map_err(|error| {
        let problem = format!("{}: {error}", path.display());
        io::Error::new(error.kind(), problem)
    })
}
