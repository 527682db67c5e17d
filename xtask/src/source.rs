//! The Rust files of the project, and its pages.

use std::fs;
use std::path::{Path, PathBuf};

/// Where people write Rust.
const FOLDERS: [&str; 6] = ["crates", "attack", "xtask", "bench", "fuzz", "examples"];
/// The first lines of a file, where it may opt out of a budget.
const HEAD_LINES: usize = 10;

/// A source file.
pub struct Source {
    /// Relative to the root of the project.
    pub path: String,
    /// All of it.
    pub text: String,
}

/// The root of the project.
#[must_use]
pub fn root() -> &'static Path {
    let own = Path::new(env!("CARGO_MANIFEST_DIR"));
    own.parent().unwrap_or(own)
}

/// Every Rust file of the project, in the order of their paths.
///
/// # Panics
///
/// If a file cannot be read.
#[must_use]
pub fn sources() -> Vec<Source> {
    let mut folders: Vec<PathBuf> = FOLDERS.map(|folder| root().join(folder)).to_vec();
    let mut sources = Vec::new();
    while let Some(folder) = folders.pop() {
        let Ok(entries) = fs::read_dir(&folder) else {
            continue;
        };
        for entry in entries {
            let path = entry.expect("a folder can be listed").path();
            if path.is_dir() && !path.ends_with("target") {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                sources.push(Source::read(&path));
            }
        }
    }
    assert!(sources.len() > 20, "no source files below {FOLDERS:?}");
    sources.sort_unstable_by(|one, other| one.path.cmp(&other.path));
    sources
}

/// The folders of pages: those with the source code have Lua, protobuf, manifests, READMEs, and
/// the description of the HTTP API.
const PAGE_FOLDERS: [&str; 7] = [
    "docs", "examples", "crates", "attack", "bench", "fuzz", "xtask",
];
/// The pages at the top. `clippy.toml` and `deny.toml` have reasons in them.
const PAGES_AT_THE_TOP: [&str; 7] = [
    "README.md",
    "ARCHITECTURE.md",
    "CONTRIBUTING.md",
    "CHANGELOG.md",
    "Cargo.toml",
    "clippy.toml",
    "deny.toml",
];

/// Every file that people read beside the Rust: Markdown, configurations and examples, manifests,
/// Lua, protobuf, and the description of the HTTP API; in the order of their paths.
///
/// # Panics
///
/// If a file cannot be read.
#[must_use]
pub fn pages() -> Vec<Source> {
    let mut folders: Vec<PathBuf> = PAGE_FOLDERS.map(|name| root().join(name)).to_vec();
    let mut pages = Vec::new();
    pages.extend(PAGES_AT_THE_TOP.map(|name| Source::read(&root().join(name))));
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).expect("a folder can be listed") {
            let path = entry.expect("a folder can be listed").path();
            if path.is_dir() && !path.ends_with("target") {
                folders.push(path);
            } else if is_page(&path) {
                pages.push(Source::read(&path));
            }
        }
    }
    pages.sort_unstable_by(|one, other| one.path.cmp(&other.path));
    pages
}

fn is_page(path: &Path) -> bool {
    let extension = path.extension().and_then(|extension| extension.to_str());
    match extension {
        Some("md" | "yaml" | "yml" | "toml" | "conf" | "lua" | "proto") => true,
        // Other JSON is data.
        _ => path.ends_with("Caddyfile") || path.ends_with("openapi.json"),
    }
}

// === impl Source ===

impl Source {
    /// The file at an absolute path below the root.
    ///
    /// # Panics
    ///
    /// If it cannot be read.
    #[must_use]
    pub fn read(path: &Path) -> Source {
        let relative = path.strip_prefix(root()).expect("found below the root");
        Source {
            path: relative
                .to_str()
                .expect("our file names are UTF-8")
                .to_owned(),
            text: fs::read_to_string(path).expect("sources are readable UTF-8"),
        }
    }

    /// The lines with their numbers.
    pub fn lines(&self) -> impl Iterator<Item = (usize, &str)> {
        let lines = self.text.lines().enumerate();
        lines.map(|(index, line)| (index + 1, line))
    }

    /// The folder of its crate: `crates/core`, `xtask`.
    #[must_use]
    pub fn crate_folder(&self) -> &str {
        let depth = if self.path.starts_with("crates/") {
            2
        } else {
            1
        };
        let end = self.path.match_indices('/').nth(depth - 1);
        end.map_or(&self.path, |(end, _)| &self.path[..end])
    }

    /// Whether all of it is for tests.
    #[must_use]
    pub fn is_test(&self) -> bool {
        let mut parts = self.path.split('/');
        parts.any(|part| part == "tests" || part == "tests.rs")
    }

    /// How many lines come before the tests.
    #[must_use]
    pub fn lines_without_tests(&self) -> usize {
        if self.is_test() {
            return 0;
        }
        let lines: Vec<&str> = self.text.lines().collect();
        let tests = lines.windows(2).position(|pair| {
            pair[0].trim() == "#[cfg(test)]" && pair[1].trim_start().starts_with("mod ")
        });
        tests.unwrap_or(lines.len())
    }

    /// Whether its first lines give a reason to exceed this budget.
    #[must_use]
    pub fn opts_out(&self, budget: usize) -> bool {
        let reason = format!("// Over {budget} lines: ");
        let mut head = self.text.lines().take(HEAD_LINES);
        head.any(|line| line.strip_prefix(&reason).is_some_and(|why| why.len() > 10))
    }

    /// Its syntax tree.
    ///
    /// # Panics
    ///
    /// If it is not Rust.
    #[must_use]
    pub fn syntax(&self) -> syn::File {
        match syn::parse_file(&self.text) {
            Ok(file) => file,
            Err(error) => panic!("{}: {error}", self.path),
        }
    }
}
