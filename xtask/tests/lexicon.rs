//! No retired word in identifiers and comments.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use xtask::lexicon::find;
use xtask::source::sources;

/// The crates whose words are not revised yet. This list only shrinks.
const NOT_REVISED: [&str; 1] = ["crates/redis"];
/// Files that contain retired words on purpose.
const EXCEPTIONS: [&str; 1] = ["xtask/src/lexicon.rs"];

#[test]
fn no_retired_word_is_used() {
    let mut by_crate: BTreeMap<String, String> = BTreeMap::new();
    for source in sources() {
        if EXCEPTIONS.contains(&source.path.as_str()) {
            continue;
        }
        for found in find(&source) {
            let problems = by_crate
                .entry(source.crate_folder().to_owned())
                .or_default();
            writeln!(
                problems,
                "{}:{}: say {} for \"{}\": {}",
                source.path, found.line, found.retired.instead, found.retired.word, found.text
            )
            .expect("a string grows");
        }
    }
    let unrevised: BTreeSet<&str> = NOT_REVISED.into();
    let revised: Vec<&&str> = unrevised
        .iter()
        .filter(|folder| !by_crate.contains_key(**folder))
        .collect();
    assert!(
        revised.is_empty(),
        "no retired word is left: remove {revised:?} from NOT_REVISED"
    );
    by_crate.retain(|folder, _| !unrevised.contains(folder.as_str()));
    let problems: String = by_crate.into_values().collect();
    assert!(problems.is_empty(), "{problems}");
}
