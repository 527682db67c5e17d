//! Crates as their users get them: with no more features than they ask for.
//!
//! Every other step builds the whole workspace at once, where some crate turns on every feature of
//! the others.

use crate::step::Step;

/// What users of the library ask for.
const OF_LIBRARY: [&str; 8] = [
    "",
    "async",
    "redis",
    "rules",
    "serde",
    "tower",
    "redis,rules",
    "rules,tower",
];

pub(crate) fn steps() -> impl Iterator<Item = Step> {
    let library = OF_LIBRARY.map(|features| {
        let library = ["check", "-p", "tollgate", "--no-default-features"];
        Step::cargo("features of the library", &library).args(["--features", features])
    });
    let without_tokens = ["check", "-p", "tollgate-http", "--all-targets"];
    let without_tokens = Step::cargo("HTTP without tokens", &without_tokens);
    library.into_iter().chain([without_tokens])
}
