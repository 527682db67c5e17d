//! Functions named by a participle, such as `asking` or `told`, where the lexicon asks for a verb.
//!
//! A participle before a noun is an adjective, and the name a noun: `evicted_keys`. A participle
//! alone, or before a preposition, says neither what is done nor what is returned.

use crate::function::functions;
use crate::source::Source;

/// Names that stay, each with its reason.
const EXCEPTIONS: [(&str, &str); 9] = [
    (
        "allowed",
        "a term of the lexicon: the outcome of a decision",
    ),
    ("denied", "a term of the lexicon: the outcome of a decision"),
    ("denied_by", "what led to that outcome"),
    ("remaining", "a term of the lexicon and of the IETF draft"),
    ("zeroed", "as the standard library says of memory"),
    (
        "counted_by",
        "a method for the library's users: a new name costs them a change",
    ),
    (
        "limited",
        "a method for the library's users: a new name costs them a change",
    ),
    (
        "shared",
        "a method for the library's users: a new name costs them a change",
    ),
    (
        "shown",
        "a method for the library's users: a new name costs them a change",
    ),
];

/// Words that end like a participle and are none.
const NOUNS_AND_VERBS: [&str; 10] = [
    "bring", "embed", "exceed", "proceed", "setting", "sharing", "sibling", "string", "succeed",
    "warning",
];

/// Participles without the ending of others. `read` and `set` are verbs as well.
const IRREGULAR: [&str; 24] = [
    "begun", "bound", "broken", "built", "chosen", "done", "drawn", "found", "given", "gone",
    "heard", "held", "hidden", "kept", "known", "left", "lost", "made", "met", "sent", "shown",
    "spent", "taken", "told",
];

/// Words after which a participle is not an adjective.
const NO_NOUNS: [&str; 17] = [
    "and", "at", "by", "for", "from", "here", "in", "of", "on", "once", "out", "over", "there",
    "to", "under", "until", "within",
];

/// The functions of a file that are named by a participle, each with its line. Those of tests and
/// of traits' implementations are left out.
#[must_use]
pub fn find(source: &Source) -> Vec<(usize, String)> {
    let functions = functions(source).into_iter();
    functions
        .filter(|function| !function.is_test && !function.is_of_trait)
        .filter(|function| is_participle(&function.name))
        .map(|function| (function.line, function.name))
        .collect()
}

/// Whether a function's name is a participle, and no exception.
#[must_use]
pub fn is_participle(name: &str) -> bool {
    if EXCEPTIONS.iter().any(|(exception, _)| *exception == name) {
        return false;
    }
    let mut words = name.split('_');
    let first = words.next().unwrap_or(name);
    let has_ending = first.len() > 4 && (first.ends_with("ed") || first.ends_with("ing"));
    let is_regular = has_ending && !NOUNS_AND_VERBS.contains(&first);
    let is_alone = words.next().is_none_or(|second| NO_NOUNS.contains(&second));
    (is_regular || IRREGULAR.contains(&first)) && is_alone
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn participles_are_rejected_and_verbs_and_nouns_are_not() {
        for name in [
            "asking",
            "told",
            "renewing",
            "counted",
            "left",
            "decided_and_count",
        ] {
            assert!(is_participle(name), "{name}");
        }
        for name in [
            "ask",
            "renew",
            "evicted_keys",
            "is_allowed",
            "remaining",
            "sibling",
            "seed",
        ] {
            assert!(!is_participle(name), "{name}");
        }
    }

    #[test]
    fn tests_and_implementations_of_traits_may_have_any_name() {
        let text = "fn asking() {}\nimpl Visitor for A {\n    fn expecting(&self) {}\n}\n\
                    impl A {\n    fn told(&self) {}\n}\n\
                    #[cfg(test)]\nmod tests {\n    fn renewing() {}\n}\n";
        let of = |path: &str| {
            let source = Source {
                path: path.into(),
                text: text.into(),
            };
            let found = find(&source).into_iter();
            found.map(|(line, _)| line).collect::<Vec<_>>()
        };
        assert_eq!(of("crates/core/src/x.rs"), [1, 6]);
        assert_eq!(of("crates/core/src/x/tests.rs"), [0; 0]);
        assert_eq!(of("crates/cli/tests/x.rs"), [0; 0]);
    }
}
