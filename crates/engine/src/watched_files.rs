//! Which changes in watched directories concern what is read.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

/// The files that are read, and the directories that show changes of them.
#[derive(Debug, Default)]
pub(crate) struct WatchedFiles {
    names: BTreeSet<OsString>,
    /// Those of which every file may be read.
    whole: BTreeSet<PathBuf>,
    directories: BTreeSet<PathBuf>,
}

// === impl WatchedFiles ===

impl WatchedFiles {
    /// Those at these paths: of a link, also what it leads to.
    pub(crate) fn at<'a>(paths: impl Iterator<Item = &'a PathBuf>) -> WatchedFiles {
        let mut files = WatchedFiles::default();
        for path in paths {
            let real = path.canonicalize().ok();
            files.directories.insert(parent(path));
            if path.is_dir() {
                files.directories.insert(path.clone());
                files.whole.extend(real.clone());
            } else {
                files.directories.extend(real.as_deref().map(parent));
            }
            let known = [Some(path.as_path()), real.as_deref()].into_iter();
            let names = known.flatten().filter_map(Path::file_name);
            files.names.extend(names.map(OsString::from));
        }
        files
    }

    /// The directories to watch: that of each file, that to which a link leads, and each directory
    /// of rules with its parent.
    pub(crate) const fn directories(&self) -> &BTreeSet<PathBuf> {
        &self.directories
    }

    /// Whether a change at this path may concern what is read. That of another plain file does
    /// not: a log beside the rules would have them read again at each of its lines. A link or a
    /// directory may lead to what is read, and what is gone may have been one.
    pub(crate) fn may_concern(&self, path: &Path) -> bool {
        let is_plain = path.symlink_metadata().is_ok_and(|found| found.is_file());
        let is_named = || {
            path.file_name()
                .is_some_and(|name| self.names.contains(name))
        };
        let is_inside = || {
            let directory = path.parent().and_then(|parent| parent.canonicalize().ok());
            directory.is_some_and(|directory| self.whole.contains(&directory))
        };
        !is_plain || is_named() || is_inside()
    }
}

fn parent(path: &Path) -> PathBuf {
    match path.parent() {
        Some(parent) if parent != Path::new("") => parent.to_owned(),
        _ => PathBuf::from("."),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use std::fs;
    use std::os::unix::fs::symlink;

    use tollgate_testbed::Folder;

    use super::*;

    #[test]
    fn only_other_plain_files_do_not_concern_what_is_read() {
        let folder = Folder::new();
        let at = |name: &str| folder.path().join(name);
        fs::create_dir_all(at("rules")).unwrap();
        fs::create_dir_all(at("..2026")).unwrap();
        for name in ["tollgate.yaml", "access.log", "rules/a.yaml", "..2026/keys"] {
            fs::write(at(name), "").unwrap();
        }
        symlink(at("..2026"), at("..data")).unwrap();
        symlink(at("..data").join("keys"), at("jwks.json")).unwrap();
        let paths = ["tollgate.yaml", "rules", "jwks.json", "later.txt"].map(at);
        let watched = WatchedFiles::at(paths.iter());
        for name in [
            "tollgate.yaml",
            "rules/a.yaml",
            "..2026/keys",
            "..data",
            "rules",
            "gone",
        ] {
            assert!(watched.may_concern(&at(name)), "{name}");
        }
        assert!(!watched.may_concern(&at("access.log")));
        fs::write(at("later.txt"), "").unwrap();
        assert!(watched.may_concern(&at("later.txt")));
    }
}
