//! Settings that are read as rules.

use tollgate_rules::{Diagnostic, Loaded, Options, RuleSet, Source};

fn load(text: impl Into<Vec<u8>>) -> Loaded {
    RuleSet::parse(&[Source::new("tollgate.yaml", text)], &Options::default())
}

/// The positions of the diagnostics, all of which say that these are settings.
fn positions(text: impl Into<Vec<u8>>) -> Vec<(u32, u32)> {
    let loaded = load(text);
    assert!(loaded.rules.is_empty());
    let position = |found: &Diagnostic| {
        assert_eq!(found.code, "not-rules", "{found}");
        assert_eq!(found.text, "", "{found}");
        for shown in [found.to_string(), found.to_json().to_string()] {
            assert!(!shown.contains("hunter2"), "{shown}");
        }
        (found.line, found.column)
    };
    loaded.diagnostics.iter().map(position).collect()
}

#[test]
fn one_error_says_what_they_are_and_shows_nothing_of_them() {
    let loaded = load("log: {}\nstore: redis://:hunter2@host\nrules: x\nstoer: hunter2\n");
    let shown: Vec<String> = loaded
        .diagnostics
        .iter()
        .map(Diagnostic::to_string)
        .collect();
    let expected = "error[not-rules]: these are settings of Tollgate, not rules: `store` is a key \
        of settings\n --> tollgate.yaml:2:1\n  = help: `tollgate check --config tollgate.yaml` \
        checks them; if they are in a directory of rules, move them out of it\n";
    assert_eq!(shown, [expected]);
}

#[test]
fn whatever_is_wrong_in_them_is_not_shown() {
    for (text, position) in [
        ("store: {redis: {password: [hunter2]}}", (1, 1)),
        ("redis_protocol: hunter2\nrules: x", (1, 1)),
        ("limits: hunter2\nlog: {x: !hunter2 y}\nlisten:", (3, 1)),
        (
            "stores: {a: {redis://:hunter2@h: , redis://:hunter2@h: }}",
            (1, 1),
        ),
        (
            "<<: hunter2\n? [hunter2]\n: x\nrules: x\nhunter2: 1\nhunter2: 2",
            (4, 1),
        ),
        ("{\"store\": hunter2}", (1, 2)),
        // What is not YAML.
        ("rules: x\nstore: [hunter2", (1, 1)),
        ("hunter2: \"x\nrules: x\nstore: hunter2", (2, 1)),
        ("log: {}\nrules: x\n\tpassword: hunter2", (2, 1)),
        ("{ store: hunter2, log: [}", (1, 3)),
        ("x: *hunter2\n'store': hunter2", (2, 2)),
    ] {
        assert_eq!(positions(text), [position], "{text}");
    }
    assert_eq!(
        positions(b"rules: x\nstore: hunter2\xff\n".to_vec()),
        [(1, 1)]
    );
    let large = format!(
        "store: hunter2\n#{}",
        " ".repeat(tollgate_rules::FILE_BYTES_MAX)
    );
    assert_eq!(positions(large), [(1, 1)]);
    let many = "hunter2: 1\n".repeat(tollgate_rules::DIAGNOSTICS_MAX + 10);
    assert_eq!(positions(format!("{many}rules: x\n")), [(1011, 1)]);
}

#[test]
fn other_documents_of_the_file_are_read() {
    let rules = "descriptors: [{key: b, rate_limit: 1/s}]\n";
    let text = format!(
        "domain: a\n{rules}---\nstore: hunter2\nx: 1\nx: 2\n---\ndomain: b\ny: 1\ny: 2\n---\n\
         domain: c\n{rules}---\nrules: [\nhunter2\n---\ndomain: d\n"
    );
    let loaded = load(text);
    let domains: Vec<&str> = loaded.rules.domains().collect();
    assert_eq!(domains, ["a", "c"]);
    let found = loaded.diagnostics.iter();
    let found: Vec<_> = found
        .map(|found| (found.code, found.line, found.domain.as_deref()))
        .collect();
    let expected = [
        ("not-rules", 4, None),
        ("unknown-key", 9, Some("b")),
        ("duplicate-key", 10, Some("b")),
        ("not-rules", 15, None),
    ];
    assert_eq!(found, expected);
}

/// A file may begin with settings, which their own reader checks.
#[test]
fn settings_before_rules_are_skipped() {
    let rules = "domain: a\ndescriptors: [{key: b, rate_limit: 1/s}]\n";
    for settings in [
        "rules: x\n",
        "gateway: {domain: a}\nlog: {}\n",
        "memory: hunter2\nx: 1\nx: 2\n",
    ] {
        let loaded = load(format!("{settings}---\n{rules}"));
        assert_eq!(loaded.diagnostics, [], "{settings}");
        assert!(loaded.rules.domains().eq(["a"]), "{settings}");
        // Without rules they are in the wrong place.
        for end in ["", "---\n", "---\n---\n"] {
            assert_eq!(positions(format!("{settings}{end}")), [(1, 1)]);
        }
    }
    let wrong = load("rules: x\nx: 1\nx: 2\n---\ndomain: a\ny: 1\ny: 2\n");
    let found: Vec<_> = wrong
        .diagnostics
        .iter()
        .map(|found| (found.code, found.line))
        .collect();
    assert_eq!(found, [("unknown-key", 6), ("duplicate-key", 7)]);
    // Settings after rules, or after settings, are in the wrong place.
    for text in [
        format!("{rules}---\nrules: x\n"),
        format!("rules: x\n---\nstore: x\n---\n{rules}"),
    ] {
        let codes: Vec<_> = load(text)
            .diagnostics
            .into_iter()
            .map(|found| found.code)
            .collect();
        assert_eq!(codes, ["not-rules"]);
    }
}

#[test]
fn a_document_with_a_domain_is_rules() {
    for text in [
        "domain: a\nstore: memory\n",
        "rules: x\ndomain: a\n",
        "rules: x\ndomain: a\n\tx",
        "{rules: x, domain: a, b: [}",
    ] {
        let loaded = load(text);
        let codes = loaded.diagnostics.iter().map(|found| found.code);
        assert!(codes.clone().all(|code| code != "not-rules"), "{text}");
        assert!(codes.count() > 0);
    }
}
