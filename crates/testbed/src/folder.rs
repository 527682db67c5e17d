//! A folder that goes when its owner does.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

/// An empty folder of this process; removed when dropped.
#[derive(Debug)]
pub struct Folder(PathBuf);

// === impl Folder ===

impl Folder {
    /// A new folder.
    ///
    /// # Panics
    ///
    /// If there is no place for it.
    pub fn new() -> Folder {
        static NUMBER: AtomicU64 = AtomicU64::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let name = format!("tollgate-{}-{number}", std::process::id());
        let path = std::env::temp_dir().join(name);
        // Whoever had our process' number before may have ended without dropping its folder.
        let _nobody_did = std::fs::remove_dir_all(&path);
        std::fs::create_dir(&path).expect("the temporary folder is writable");
        Folder(path)
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.0
    }

    /// A file's path in it, as text.
    pub fn file(&self, name: &str) -> String {
        self.0.join(name).display().to_string()
    }
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
