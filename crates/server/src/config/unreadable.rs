//! Which entries of `rules` cannot be read.

use std::io::ErrorKind;
use std::path::Path;

use tollgate_backends::BACKENDS;
use tollgate_rules::{Diagnostic, ReadError, SettingPlaces, read_regular_paths};

use super::{Config, hide_secrets};

// === impl Config ===

impl Config {
    /// An error for each entry of `rules` that cannot be read, at its place in the settings file.
    /// Pipes are not opened, because that could wait for ever; the service reads none.
    pub fn unreadable_rules(&self) -> Vec<Diagnostic> {
        let file = self.file.iter().cloned().collect::<Vec<_>>();
        let sources = read_regular_paths(&file).unwrap_or_default();
        let Some(source) = sources.first() else {
            return Vec::new();
        };
        let places = SettingPlaces::new(source);
        let rules = self.rules.iter().enumerate();
        let found = rules.filter_map(|(index, path)| {
            let error = read_regular_paths(std::slice::from_ref(path)).err()?;
            let cause = std::error::Error::source(&error);
            let cause = cause.map(|cause| format!(": {cause}")).unwrap_or_default();
            let message = format!("the setting `rules`: {error}{cause}");
            let at = format!("rules[{index}]");
            Some(places.error(&at, "unreadable", message, help(&error, path)))
        });
        let mut found: Vec<Diagnostic> = found.collect();
        hide_secrets(&mut found, &source.text, BACKENDS);
        found
    }
}

/// What to write instead of a path that cannot be read.
fn help(error: &ReadError, path: &Path) -> &'static str {
    match error {
        _ if path.to_string_lossy().contains('*') => {
            "name the directory, of which all `*.yaml` and `*.yml` are read; `*` is not expanded"
        }
        ReadError::Io { source, .. } if source.kind() == ErrorKind::NotFound => {
            "write the path of a file or a directory, relative to this settings file"
        }
        ReadError::Io { source, .. } if source.kind() == ErrorKind::InvalidInput => {
            "name a regular file or a directory: a pipe or a device may have no end"
        }
        ReadError::Io { .. } => "name a file that this user may read",
        ReadError::NoFiles { .. } => "name a directory of rules files, or a file",
        _ => "name fewer or smaller files",
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use std::fs;

    use tempfile::TempDir;

    use super::*;

    #[test]
    fn each_entry_that_cannot_be_read_is_an_error_at_its_place() {
        let directory = TempDir::new().unwrap();
        let file = directory.path().join("tollgate.yaml");
        fs::write(directory.path().join("good.yaml"), "domain: d\n").unwrap();
        fs::create_dir(directory.path().join("empty")).unwrap();
        for (rules, expected) in [
            ("rules: [good.yaml]", &[][..]),
            (
                "rules: [good.yaml, nope.yaml, '*.yaml']",
                &[
                    ("1:20", "write the path of a file or a directory"),
                    ("1:31", "name the directory, of which all"),
                ],
            ),
            (
                "rules: nope.yaml",
                &[("1:8", "relative to this settings file")],
            ),
            (
                "rules: [empty]",
                &[("1:9", "name a directory of rules files")],
            ),
        ] {
            fs::write(&file, rules).unwrap();
            let found = Config::read(&file).unwrap().unreadable_rules();
            assert_eq!(found.len(), expected.len(), "{rules}");
            for (found, (place, help)) in found.iter().zip(expected) {
                let found = found.to_string();
                let place = format!("tollgate.yaml:{place}\n");
                assert!(
                    found.contains(&place) && found.contains(help),
                    "{rules}: {found}"
                );
            }
        }
    }
}
