//! The graphs of files: no large cycles, and ARCHITECTURE.md shows what is there.

use std::fs;

use xtask::architecture::{agree, generate, generated_part, page};
use xtask::file_graph::FileGraph;
use xtask::workspace::crates;

/// The files of a cycle that may depend on each other: a type, its parts, and their error.
const CYCLE_FILES_MAX: usize = 3;

#[test]
fn few_files_depend_on_each_other_in_a_circle() {
    let mut problems = Vec::new();
    for (name, one) in crates() {
        let graph = FileGraph::read(&one.folder);
        let cycles = graph.cycles();
        let largest = cycles.first().map_or(0, Vec::len);
        if largest > CYCLE_FILES_MAX {
            let files = cycles[0].join(", ");
            problems.push(format!(
                "{name}: {largest} files use each other in a circle, {CYCLE_FILES_MAX} at most: \
                 {files}"
            ));
        }
    }
    assert!(problems.is_empty(), "{}", problems.join("\n"));
}

#[test]
fn the_architecture_page_has_the_map() {
    let text = fs::read_to_string(page()).expect("the page exists");
    let part = generated_part(&text).expect("the page has the lines around the generated part");
    assert!(
        agree(part, &generate()),
        "ARCHITECTURE.md is outdated: run `cargo xtask map --write`"
    );
}
