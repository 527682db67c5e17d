//! A folder that is removed with its owner.

use std::path::{Path, PathBuf};
use std::sync::Once;
use std::sync::atomic::{AtomicU64, Ordering};

/// The prefix of all folders' names, before the number of their process.
const PREFIX: &str = "tollgate-";
/// The directory of running processes, by their numbers.
const PROCESSES: &str = "/proc";

/// An empty folder of this process; removed when dropped.
#[derive(Debug)]
pub struct Folder(PathBuf);

// === impl Folder ===

impl Folder {
    /// A new folder.
    ///
    /// # Panics
    ///
    /// If it cannot be created.
    pub fn new() -> Folder {
        static NUMBER: AtomicU64 = AtomicU64::new(0);
        static SWEPT: Once = Once::new();
        SWEPT.call_once(sweep);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let name = format!("{PREFIX}{}-{number}", std::process::id());
        let path = std::env::temp_dir().join(name);
        // An earlier process with our number may have ended without dropping its folder.
        let _nobody_did = std::fs::remove_dir_all(&path);
        std::fs::create_dir(&path).expect("the temporary folder is writable");
        Folder(path)
    }

    /// Its path.
    pub fn path(&self) -> &Path {
        &self.0
    }

    /// A file's path in it, as text.
    pub fn file(&self, name: &str) -> String {
        self.0.join(name).display().to_string()
    }
}

/// Removes the folders of processes that have ended: what lives until the end of a test's process,
/// such as a server that all its tests share, is never dropped.
fn sweep() {
    let processes = Path::new(PROCESSES);
    if !processes.join(std::process::id().to_string()).exists() {
        return;
    }
    let entries = std::fs::read_dir(std::env::temp_dir());
    for entry in entries.into_iter().flatten().flatten() {
        let name = entry.file_name();
        let process = name.to_str().and_then(process_of);
        if process.is_some_and(|process| !processes.join(process).exists()) {
            let _gone_already = std::fs::remove_dir_all(entry.path());
        }
    }
}

/// The number of the process whose folder has this name, if it is one of ours.
fn process_of(name: &str) -> Option<&str> {
    let (process, number) = name.strip_prefix(PREFIX)?.split_once('-')?;
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    (is_number(process) && is_number(number)).then_some(process)
}

impl Default for Folder {
    fn default() -> Folder {
        Folder::new()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _gone_already = std::fs::remove_dir_all(&self.0);
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn only_folders_of_ended_processes_are_swept() {
        let (own, ended) = (Folder::new(), std::env::temp_dir());
        // No process has this number: it is beyond the largest that Linux gives.
        let ended = ended.join(format!("{PREFIX}4194305-0"));
        std::fs::create_dir_all(ended.join("within")).unwrap();
        sweep();
        assert!(own.path().exists());
        assert!(!ended.exists());
        for strange in [
            "tollgate",
            "tollgate-7",
            "tollgate-x-0",
            "tollgate-7-",
            "other-7-0",
        ] {
            assert_eq!(process_of(strange), None);
        }
        assert_eq!(process_of("tollgate-7-12"), Some("7"));
    }
}
