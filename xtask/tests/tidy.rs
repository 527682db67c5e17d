//! The rules of the house, held by scanning the sources line by line.
//!
//! A file that reads better over a budget says so, with its reason, in its first ten lines:
//! `// Over 400 lines: ...` or `// Over 70 lines: ...`.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

const FILE_LINES_MAX: usize = 400;
const FUNCTION_LINES_MAX: usize = 70;
const COLUMNS_MAX: usize = 100;
/// The lines of a file in which it may opt out of a budget.
const HEAD_LINES: usize = 10;
/// No nouns of the domain.
const BAD_NAMES: [&str; 8] = [
    "common", "helper", "helpers", "misc", "shared", "types", "util", "utils",
];
/// Where memory is touched without the compiler's proof.
const UNSAFE_IN: &str = "crates/memory/";

/// The crates by level, the lowest first: an arrow points to a lower level.
const LEVELS: [&[&str]; 4] = [
    &["core"],
    &["memory", "redis", "rules", "rls", "http", "listen"],
    &["server", "gateway", "replay", "tollgate"],
    &["cli"],
];
/// Arrows that do not point to a lower level, and why they may be.
const EXCEPTIONS: [(&str, &str, &str); 0] = [];
/// For tests and chores only: no crate with a level depends on them, except for its tests.
const LEVELLESS: [&str; 7] = [
    "attack",
    "behaviour",
    "bench",
    "fuzz",
    "simulation",
    "testbed",
    "xtask",
];

/// A source file and what the scans need of it.
struct Source {
    /// Relative to the root of the project.
    path: String,
    text: String,
}

#[test]
fn modules_are_files_named_after_a_noun() {
    let mut faults = String::new();
    for source in sources() {
        let path = Path::new(&source.path);
        let stem = path.file_stem().and_then(|stem| stem.to_str());
        if stem == Some("mod") {
            fault(
                &mut faults,
                &source,
                1,
                "`foo.rs` and `foo/`, never `mod.rs`",
            );
        }
        let mut parts = source.path.split(['/', '.']);
        if let Some(bad) = parts.find(|part| BAD_NAMES.contains(part)) {
            let told = format!("`{bad}` names nothing; say what is in there");
            fault(&mut faults, &source, 1, &told);
        }
    }
    assert!(faults.is_empty(), "{faults}");
}

#[test]
fn files_functions_and_lines_are_short() {
    let mut faults = String::new();
    for source in sources() {
        for (number, line) in source.lines() {
            // A link cannot be broken.
            if line.chars().count() > COLUMNS_MAX && !line.contains("://") {
                fault(
                    &mut faults,
                    &source,
                    number,
                    "over 100 columns: break the line",
                );
            }
        }
        let lines = source.lines_without_tests();
        if lines > FILE_LINES_MAX && !source.opts_out(FILE_LINES_MAX) {
            let told = format!("{lines} lines without tests, {FILE_LINES_MAX} at most: split it");
            fault(&mut faults, &source, 1, &told);
        }
        for (start, length) in functions(&source.text) {
            if length > FUNCTION_LINES_MAX && !source.opts_out(FUNCTION_LINES_MAX) {
                let told =
                    format!("a function of {length} lines, {FUNCTION_LINES_MAX} at most: split it");
                fault(&mut faults, &source, start, &told);
            }
        }
    }
    assert!(faults.is_empty(), "{faults}");
}

#[test]
fn only_the_store_in_memory_is_unsafe() {
    let words = ["{", "fn ", "impl ", "extern ", "trait "];
    let unsafe_before: Vec<String> = words.iter().map(|word| format!("unsafe {word}")).collect();
    let mut faults = String::new();
    for source in sources() {
        if source.path.starts_with(UNSAFE_IN) || source.path.ends_with("tidy.rs") {
            continue;
        }
        for (number, line) in source.lines() {
            let code = line.split("//").next().unwrap_or(line);
            let allowed = code.contains("allow(unsafe_code") || code.contains("expect(unsafe_code");
            if allowed
                || unsafe_before
                    .iter()
                    .any(|word| code.contains(word.as_str()))
            {
                fault(
                    &mut faults,
                    &source,
                    number,
                    "unsafe code lives in crates/memory",
                );
            }
        }
    }
    assert!(faults.is_empty(), "{faults}");
}

#[test]
fn no_test_sleeps() {
    let sleep = concat!("thread::", "sleep");
    let mut faults = String::new();
    for source in sources() {
        let tests_from = match source.is_test() {
            true => 0,
            false => source.lines_without_tests(),
        };
        for (number, line) in source.lines().skip(tests_from) {
            if line.contains(sleep) {
                let told = "wait for what you wait for, or advance a clock of your own";
                fault(&mut faults, &source, number, told);
            }
        }
    }
    assert!(faults.is_empty(), "{faults}");
}

#[test]
fn arrows_between_crates_point_down() {
    let level_of = |name: &str| LEVELS.iter().position(|level| level.contains(&name));
    let mut faults = String::new();
    for (name, uses) in arrows() {
        let Some(level) = level_of(&name) else {
            let told = "has no level: give it one here and a row in ARCHITECTURE.md";
            assert!(LEVELLESS.contains(&name.as_str()), "{name} {told}");
            continue;
        };
        for used in uses {
            let down = level_of(&used).is_some_and(|other| other < level);
            let excepted = |(from, to, _): &(&str, &str, &str)| *from == name && *to == used;
            if !down && !EXCEPTIONS.iter().any(excepted) {
                writeln!(faults, "{name} -> {used}: not a lower level").expect("a string grows");
            }
        }
    }
    assert!(faults.is_empty(), "{faults}");
}

/// ARCHITECTURE.md has a table `| crate | may use |`: the arrows that exist, no more and no fewer.
#[test]
fn the_architecture_page_tells_every_arrow() {
    let page = fs::read_to_string(root().join("ARCHITECTURE.md")).unwrap_or_default();
    let told = told_arrows(&page);
    let mut real = arrows();
    real.retain(|name, _| !LEVELLESS.contains(&name.as_str()));
    let mut rows = String::from("| crate | may use |\n|---|---|\n");
    for (name, uses) in &real {
        let uses: Vec<String> = uses.iter().map(|used| format!("`{used}`")).collect();
        writeln!(rows, "| `{name}` | {} |", uses.join(", ")).expect("a string grows");
    }
    assert!(
        told == real,
        "ARCHITECTURE.md must have this table (order and further columns are free):\n{rows}"
    );
}

/// The rows of the table whose first two headings are `crate` and `may use`.
fn told_arrows(page: &str) -> BTreeMap<String, BTreeSet<String>> {
    let cells = |line: &str| -> Vec<String> {
        let line = line.trim().trim_matches('|');
        line.split('|')
            .map(|cell| cell.trim().to_lowercase())
            .collect()
    };
    let rows = page.lines().map(cells);
    let table = rows
        .skip_while(|row| !row.starts_with(&["crate".to_owned(), "may use".to_owned()]))
        .skip(2)
        .take_while(|row| row.len() >= 2);
    let names = |cell: &str| -> BTreeSet<String> {
        let quoted = cell.split('`').skip(1).step_by(2);
        quoted.map(str::to_owned).collect()
    };
    let arrows = table.filter_map(|row| Some((names(&row[0]).pop_first()?, names(&row[1]))));
    arrows.collect()
}

/// For each crate of the workspace, the crates of the workspace that it uses outside its tests.
fn arrows() -> BTreeMap<String, BTreeSet<String>> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(cargo);
    command.args([
        "metadata",
        "--no-deps",
        "--offline",
        "--format-version",
        "1",
    ]);
    let output = command.current_dir(root()).output().expect("cargo runs");
    assert!(output.status.success(), "cargo metadata failed: {output:?}");
    let metadata: serde_json::Value =
        serde_json::from_slice(&output.stdout).expect("cargo writes JSON");
    let list = |value: &serde_json::Value| value.as_array().cloned().unwrap_or_default();
    let short = |value: &serde_json::Value| {
        let name = value["name"].as_str().unwrap_or_default();
        name.strip_prefix("tollgate-").unwrap_or(name).to_owned()
    };
    let packages = list(&metadata["packages"]);
    let arrows = packages.iter().map(|package| {
        let uses = list(&package["dependencies"]);
        let ours = uses
            .iter()
            .filter(|used| used["path"].is_string() && used["kind"] != "dev");
        (short(package), ours.map(short).collect())
    });
    arrows.collect()
}

/// Every Rust file of the project that people write.
fn sources() -> Vec<Source> {
    let mut folders: Vec<PathBuf> = ["crates", "attack", "xtask", "bench", "fuzz", "examples"]
        .map(|folder| root().join(folder))
        .to_vec();
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
    assert!(sources.len() > 20, "the scan found no sources");
    sources
}

fn root() -> &'static Path {
    let manifest = Path::new(env!("CARGO_MANIFEST_DIR"));
    manifest.parent().expect("xtask lies in the project's root")
}

fn fault(faults: &mut String, source: &Source, line: usize, told: &str) {
    writeln!(faults, "{}:{line}: {told}", source.path).expect("a string grows");
}

/// Where each function begins, and how many lines it has.
///
/// In formatted code a function ends at the first closing brace that stands where it began.
fn functions(text: &str) -> Vec<(usize, usize)> {
    let lines: Vec<&str> = text.lines().collect();
    let mut functions = Vec::new();
    for (start, line) in lines.iter().enumerate() {
        let code = line.trim_start();
        let before_fn = code.split("fn ").next().unwrap_or(code);
        let words = [
            "pub",
            "pub(crate)",
            "pub(super)",
            "const",
            "async",
            "unsafe",
            "extern",
        ];
        let is_fn = code.contains("fn ")
            && before_fn
                .split_whitespace()
                .all(|word| words.contains(&word) || word.starts_with('"'));
        let indent = &line[..line.len() - code.len()];
        let ends = |line: &&str| line.strip_prefix(indent).is_some_and(|rest| rest == "}");
        // A declaration without a body ends before any body begins.
        let rest = &lines[start..];
        let head = rest.iter().position(|line| line.ends_with([';', '{', '}']));
        let has_body = head.is_some_and(|head| rest[head].ends_with('{'));
        if let (true, true, Some(end)) = (is_fn, has_body, rest.iter().position(ends)) {
            functions.push((start + 1, end + 1));
        }
    }
    functions
}

// === impl Source ===

impl Source {
    fn read(path: &Path) -> Source {
        let relative = path.strip_prefix(root()).expect("found below the root");
        let path_shown = relative.to_str().expect("our paths are UTF-8").to_owned();
        let text = fs::read_to_string(path).expect("sources are readable UTF-8");
        Source {
            path: path_shown,
            text,
        }
    }

    /// The lines with their numbers.
    fn lines(&self) -> impl Iterator<Item = (usize, &str)> {
        self.text
            .lines()
            .enumerate()
            .map(|(at, line)| (at + 1, line))
    }

    fn is_test(&self) -> bool {
        let mut parts = self.path.split('/');
        parts.any(|part| part == "tests" || part == "tests.rs")
    }

    /// How many lines come before the tests.
    fn lines_without_tests(&self) -> usize {
        if self.is_test() {
            return 0;
        }
        let lines: Vec<&str> = self.text.lines().collect();
        let tests = lines.windows(2).position(|pair| {
            pair[0].trim() == "#[cfg(test)]" && pair[1].trim_start().starts_with("mod ")
        });
        tests.unwrap_or(lines.len())
    }

    /// Whether its head says why it is over this budget.
    fn opts_out(&self, budget: usize) -> bool {
        let reason = format!("// Over {budget} lines: ");
        let mut head = self.text.lines().take(HEAD_LINES);
        head.any(|line| line.strip_prefix(&reason).is_some_and(|why| why.len() > 10))
    }
}

#[test]
fn the_scan_of_functions_sees_what_it_should() {
    let text = "fn one() {}\npub const fn two(\n    a: u8,\n) -> u8 {\n    a\n}\n\nimpl X {\n    \
                fn three();\n    async fn four() {\n        if a {\n        }\n    }\n}\n";
    assert_eq!(functions(text), [(2, 5), (10, 4)]);
}

#[test]
fn the_table_of_the_architecture_page_is_read() {
    let page = "# A\n\n| crate | may use | why |\n|---|---|---|\n| `core` | nothing | x |\n\
                | `memory` | `core`, `x` | y |\n\nmore | text\n";
    let told = told_arrows(page);
    assert_eq!(told["core"], BTreeSet::new());
    assert_eq!(told["memory"], ["core", "x"].map(str::to_owned).into());
    assert_eq!(told.len(), 2);
}
