//! A server whose clock is wrong.

use std::path::PathBuf;

/// How to get the library that fakes a program's clock.
const MISSING: &str = "no libfaketime, which gives a server a wrong clock: apt-get install \
                       faketime, or name the library in TOLLGATE_FAKETIME";

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
