//! Clocks of servers: one that is wrong, and windows that do not end while a test runs.

use std::path::PathBuf;
use std::time::{SystemTime, UNIX_EPOCH};

/// How to get the library that fakes a program's clock.
const MISSING: &str = "no libfaketime, which gives a server a wrong clock: apt-get install \
                       faketime, or name the library in TOLLGATE_FAKETIME";

/// How many hours a window has, nearly a year, so that about a third of it is over: neither it nor
/// a quarter, fifth or sixth of it ends while a test runs. Windows begin at multiples of their
/// length since 1970.
///
/// The number is the same for 16 days, so that all processes of a test use the same.
///
/// # Panics
///
/// If this machine's clock is before 1970.
#[must_use]
#[expect(clippy::disallowed_methods, reason = "as exact as 16 days")]
pub fn window_hours() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    let days = now.expect("it is after 1970").as_secs() / 86_400 / 16 * 16;
    let windows = days / 366 + 1;
    days * 24 * 100 / (100 * windows + 35)
}

/// The command prefix that starts a program with a clock so many seconds ahead, or behind if
/// negative. Timers of the program run as usual.
pub(crate) fn wrong_by(seconds: i32) -> Vec<String> {
    // The C library's allocator replaces Redis's own, which reads the clock before the faked one is
    // ready.
    let preload = format!("LD_PRELOAD={} libc.so.6", library().display());
    let shift = format!("FAKETIME={seconds:+}s");
    let words = ["env", &preload, &shift, "FAKETIME_DONT_FAKE_MONOTONIC=1"];
    words.map(str::to_owned).into()
}

/// The path of the library: `TOLLGATE_FAKETIME`, or where Debian or Fedora put it.
fn library() -> PathBuf {
    if let Some(named) = std::env::var_os("TOLLGATE_FAKETIME") {
        return PathBuf::from(named);
    }
    let below = ["/usr/lib", "/usr/lib64"].into_iter().flat_map(|root| {
        let folders = std::fs::read_dir(root).into_iter().flatten();
        let folders = folders.map_while(Result::ok).map(|entry| entry.path());
        folders.chain([PathBuf::from(root)])
    });
    let places = ["faketime/libfaketime.so.1", "libfaketime.so.1"];
    let mut candidates = below.flat_map(|folder| places.map(|place| folder.join(place)));
    candidates.find(|path| path.is_file()).expect(MISSING)
}
