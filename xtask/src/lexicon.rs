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
    /// Whether it names the outcome of a decision. Such a word is rejected also in the strings of
    /// tests, in code blocks, and as a part of a word with hyphens: all of it is read in outputs.
    pub is_outcome: bool,
}

const fn word(word: &'static str, instead: &'static str) -> Retired {
    Retired {
        word,
        instead,
        is_outcome: false,
    }
}

const fn outcome(word: &'static str, instead: &'static str) -> Retired {
    Retired {
        word,
        instead,
        is_outcome: true,
    }
}

/// Every retired word: rejected as a part of an identifier, and as a word of a comment, of a string
/// outside of tests, and of a page.
pub const RETIRED: [Retired; 41] = [
    outcome("admission", "allowed request; over-admission is a term"),
    outcome("admit", "allow"),
    outcome("admits", "allows"),
    outcome("admitted", "allowed"),
    outcome("admitting", "allowing"),
    word("anew", "again"),
    word("as told", "as the answer says"),
    word("asker", "caller"),
    word("askers", "callers"),
    word("complain", "report"),
    word("complaint", "diagnostic"),
    word("desk", "connection limit"),
    word("door", "listener"),
    word("doors", "listeners"),
    word("drawer", "lock"),
    word("everybody", "all callers, threads or instances"),
    word("forgotten", "evicted or expired"),
    word("guest", "connection"),
    word("in force", "in effect"),
    word("lane", "request queue"),
    word("lanes", "request queues"),
    word("mend", "fix"),
    word("mistake", "error or diagnostic"),
    word("mistakes", "errors or diagnostics"),
    word("patience", "timeout, deadline or backoff"),
    word("reception", "accept loop"),
    outcome("refusal", "denial"),
    outcome("refusals", "denials"),
    outcome("refuse", "deny or reject"),
    outcome("refused", "denied or rejected"),
    outcome("refuses", "denies or rejects"),
    outcome("refusing", "denying or rejecting"),
    word("repriced", "migrated"),
    word("somebody", "another caller, thread or instance"),
    word("stand aside", "back off"),
    word("stands aside", "backs off"),
    word("stranger", "unknown key"),
    word("taken up", "in effect"),
    word("told", "reported, returned or answered"),
    word("vigil", "drain"),
    word("whoever", "the caller, client or thread that"),
];

/// Identifiers of the standard library and of HTTP/2 that contain a retired word.
const FOREIGN: [&str; 2] = ["ConnectionRefused", "REFUSED_STREAM"];

/// The operating system's words for an error.
const FOREIGN_TEXT: &str = "connection refused";

/// Before "is no" and "are no", this makes idiomatic English: "there is no rule".
const EXISTENCE: &str = "there";

/// After "is no" and "are no", these make idiomatic English: "is no longer used", "0 is no limit".
const AFTER_NO: [&str; 2] = ["longer", "limit"];

/// Before an outcome, these make the field's term: over-admission, `over_admits`.
const OF_A_TERM: [&str; 2] = ["over", "under"];

/// A retired word in a file.
pub struct Found {
    /// Its line, from 1.
    pub line: usize,
    /// The identifier, or the text.
    pub text: String,
    /// The word.
    pub retired: &'static Retired,
}

/// Every retired word in a file's identifiers and comments, and in its strings; in those of tests,
/// only outcomes.
#[must_use]
pub fn find(source: &Source) -> Vec<Found> {
    let mut found = find_in_identifiers(source);
    found.extend(find_in_comments(source, "//"));
    let lines_without_tests = source.lines_without_tests();
    for (line, text) in strings(source) {
        // A single word may be a name in a protocol or format that is not ours.
        let is_prose = line <= lines_without_tests && text.contains(' ');
        let words = find_on_line(line, &text);
        found.extend(words.filter(|found| is_prose || found.retired.is_outcome));
    }
    found.sort_by_key(|found| (found.line, found.retired.word));
    // A doc comment is also a string: that of its attribute.
    found.dedup_by_key(|found| (found.line, found.retired.word));
    found
}

/// Every retired word in a page: in the prose of Markdown and JSON, and in the comments of other
/// formats and of code blocks; also where a phrase is broken over two lines.
#[must_use]
pub fn find_in_page(page: &Source) -> Vec<Found> {
    match page.path.rsplit('.').next() {
        Some("md") => find_in_markdown(page),
        // Descriptions are values here.
        Some("json" | "toml") => {
            let lines = page.lines();
            lines
                .flat_map(|(line, text)| find_on_line(line, text))
                .collect()
        }
        Some("lua") => find_in_comments(page, "--"),
        Some("proto") => find_in_comments(page, "//"),
        _ => find_in_comments(page, "#"),
    }
}

/// The retired words of prose, of comments in code blocks, and outcomes in all of these blocks.
fn find_in_markdown(page: &Source) -> Vec<Found> {
    let mut is_code = false;
    let mut found = Vec::new();
    let mut previous = "";
    for (line, text) in page.lines() {
        if text.trim_start().starts_with("```") {
            is_code = !is_code;
            previous = "";
        } else if is_code {
            let comment = text.split_once('#').map_or("", |(_, comment)| comment);
            found.extend(find_on_line(line, comment));
            let outcomes = find_on_line(line, text).filter(|found| found.retired.is_outcome);
            found.extend(outcomes);
        } else {
            found.extend(find_on_line(line, text));
            found.extend(find_across(line, previous, text));
            previous = text;
        }
    }
    // A comment of a code block is also its text.
    found.sort_by_key(|found| (found.line, found.retired.word));
    found.dedup_by_key(|found| (found.line, found.retired.word));
    found
}

/// The retired words of what follows `mark`, also where a phrase is broken over two lines.
fn find_in_comments(source: &Source, mark: &str) -> Vec<Found> {
    let mut found = Vec::new();
    let mut previous = "";
    for (line, text) in source.lines() {
        let comment = text.split_once(mark).map_or("", |(_, comment)| comment);
        // The third mark of a doc comment.
        let comment = comment.trim_start_matches(['/', '!']).trim();
        found.extend(find_on_line(line, comment));
        found.extend(find_across(line, previous, comment));
        previous = comment;
    }
    found
}

/// The retired words that are parts of identifiers.
fn find_in_identifiers(source: &Source) -> Vec<Found> {
    let mut found = Vec::new();
    let ours = identifiers(source).into_iter();
    for (line, identifier) in ours.filter(|(_, name)| !FOREIGN.contains(&name.as_str())) {
        let words = segments(&identifier);
        let is_used = |retired: &Retired| {
            let at = words.iter().position(|word| word == retired.word);
            at.is_some_and(|at| {
                let is_term = at > 0 && OF_A_TERM.contains(&words[at - 1].as_str());
                !(is_term && retired.is_outcome)
            })
        };
        for retired in RETIRED.iter().filter(|retired| is_used(retired)) {
            let text = format!("`{identifier}`");
            found.push(Found {
                line,
                text,
                retired,
            });
        }
    }
    found
}

/// The retired phrases that begin at the end of the previous line. An empty line has no words, so
/// it ends a phrase.
fn find_across(line: usize, previous: &str, text: &str) -> Vec<Found> {
    if previous.is_empty() || text.is_empty() {
        return Vec::new();
    }
    let alone = |retired: &Retired| {
        let mut both = find_in_text(previous).chain(find_in_text(text));
        both.any(|other| other.word == retired.word)
    };
    let both = format!("{previous} {text}");
    let found = find_on_line(line, &both);
    found.filter(|found| !alone(found.retired)).collect()
}

fn find_on_line(line: usize, text: &str) -> impl Iterator<Item = Found> {
    find_in_text(text).map(move |retired| Found {
        line,
        text: text.trim().to_owned(),
        retired,
    })
}

/// Every retired word in a line of text; code in backquotes is left out.
pub fn find_in_text(text: &str) -> impl Iterator<Item = &'static Retired> {
    let prose: Vec<&str> = text.split('`').step_by(2).collect();
    let prose = prose.join(" ").to_lowercase();
    let prose = prose.replace(FOREIGN_TEXT, "");
    let words: Vec<&str> = prose
        .split(|letter: char| !letter.is_alphanumeric() && letter != '-')
        .filter(|word| !word.is_empty())
        .collect();
    // `hot-u64-denied-2t` has the outcome in it, and `over-admission` is one word.
    let is_term = |word: &&str| OF_A_TERM.iter().any(|term| word.starts_with(term));
    let parts: Vec<&str> = words
        .iter()
        .filter(|word| !is_term(word))
        .flat_map(|word| word.split('-'))
        .collect();
    let (words, parts) = (pad(&words), pad(&parts));
    RETIRED.iter().filter(move |retired| {
        let text = if retired.is_outcome { &parts } else { &words };
        text.contains(&format!(" {} ", retired.word))
    })
}

/// Every "is no address" and "are no names" in the strings of a file, with its line; English says
/// "is not a valid address" and "are not names". Tests and comments are left out.
#[must_use]
pub fn find_is_no(source: &Source) -> Vec<(usize, String)> {
    let lines_without_tests = source.lines_without_tests();
    let lines: Vec<&str> = source.text.lines().collect();
    // A doc comment is also a string: that of its attribute.
    let is_comment = |line: usize| lines[line - 1].trim_start().starts_with("//");
    let mut found = strings(source);
    found.retain(|(line, text)| {
        *line <= lines_without_tests && !is_comment(*line) && has_is_no(text)
    });
    found
}

/// Whether the source of a string has "is no" or "are no" before a word, other than in an idiom.
fn has_is_no(text: &str) -> bool {
    // A string may be broken over lines, and has its quotes.
    let text = text.replace("\\\n", " ").replace('"', " ").to_lowercase();
    let words: Vec<&str> = text.split_whitespace().collect();
    words.windows(3).enumerate().any(|(at, three)| {
        let is_not = matches!(three, ["is" | "are", "no", next]
            if next.starts_with(char::is_alphabetic)
                && !AFTER_NO.contains(&next.trim_end_matches(|end: char| !end.is_alphabetic())));
        let before = words[..at].last();
        is_not && !before.is_some_and(|before| before.ends_with(EXISTENCE))
    })
}

/// The words with a space at each end, so that whole words are found in it.
fn pad(words: &[&str]) -> String {
    format!(" {} ", words.join(" "))
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

/// Every string and character of a file with its line.
fn strings(source: &Source) -> Vec<(usize, String)> {
    let tokens = tokens(source).into_iter();
    let strings = tokens.filter_map(|token| match token {
        TokenTree::Literal(literal) => Some((literal.span().start().line, literal.to_string())),
        _ => None,
    });
    strings.collect()
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
        assert_eq!(found("a-refused-2t; no next-door"), ["refused"]);
        assert_eq!(found("Over-admission: it over-admits"), [""; 0]);
        assert_eq!(found("Connection refused (os error 111)"), [""; 0]);
    }

    #[test]
    fn outcomes_are_found_in_every_string_and_in_code_blocks() {
        let source = Source {
            path: "crates/core/tests/x.rs".into(),
            text: "fn no_over_admission() {\n    f(\"a-refused-2t\");\n    g(\"a guest\");\n}\n\
                fn an_admission() {}\n"
                .into(),
        };
        let lines: Vec<_> = find(&source).iter().map(|found| found.line).collect();
        assert_eq!(lines, [2, 5]);
        let page = Source {
            path: "a.md".into(),
            text: "```text\n2 admitted\n2 doors\n2 # refused\n```\n".into(),
        };
        let lines: Vec<_> = find_in_page(&page).iter().map(|found| found.line).collect();
        assert_eq!(lines, [2, 4]);
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
    fn what_a_thing_is_not_is_said_with_not() {
        assert!(has_is_no("`{text}` is no address"));
        assert!(has_is_no("these are no names: {}"));
        assert!(has_is_no("the text is \\\n            no address"));
        assert!(has_is_no("It is no JSON"));
        assert!(has_is_no("\"is no port\""));
        assert!(!has_is_no("\"There is no rule, and there are no limits"));
        assert!(!has_is_no("for which there is no rule"));
        assert!(!has_is_no("it is no longer used; 0 is no limit"));
        assert!(!has_is_no("it is not a rule; the answer is no"));
        let source = Source {
            path: "crates/core/src/x.rs".into(),
            text: "/// It is no rule.\nfn one() {\n    f(\"is no rule\");\n}\n#[cfg(test)]\n\
                mod tests {\n    const A: &str = \"is no rule\";\n}\n"
                .into(),
        };
        let lines: Vec<_> = find_is_no(&source).iter().map(|found| found.0).collect();
        assert_eq!(lines, [3]);
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
        assert_eq!(page("a.lua", "local door\n-- A door.\n"), [2]);
        assert_eq!(page("a.json", "{\n\"x\": \"A door.\"\n}"), [2]);
        let phrase = RETIRED.iter().rfind(|retired| retired.word.contains(' '));
        let (first, rest) = phrase
            .and_then(|one| one.word.split_once(' '))
            .expect("one");
        let broken = |between: &str| format!("One.\nIt is {first}{between}{rest} it.\n");
        assert_eq!(page("a.md", &broken(" ")), [2]);
        assert_eq!(page("a.md", &broken("\n")), [3]);
        assert!(page("a.md", &broken("\n\n")).is_empty());
        let comment = |between: &str| format!("# It is {first}\n{between}# {rest} it.\n");
        assert_eq!(page("a.yaml", &comment("")), [2]);
        assert!(page("a.yaml", &comment("a: 1\n")).is_empty());
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
