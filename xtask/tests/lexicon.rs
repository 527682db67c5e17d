//! No retired word in identifiers, comments, strings and pages; no message with "is no"; no
//! function named by a participle.

use std::fmt::Write as _;

use xtask::lexicon::{Found, find, find_in_page, find_is_no};
use xtask::participle;
use xtask::source::{Source, pages, sources};

/// Files that contain retired words on purpose.
const EXCEPTIONS: [&str; 1] = ["xtask/src/lexicon.rs"];

#[test]
fn no_retired_word_is_used() {
    let mut problems = String::new();
    for source in sources() {
        if EXCEPTIONS.contains(&source.path.as_str()) {
            continue;
        }
        for found in find(&source) {
            write(&mut problems, &source, &found);
        }
    }
    assert!(problems.is_empty(), "{problems}");
}

#[test]
fn no_message_says_is_no() {
    let mut problems = String::new();
    for source in sources() {
        for (line, text) in find_is_no(&source) {
            let path = &source.path;
            writeln!(
                problems,
                "{path}:{line}: say \"is not a valid ...\" for \"is no ...\": {text}"
            )
            .expect("a string grows");
        }
    }
    assert!(problems.is_empty(), "{problems}");
}

#[test]
fn no_retired_word_is_used_in_pages() {
    let mut problems = String::new();
    for mut page in pages() {
        match page.path.as_str() {
            // Its table names the retired words.
            "CONTRIBUTING.md" => truncate_at(&mut page.text, "\n| say | for | not |"),
            // Released versions keep the words that they had.
            "CHANGELOG.md" => {
                let unreleased = page.text.find("(unreleased)").unwrap_or(0);
                if let Some(next) = page.text[unreleased..].find("\n## ") {
                    page.text.truncate(unreleased + next);
                }
            }
            _ => {}
        }
        for found in find_in_page(&page) {
            write(&mut problems, &page, &found);
        }
    }
    assert!(problems.is_empty(), "{problems}");
}

#[test]
fn no_function_is_named_by_a_participle() {
    let mut problems = String::new();
    for source in sources() {
        for (line, name) in participle::find(&source) {
            let path = &source.path;
            writeln!(
                problems,
                "{path}:{line}: `{name}` is a participle: say what the function does by a verb, or \
                 what it returns by a noun"
            )
            .expect("a string grows");
        }
    }
    assert!(problems.is_empty(), "{problems}");
}

fn truncate_at(text: &mut String, mark: &str) {
    let end = text.find(mark).expect("the page has the mark");
    text.truncate(end);
}

fn write(problems: &mut String, source: &Source, found: &Found) {
    let (line, retired) = (found.line, found.retired);
    writeln!(
        problems,
        "{}:{line}: say {} for \"{}\": {}",
        source.path, retired.instead, retired.word, found.text
    )
    .expect("a string grows");
}
