//! The words that this project no longer uses, and the ones that it uses in their place.
//!
//! The whole lexicon is in `CONTRIBUTING.md`; this is the part that a test can hold.

use proc_macro2::{TokenStream, TokenTree};

use crate::source::Source;

/// A retired word, and what to say.
pub struct Retired {
    /// In lower case; several words are a phrase, which only text can contain.
    pub word: &'static str,
    /// The word or words in its place.
    pub instead: &'static str,
}

const fn retired(word: &'static str, instead: &'static str) -> Retired {
    Retired { word, instead }
}

/// Every retired word: rejected as a part of an identifier and as a word of a comment.
pub const RETIRED: [Retired; 38] = [
    retired("admit", "allow"),
    retired("admits", "allows"),
    retired("admitted", "allowed"),
    retired("anew", "again"),
    retired("as told", "as the answer says"),
    retired("asker", "caller"),
    retired("askers", "callers"),
    retired("complain", "report"),
    retired("complaint", "diagnostic"),
    retired("desk", "connection limit"),
    retired("door", "listener"),
    retired("doors", "listeners"),
    retired("drawer", "lock"),
    retired("everybody", "all callers, threads or instances"),
    retired("forgotten", "evicted or expired"),
    retired("guest", "connection"),
    retired("in force", "in effect"),
    retired("lane", "request queue"),
    retired("lanes", "request queues"),
    retired("mend", "fix"),
    retired("mistake", "error or diagnostic"),
    retired("mistakes", "errors or diagnostics"),
    retired("patience", "timeout, deadline or backoff"),
    retired("reception", "accept loop"),
    retired("refusal", "denial"),
    retired("refusals", "denials"),
    retired("refuse", "deny or reject"),
    retired("refused", "denied or rejected"),
    retired("refuses", "denies or rejects"),
    retired("repriced", "migrated"),
    retired("somebody", "another caller, thread or instance"),
    retired("stand aside", "back off"),
    retired("stands aside", "backs off"),
    retired("stranger", "unknown key"),
    retired("taken up", "in effect"),
    retired("told", "reported, returned or answered"),
    retired("vigil", "drain"),
    retired("whoever", "the caller, client or thread that"),
];

/// Identifiers of the standard library that contain a retired word.
const FOREIGN: [&str; 1] = ["ConnectionRefused"];

/// A retired word in a file.
pub struct Found {
    /// Its line, from 1.
    pub line: usize,
    /// The identifier or the comment.
    pub text: String,
    /// The word.
    pub retired: &'static Retired,
}

/// Every retired word in a file's identifiers and comments.
#[must_use]
pub fn find(source: &Source) -> Vec<Found> {
    let mut found = Vec::new();
    let ours = identifiers(source).into_iter();
    let ours = ours.filter(|(_, identifier)| !FOREIGN.contains(&identifier.as_str()));
    for (line, identifier) in ours {
        let words = segments(&identifier);
        for retired in RETIRED
            .iter()
            .filter(|retired| words.iter().any(|word| word == retired.word))
        {
            let text = format!("`{identifier}`");
            found.push(Found {
                line,
                text,
                retired,
            });
        }
    }
    for (line, text) in source.lines() {
        let Some((_, comment)) = text.split_once("//") else {
            continue;
        };
        found.extend(find_in_text(comment).map(|retired| Found {
            line,
            text: comment.trim().to_owned(),
            retired,
        }));
    }
    found.sort_by_key(|found| found.line);
    found
}

/// Every retired word in a line of text; code in backquotes is left out.
pub fn find_in_text(text: &str) -> impl Iterator<Item = &'static Retired> {
    let prose: Vec<&str> = text.split('`').step_by(2).collect();
    let words: Vec<String> = prose
        .join(" ")
        .split(|letter: char| !letter.is_alphanumeric())
        .filter(|word| !word.is_empty())
        .map(str::to_lowercase)
        .collect();
    let text = format!(" {} ", words.join(" "));
    RETIRED
        .iter()
        .filter(move |retired| text.contains(&format!(" {} ", retired.word)))
}

/// The words of an identifier: `is_told`, `RefusalKind` and `PATIENCE_MAX` have two each.
#[must_use]
pub fn segments(identifier: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    let mut before = '_';
    for letter in identifier.chars() {
        let begins = letter == '_' || (letter.is_uppercase() && before.is_lowercase());
        if begins {
            words.push(String::new());
        }
        if letter != '_'
            && let Some(word) = words.last_mut()
        {
            word.extend(letter.to_lowercase());
        }
        before = letter;
    }
    words
}

/// Every identifier of a file with its line, those in the arguments of macros included.
fn identifiers(source: &Source) -> Vec<(usize, String)> {
    let tokens: TokenStream = match source.text.parse() {
        Ok(tokens) => tokens,
        Err(error) => panic!("{}: {error}", source.path),
    };
    let mut found = Vec::new();
    let mut open = vec![tokens];
    while let Some(tokens) = open.pop() {
        for token in tokens {
            match token {
                TokenTree::Group(group) => open.push(group.stream()),
                TokenTree::Ident(name) => found.push((name.span().start().line, name.to_string())),
                TokenTree::Punct(_) | TokenTree::Literal(_) => {}
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn identifiers_are_split_into_words() {
        assert_eq!(segments("is_told"), ["is", "told"]);
        assert_eq!(segments("RefusalKind"), ["refusal", "kind"]);
        assert_eq!(segments("PATIENCE_MAX"), ["patience", "max"]);
        assert_eq!(segments("retold"), ["retold"]);
    }

    #[test]
    fn words_and_phrases_are_found_in_text_and_not_within_others() {
        let found = |text: &str| {
            find_in_text(text)
                .map(|retired| retired.word)
                .collect::<Vec<_>>()
        };
        assert_eq!(found("Refused, and told so."), ["refused", "told"]);
        assert_eq!(found("The rules in force."), ["in force"]);
        assert_eq!(found("`told` is a name; planed, doorway"), [""; 0]);
    }

    #[test]
    fn identifiers_in_macros_are_found() {
        let source = Source {
            path: "crates/core/src/x.rs".into(),
            text: "fn one() {\n    assert!(is_told);\n} // anew\n".into(),
        };
        let found: Vec<_> = find(&source)
            .iter()
            .map(|found| (found.line, found.retired.word))
            .collect();
        assert_eq!(found, [(2, "told"), (3, "anew")]);
    }
}
