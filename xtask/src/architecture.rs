//! The part of ARCHITECTURE.md that is generated: sizes, cycles and arrows of every crate.

use std::fmt::Write as _;
use std::fs;
use std::path::PathBuf;

use crate::file_graph::FileGraph;
use crate::function::functions;
use crate::source::root;
use crate::workspace::{Crate, crates};

/// What surrounds the generated part of the page.
const BEGIN: &str = "<!-- begin: cargo xtask map --write -->\n";
const END: &str = "<!-- end: cargo xtask map --write -->\n";
/// How far a number of the page may be from the truth: a tenth, and never less than this.
const SLACK_MIN: u64 = 3;

/// The page.
#[must_use]
pub fn page() -> PathBuf {
    root().join("ARCHITECTURE.md")
}

/// The generated part, as it should be now.
///
/// # Panics
///
/// If a source file cannot be read or is not Rust.
#[must_use]
pub fn generate() -> String {
    let crates: Vec<(Crate, FileGraph)> = crates()
        .into_values()
        .map(|one| {
            let graph = FileGraph::read(&one.folder);
            (one, graph)
        })
        .collect();
    let mut text = String::from(
        "| crate | uses | files | lines | largest file | its lines | functions | median | p95 |\n\
         |---|---|---|---|---|---|---|---|---|\n",
    );
    for (one, graph) in &crates {
        write_sizes(&mut text, one, graph);
    }
    text.push_str(
        "\nLines are counted without tests, functions by their length in lines.\n\n\
         Files of a crate that depend on each other:\n\n",
    );
    for (one, graph) in &crates {
        for cycle in graph.cycles() {
            writeln!(text, "* `{}`: `{}`", one.name, cycle.join("`, `")).expect("a string grows");
        }
    }
    text.push_str("\nWhich module uses which others of its crate:\n\n```text\n");
    for (one, graph) in &crates {
        write_arrows(&mut text, one, graph);
    }
    text.push_str("```\n");
    text
}

/// The generated part, as a page has it.
#[must_use]
pub fn generated_part(page: &str) -> Option<&str> {
    let (_, rest) = page.split_once(BEGIN)?;
    rest.split_once(END).map(|(part, _)| part)
}

/// Puts the generated part into the page.
///
/// # Errors
///
/// If the page cannot be read or written, or lacks the lines that surround the part.
pub fn write() -> Result<(), String> {
    let path = page();
    let shown = path.display();
    let text = fs::read_to_string(&path).map_err(|error| format!("{shown}: {error}"))?;
    let part = generated_part(&text).ok_or(format!("{shown}: no lines {BEGIN}and {END}"))?;
    let (old, new) = (
        [BEGIN, part, END].concat(),
        [BEGIN, &generate(), END].concat(),
    );
    let text = text.replacen(&old, &new, 1);
    fs::write(&path, text).map_err(|error| format!("{shown}: {error}"))
}

/// Whether two texts say the same, numbers within a tenth of each other.
#[must_use]
pub fn agree(one: &str, other: &str) -> bool {
    let words =
        |text: &str| -> Vec<String> { text.split_whitespace().map(str::to_owned).collect() };
    let (one, other) = (words(one), words(other));
    one.len() == other.len()
        && one.iter().zip(&other).all(|(word, other)| {
            match (word.parse::<u64>(), other.parse::<u64>()) {
                (Ok(number), Ok(other)) => {
                    number.abs_diff(other) <= (number.max(other) / 10).max(SLACK_MIN)
                }
                _ => word == other,
            }
        })
}

/// Writes a crate's row of the table of sizes.
fn write_sizes(text: &mut String, one: &Crate, graph: &FileGraph) {
    let files = graph.files.iter();
    let sizes: Vec<usize> = files.map(|file| file.lines_without_tests()).collect();
    let largest = (0..sizes.len()).max_by_key(|file| sizes[*file]);
    let mut lengths: Vec<usize> = graph
        .files
        .iter()
        .flat_map(functions)
        .filter(|function| !function.is_test)
        .map(|function| function.lines)
        .collect();
    lengths.sort_unstable();
    let quantile = |percent: usize| {
        let rank = (lengths.len() * percent).div_ceil(100).max(1);
        lengths.get(rank - 1).copied().unwrap_or(0)
    };
    let uses: Vec<String> = one.uses.iter().map(|used| format!("`{used}`")).collect();
    writeln!(
        text,
        "| `{}` | {} | {} | {} | `{}` | {} | {} | {} | {} |",
        one.name,
        uses.join(", "),
        sizes.len(),
        sizes.iter().sum::<usize>(),
        largest.map_or("", |file| graph.path_in_src(file)),
        largest.map_or(0, |file| sizes[file]),
        lengths.len(),
        quantile(50),
        quantile(95),
    )
    .expect("a string grows");
}

/// Writes which modules of a crate use which others.
fn write_arrows(text: &mut String, one: &Crate, graph: &FileGraph) {
    writeln!(text, "{}", one.name).expect("a string grows");
    for (module, uses) in graph.top_level_arrows() {
        let uses: Vec<&str> = uses.into_iter().collect();
        if !uses.is_empty() {
            writeln!(text, "  {module} -> {}", uses.join(", ")).expect("a string grows");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_may_lag_a_little_and_names_may_not() {
        assert!(agree("| `core` | 100 | 5 |", "| `core` | 109 | 8 |"));
        assert!(!agree("| `core` | 100 | 5 |", "| `core` | 120 | 5 |"));
        assert!(!agree("| `core` | 100 | 5 |", "| `code` | 100 | 5 |"));
        assert!(!agree("a -> b", "a -> b, c"));
    }

    #[test]
    fn the_part_of_a_page_lies_between_its_marks() {
        let page = format!("before\n{BEGIN}inside\n{END}after\n");
        assert_eq!(generated_part(&page), Some("inside\n"));
        assert_eq!(generated_part("before\n"), None);
    }
}
