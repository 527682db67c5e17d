//! A rules file of arbitrary bytes.

use tollgate_core::{ChargeDenied, Cost, Descriptor, Entry, Request};
use tollgate_memory::RandomKeys;
use tollgate_rules::{DIAGNOSTICS_MAX, Diagnostic, Loaded, Options, RuleSet, Source};

/// Stands between the two files of an input.
const BORDER: &[u8] = b"\n===\n";

/// Parses the input as one rules file, or as two.
///
/// # Panics
///
/// If the parser does, or a diagnostic points outside its file.
pub fn rules(input: &[u8]) {
    let (first, second) = split(input);
    let sources = [
        Source::new("first.yaml", first),
        Source::new("second.yaml", second),
    ];
    for merge_domains in [false, true] {
        let options = Options {
            merge_domains,
            ..Options::default()
        };
        let loaded = RuleSet::parse(&sources, &options);
        assert!(loaded.diagnostics.len() <= DIAGNOSTICS_MAX + 1);
        for diagnostic in &loaded.diagnostics {
            let text = if diagnostic.file == "first.yaml" {
                first
            } else {
                second
            };
            check(diagnostic, text);
        }
        ask(&loaded);
        // A reload of the same rules changes nothing.
        let (_, changes) = loaded.clone().succeed(&loaded.rules);
        assert!(changes.changed.is_empty(), "{changes:?}");
    }
}

fn split(input: &[u8]) -> (&[u8], &[u8]) {
    let border = input.windows(BORDER.len()).position(|part| part == BORDER);
    border.map_or((input, b"domain: other\n"), |at| {
        (&input[..at], &input[at + BORDER.len()..])
    })
}

fn check(diagnostic: &Diagnostic, text: &[u8]) {
    let text = String::from_utf8_lossy(text);
    // In YAML, a carriage return also ends a line.
    let lines = text.matches(['\n', '\r']).count() + 1;
    let line = usize::try_from(diagnostic.line).unwrap_or(usize::MAX);
    assert!((1..=lines).contains(&line), "{diagnostic:?}");
    let column = usize::try_from(diagnostic.column).unwrap_or(usize::MAX);
    assert!(
        (1..=text.chars().count() + 1).contains(&column),
        "{diagnostic:?}"
    );
    assert!(diagnostic.length >= 1, "{diagnostic:?}");
    assert!(!diagnostic.message.is_empty(), "{diagnostic:?}");
    let shown = diagnostic.to_string();
    let steers = |character: char| character.is_control() && character != '\n';
    assert!(!shown.contains(steers), "{shown:?}");
}

/// Sends requests that the rules may match, and others.
fn ask(loaded: &Loaded) {
    let hasher = RandomKeys::with_secret(1, 2);
    for domain in loaded.rules.domains().chain(["nowhere"]) {
        let pairs = [
            (b"user".as_slice(), b"".as_slice()),
            (b"user", b"ann"),
            (b"path", b"/"),
            (b"key", b"\xff"),
        ];
        let descriptors = pairs.map(|(key, value)| Descriptor {
            entries: vec![
                Entry { key, value },
                Entry {
                    key: b"path",
                    value,
                },
            ]
            .into(),
            ..Descriptor::default()
        });
        let request = Request {
            domain: domain.as_bytes(),
            descriptors: descriptors.into_iter().collect(),
            cost: Cost::ONE,
            charge_denied: ChargeDenied::Excess,
        };
        let resolved = loaded.rules.resolve(&request, &hasher);
        assert!(resolved.charges().len() <= pairs.len());
    }
    for rule in loaded.rules.rules() {
        assert!(!format!("{rule:?}").is_empty());
    }
}
