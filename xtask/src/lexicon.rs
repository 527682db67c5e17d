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

/// Every retired word: rejected as a part of an identifier, and as a word of a comment, of a string
/// outside of tests, and of a page.
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
    /// The identifier, or the text.
    pub text: String,
    /// The word.
    pub retired: &'static Retired,
}

/// Every retired word in a file's identifiers and comments, and in its strings outside of tests.
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
        if let Some((_, comment)) = text.split_once("//") {
            found.extend(found_in(line, comment));
        }
    }
    let lines_without_tests = source.lines_without_tests();
    let tokens = tokens(source).into_iter();
    let strings = tokens.filter_map(|token| match token {
        TokenTree::Literal(literal) => Some((literal.span().start().line, literal.to_string())),
        _ => None,
    });
    for (line, text) in strings.filter(|(line, _)| *line <= lines_without_tests) {
        // A single word may be a name in a protocol or format that is not ours.
        if text.contains(' ') {
            found.extend(found_in(line, &text));
        }
    }
    found.sort_by_key(|found| (found.line, found.retired.word));
    // A doc comment is also a string: that of its attribute.
    found.dedup_by_key(|found| (found.line, found.retired.word));
    found
}

/// Every retired word in a page: in the prose of Markdown, also where a phrase is broken over two
/// lines, and after `#` in YAML and in code blocks.
#[must_use]
pub fn find_in_page(page: &Source) -> Vec<Found> {
    let is_markdown = page.path.ends_with(".md");
    let mut is_code = !is_markdown;
    let mut found = Vec::new();
    let mut previous = "";
    for (line, text) in page.lines() {
        if is_markdown && text.trim_start().starts_with("```") {
            is_code = !is_code;
            previous = "";
        } else if !is_code {
            found.extend(found_in(line, text));
            found.extend(found_across(line, previous, text));
            previous = text;
        } else if let Some((_, comment)) = text.split_once('#') {
            found.extend(found_in(line, comment));
        }
    }
    found
}

/// The retired phrases that begin at the end of the previous line. An empty line has no words, so
/// it ends a phrase.
fn found_across(line: usize, previous: &str, text: &str) -> Vec<Found> {
    if previous.is_empty() || text.is_empty() {
        return Vec::new();
    }
    let alone = |retired: &Retired| {
        let mut both = find_in_text(previous).chain(find_in_text(text));
        both.any(|other| other.word == retired.word)
    };
    let both = format!("{previous} {text}");
    let found = found_in(line, &both);
    found.filter(|found| !alone(found.retired)).collect()
}

fn found_in(line: usize, text: &str) -> impl Iterator<Item = Found> {
    find_in_text(text).map(move |retired| Found {
        line,
        text: text.trim().to_owned(),
        retired,
    })
}

/// Every retired word in a line of text; code in backquotes is left out.
pub fn find_in_text(text: &str) -> impl Iterator<Item = &'static Retired> {
    let prose: Vec<&str> = text.split('`').step_by(2).collect();
    let words: Vec<String> = prose
        .join(" ")
        // `over-admits` is one word, and a standard one.
        .split(|letter: char| !letter.is_alphanumeric() && letter != '-')
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

/// Every identifier of a file with its line.
fn identifiers(source: &Source) -> Vec<(usize, String)> {
    let tokens = tokens(source).into_iter();
    let names = tokens.filter_map(|token| match token {
        TokenTree::Ident(name) => Some((name.span().start().line, name.to_string())),
        _ => None,
    });
    names.collect()
}

/// Every token of a file, those in the arguments of macros included, but no group.
fn tokens(source: &Source) -> Vec<TokenTree> {
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
                token => found.push(token),
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
    fn strings_are_searched_outside_of_tests() {
        let source = Source {
            path: "crates/core/src/x.rs".into(),
            text: "/// A guest.\nfn one() {\n    f(\"no guest\", \"guest\")\n}\n#[cfg(test)]\n\
                mod tests {\n    const A: &str = \"a guest\";\n}\n"
                .into(),
        };
        let lines: Vec<_> = find(&source).iter().map(|found| found.line).collect();
        assert_eq!(lines, [1, 3]);
    }

    #[test]
    fn pages_are_searched_in_prose_and_in_comments_of_their_code() {
        let page = |path: &str, text: &str| {
            let page = Source {
                path: path.into(),
                text: text.into(),
            };
            let found = find_in_page(&page);
            found.iter().map(|found| found.line).collect::<Vec<_>>()
        };
        let text = "A door.\n```yaml\ndoor: 1\nx: 1 # a door\n```\nIt over-admits. `door`\n";
        assert_eq!(page("a.md", text), [1, 4]);
        assert_eq!(page("a.yaml", "door: 1\n# A door.\n"), [2]);
        let phrase = RETIRED.iter().rfind(|retired| retired.word.contains(' '));
        let (first, rest) = phrase
            .and_then(|one| one.word.split_once(' '))
            .expect("one");
        let broken = |between: &str| format!("One.\nIt is {first}{between}{rest} it.\n");
        assert_eq!(page("a.md", &broken(" ")), [2]);
        assert_eq!(page("a.md", &broken("\n")), [3]);
        assert!(page("a.md", &broken("\n\n")).is_empty());
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
