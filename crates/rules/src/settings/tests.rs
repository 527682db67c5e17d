#![allow(clippy::unwrap_used)]

use tollgate_core::{Mode, OnStoreError, Span};

use super::*;

/// What the test's settings are made into.
type Taken = (bool, u32, Span, Vec<String>, Option<u16>);

fn read(text: &str) -> Result<Taken, Vec<Diagnostic>> {
    let source = Source::new("s.yaml", text);
    settings(&source, &[], |top| {
        let (number, span) = top.map("limits", |limits| {
            let number = limits.count("connections", 7, (1, 100));
            let range = (Span::ZERO, Span::MINUTE);
            (number, limits.span("timeout", Span::SECOND, range))
        });
        let port = top.parse("port", "8080", |text| {
            text.parse().map_err(|_| "is not a port".to_owned())
        });
        (
            top.flag("merge", false),
            number,
            span,
            top.texts("rules"),
            port,
        )
    })
}

fn complaints(text: &str) -> Vec<String> {
    let diagnostics = read(text).unwrap_err();
    let shown = diagnostics.into_iter().map(|found| {
        let help = found.help.unwrap_or_default();
        format!("{}:{}: {}; {help}", found.line, found.column, found.message)
    });
    shown.collect()
}

#[test]
fn what_is_written_is_read_and_what_is_not_has_its_default() {
    let text =
        "rules: [a, b]\nmerge: true\nport: 80\nlimits:\n  connections: 9\n  timeout: 1s5ms\n";
    let rules = vec!["a".to_owned(), "b".to_owned()];
    let expected = (true, 9, Span::from_millis(1_005), rules, Some(80));
    assert_eq!(read(text).unwrap(), expected);
    let defaults = (false, 7, Span::SECOND, Vec::new(), None);
    for text in ["", "# nothing\n", "limits: {}\n"] {
        assert_eq!(read(text).unwrap(), defaults, "{text:?}");
    }
    assert_eq!(read("rules: one\n").unwrap().3, ["one"]);
}

#[test]
fn every_error_is_reported_at_its_place() {
    let text = "rulse: a\nport: x\nlimits:\n  conections: 1\n  timeout: 2h\nmerge: maybe\n";
    let expected = [
        "1:1: unknown key `rulse`; did you mean `rules`?",
        "2:7: `x` is not a port; write `port: 8080`",
        "4:3: unknown key `conections`; did you mean `limits.connections`?",
        "5:12: `2h` is outside 0s to 1m; write `timeout: 1s`",
        "6:8: `maybe` is neither `true` nor `false`; write `merge: false`, without quotes",
    ];
    assert_eq!(complaints(text), expected);
}

#[test]
fn a_value_that_must_be_a_map_is_reported() {
    let list = ["1:1: this must be a map, and is a list; write `key: value`, one key a line"];
    assert_eq!(complaints("- a\n"), list);
    let number = "1:9: this must be a map, and is a number; write `limits: {connections: VALUE}`; \
        its other keys are `timeout`";
    assert_eq!(complaints("limits: 5\n"), [number]);
    assert!(!complaints("a: [\n").is_empty());
}

/// What is wrong with them is reported when they are read as rules.
#[test]
fn further_documents_are_rules_and_not_looked_at() {
    let is_followed = |text: &str| {
        let source = Source::new("s.yaml", text);
        settings(&source, &[], |top| top.is_followed_by_rules())
    };
    for (text, expected) in [
        ("", false),
        ("{}\n", false),
        ("{}\n---\n", false),
        ("{}\n---\ndomain: a\n", true),
        ("{}\n---\na: 1\na: 2\n", true),
        ("---\n{}\n---\n---\n[b]\n", true),
    ] {
        assert_eq!(is_followed(text).unwrap(), expected, "{text}");
    }
    // The keys of the settings themselves are checked as always.
    assert_eq!(is_followed("a: 1\na: 2\n---\nb: 1\n").unwrap_err().len(), 2);
    assert!(is_followed("{}\n---\na: [\n").is_err());
    // Nor are those of the rules counted that did not fit.
    let many = "x: 1\n".repeat(crate::DIAGNOSTICS_MAX + 10);
    let errors = is_followed(&format!("a: 1\n---\n{many}")).unwrap_err();
    assert!(errors.iter().map(|error| error.code).eq(["unknown-key"]));
}

#[test]
fn named_maps_are_read_one_by_one() {
    let read = |text: &str| {
        settings(&Source::new("s.yaml", text), &[], |top| {
            top.each("stores", |name, store| {
                (name.to_owned(), store.count("size", 1, (1, 9)))
            })
        })
    };
    let taken = read("stores:\n  b: {size: 2}\n  a: {}\n").unwrap();
    assert_eq!(taken, [("b".to_owned(), 2), ("a".to_owned(), 1)]);
    assert_eq!(read("stores: {}\n").unwrap(), []);
    let empty = read("stores:\n  b: {size: 2}\n  a:\n").unwrap_err();
    assert_eq!(empty[0].message, "`a` has no value");
    let wrong = read("stores:\n  a: {sise: 2}\n  b: 3\n").unwrap_err();
    assert_eq!(
        wrong[0].help.as_deref(),
        Some("did you mean `stores.a.size`?")
    );
    assert_eq!((wrong[1].line, wrong[1].column), (3, 6));
}

#[test]
fn a_secret_is_in_no_message() {
    let read = |text: &str| {
        settings(&Source::new("s.yaml", text), &[], |top| {
            top.secret("password")
        })
    };
    for (text, secret) in [
        ("password: 'a: b'\n", Some("a: b")),
        ("password: 1.5\n", Some("1.5")),
        ("{}\n", None),
    ] {
        assert_eq!(read(text).unwrap().as_deref(), secret, "{text}");
    }
    let wrong = read("password:\n  - hunter2\n").unwrap_err();
    assert!(!wrong[0].message.contains("hunter2"), "{wrong:?}");
    let is_map = |text: &str| settings(&Source::new("s.yaml", text), &[], |top| top.is_map("tls"));
    assert!(is_map("tls: {}\n").unwrap());
    assert!(!is_map("tls: true\n").unwrap());
    let has = |text: &str| settings(&Source::new("s.yaml", text), &[], |top| top.has("tls"));
    assert!(has("tls: false\n").unwrap());
    assert!(!has("{}\n").unwrap());
}

/// A key that is there and has no effect might be one that was to protect something.
#[test]
fn a_key_without_a_value_is_an_error() {
    let found = |text: &str| {
        let read = settings(&Source::new("s.yaml", text), &["secret"], |top| {
            top.map("limits", |limits| limits.flag("tls", false));
            top.map("secret", |secret| secret.text("password_file"));
            top.map("listen", |listen| {
                if listen.is_off("http") {
                    listen.report_error("http", "off".to_owned(), "");
                }
            });
            top.report_error("limits", "wrong".to_owned(), "");
            let _: Option<Typed> = top.value("typed");
            top.texts("rules")
        });
        let shown = read.unwrap_err().into_iter().map(|found| {
            let help = found.help.unwrap_or_default();
            format!("{}:{}: {}; {help}", found.line, found.column, found.message)
        });
        let wrong = |found: &String| !found.ends_with(": wrong; ");
        shown.filter(wrong).collect::<Vec<_>>()
    };
    let help = "has no value; write a value for it, or remove the key";
    for (text, key) in [
        ("limits:", "1:1: `limits`"),
        ("limits: ~\n", "1:1: `limits`"),
        ("limits: !!null ''", "1:1: `limits`"),
        ("{? limits}", "1:4: `limits`"),
        ("limits:\n  tls: # not yet\n", "2:3: `tls`"),
        ("limits: {<<: {tls: null}}", "1:15: `tls`"),
        ("listen: null", "1:1: `listen`"),
        ("rules:\nlimits: {}\n", "1:1: `rules`"),
        ("secret: {password_file: }", "1:10: `password_file`"),
        ("typed: Null", "1:1: `typed`"),
        ("typed: {hops: }", "1:9: `hops`"),
        ("typed: {choice: {needed: }}", "1:18: `needed`"),
        ("typed: {choice: {needed: {key: ~}}}", "1:27: `key`"),
    ] {
        assert_eq!(found(text), [format!("{key} {help}")], "{text}");
    }
    let http = "1:10: `http` has no value; write a value for it, or `http: null` to turn it off";
    assert!(found("listen: {http: }").contains(&http.to_owned()));
    for text in ["listen: {http: null}", "listen: {http: ~}"] {
        assert_eq!(found(text), ["1:16: off; "], "{text}");
    }
    for (text, place) in [
        ("rules: [a, null]", "1:12: an item of `rules`"),
        ("typed: {names: [a, ~]}", "1:20: an item of `names`"),
    ] {
        let help = "has no value; write a value, or remove the item";
        assert_eq!(found(text), [format!("{place} {help}")], "{text}");
    }
    // All of them at once, and what else is wrong.
    assert_eq!(
        found("listne:\nlimits:\nsecret: {hunter2: }\ntyped: {flag: 1, hops: }").len(),
        5
    );
    let hidden = found("secret: {hunter2: }").concat();
    assert!(!hidden.contains("hunter2"), "{hidden}");
}

#[test]
fn sharing_has_the_words_of_rules() {
    let default = Sharing {
        mode: Mode::Leased,
        on_store_error: OnStoreError::Allow,
        instances: NonZeroU32::new(7),
    };
    let read = |text: &str| {
        settings(&Source::new("s.yaml", text), &[], |top| {
            top.sharing(default)
        })
    };
    assert_eq!(read("").unwrap(), default);
    let sharing = read("mode: write_back\non_store_error: local\ninstances: 3\n").unwrap();
    let expected = Sharing {
        mode: Mode::WriteBack,
        on_store_error: OnStoreError::Local,
        instances: NonZeroU32::new(3),
    };
    assert_eq!(sharing, expected);
    let wrong = read("nodes: 3\n").unwrap_err();
    assert_eq!(
        wrong[0].help.as_deref(),
        Some("it is called `instances` now")
    );
    let wrong = read("mode: fast\ninstances: 0\n").unwrap_err();
    let lines: Vec<u32> = wrong.iter().map(|found| found.line).collect();
    assert_eq!(lines, [1, 2]);
}

/// A type of another crate.
#[derive(Debug, Default, PartialEq, serde::Deserialize)]
#[serde(deny_unknown_fields, default)]
struct Typed {
    flag: bool,
    bits: u8,
    port: u16,
    hops: Option<usize>,
    names: Vec<String>,
    choice: Choice,
    wait: Option<Span>,
}

#[derive(Debug, Default, PartialEq, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
enum Choice {
    #[default]
    Nothing,
    Named(String),
    Sized {
        #[serde(default)]
        bytes: Option<u8>,
    },
    Needed(Needed),
}

#[derive(Debug, PartialEq, serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct Needed {
    key: String,
}

fn typed(text: &str) -> Result<Option<Typed>, Vec<String>> {
    let source = Source::new("s.yaml", text);
    let read = settings(&source, &[], |top| top.value("typed"));
    read.map_err(|diagnostics| {
        let shown = diagnostics.into_iter().map(|found| {
            let help = found.help.unwrap_or_default();
            format!("{}:{}: {}; {help}", found.line, found.column, found.message)
        });
        shown.collect()
    })
}

#[test]
fn types_of_other_crates_are_read() {
    let text = "typed: {flag: true, bits: 255, port: 0x10, hops: 3, names: [a, 7], choice: \
        {named: x}}\n";
    let expected = Typed {
        flag: true,
        bits: 255,
        port: 16,
        hops: Some(3),
        names: vec!["a".to_owned(), "7".to_owned()],
        choice: Choice::Named("x".to_owned()),
        wait: None,
    };
    assert_eq!(typed(text).unwrap(), Some(expected));
    for text in ["typed: {}", "typed: {choice: nothing}"] {
        assert_eq!(typed(text).unwrap(), Some(Typed::default()), "{text}");
    }
    assert_eq!(typed("").unwrap(), None);
    for (choice, expected) in [
        ("{sized: {bytes: 5}}", Choice::Sized { bytes: Some(5) }),
        ("{sized: {}}", Choice::Sized { bytes: None }),
        (
            "{needed: {key: k}}",
            Choice::Needed(Needed {
                key: "k".to_owned(),
            }),
        ),
    ] {
        let read = typed(&format!("typed: {{choice: {choice}}}\n"));
        assert_eq!(read.unwrap().unwrap().choice, expected);
    }
}

#[test]
fn errors_in_types_of_other_crates_are_reported_at_their_place() {
    for (value, expected) in [
        (
            "[]",
            "1:8: `typed` is a map, and this is a list; write `typed: {flag: VALUE}`; its other \
             keys are `bits`, `port`, `hops`, `names`, `choice`, `wait`",
        ),
        (
            "{flga: true}",
            "1:9: unknown key `flga`; did you mean `flag`?",
        ),
        (
            "{x: 1}",
            "1:9: unknown key `x`; write one of `flag`, `bits`, `port`, `hops`, `names`, `choice`, \
             `wait`",
        ),
        (
            "{flag: 1}",
            "1:15: `1` is neither `true` nor `false`; write `flag: true`, without quotes",
        ),
        (
            "{bits: 256}",
            "1:15: `256` is outside 0 to 255; write a whole number from 0 to 255",
        ),
        (
            "{bits: '8'}",
            "1:15: `8` is text; leave out the quotes: `bits: 8`",
        ),
        (
            "{names: a}",
            "1:16: `names` is a list, and this is text; write `names: [...]`",
        ),
        (
            "{names: [{}]}",
            "1:17: `names` takes text, and this is a map; write `names: NAME`",
        ),
        (
            "{choice: namd}",
            "1:17: `namd` is not a valid `choice`; did you mean `named`?",
        ),
        (
            "{choice: named}",
            "1:17: `named` needs a value; write `choice: { named: VALUE }`",
        ),
        (
            "{choice: {nothing: 1}}",
            "1:27: `nothing` is a choice without a value, and this is a number; \
             write `nothing` alone",
        ),
        (
            "{choice: {named: a, sized: {}}}",
            "1:17: `choice` is one choice, and this is a map; write `choice: { ... }`",
        ),
        (
            "{choice: {needed: {}}}",
            "1:26: `key` is missing below `needed`; write `key: ...`",
        ),
    ] {
        let found = typed(&format!("typed: {value}\n")).unwrap_err();
        assert_eq!(found, [expected], "{value}");
    }
}

#[test]
fn texts_with_a_form_of_their_own_have_it_as_the_remedy() {
    for (value, expected) in [
        (
            "{names: [1.5]}",
            "1:17: `names` takes text, and `1.5` is a number with a point (error checking config); \
             put it in quotes: `names: \"1.5\"`",
        ),
        (
            "{wait: 15}",
            "1:15: a number has no unit of time after it; did you mean `wait: 15s`?",
        ),
        (
            "{wait: 5 minutes}",
            "1:15: unknown unit of time ` minutes`: write ns, us, ms, s, m, h, d or w; did you \
             mean `wait: 5m`?",
        ),
        (
            "{wait: 1.5s}",
            "1:15: a length of time is not a whole number of its unit; write a length of time such \
             as `15m`",
        ),
        (
            "{wait: 1.5}",
            "1:15: a length of time is not a whole number of its unit; write a length of time such \
             as `15m`",
        ),
    ] {
        let found = typed(&format!("typed: {value}\n")).unwrap_err();
        assert_eq!(found, [expected], "{value}");
    }
}

#[test]
fn every_error_in_a_type_of_another_crate_is_reported() {
    let text = "typed:\n  flga: true\n  bits: 256\n  names: [{}, a, []]\n  hops: x\n  \
        choice: {needed: {yek: k}}\n";
    let expected = [
        "2:3: unknown key `flga`; did you mean `flag`?",
        "3:9: `256` is outside 0 to 255; write a whole number from 0 to 255",
        "4:11: `names` takes text, and this is a map; write `names: NAME`",
        "4:18: `names` takes text, and this is a list; write `names: NAME`",
        "5:9: `x` is not a number; write a whole number from 0 to 4294967295",
        "6:20: `key` is missing below `needed`; write `key: ...`",
        "6:21: unknown key `yek`; write one of `key`",
    ];
    let found = typed(text).unwrap_err();
    assert_eq!(found, expected);
}

/// What is missing only because it was wrong is not a further error, but what nobody wrote is.
#[test]
fn an_error_has_no_consequences() {
    for (choice, expected) in [
        (
            "{needed: {key: []}}",
            vec!["1:32: `key` takes text, and this is a list; write `key: NAME`"],
        ),
        (
            "{needed: {other: []}}",
            vec![
                "1:26: `key` is missing below `needed`; write `key: ...`",
                "1:27: unknown key `other`; write one of `key`",
            ],
        ),
    ] {
        let found = typed(&format!("typed: {{choice: {choice}}}\n")).unwrap_err();
        assert_eq!(found, expected, "{choice}");
    }
}

#[test]
fn an_error_is_reported_at_the_innermost_part_of_a_path_that_is_there() {
    let text = "outer:\n  list: [{a: 1}, {b: {c: 2}}]\n";
    for (path, expected) in [
        ("list[1].b.c", "2:26"),
        ("list[1].b.d", "2:22"),
        ("list[7]", "2:9"),
        ("other", "2:3"),
    ] {
        let source = Source::new("s.yaml", text);
        let reported = settings(&source, &[], |top| {
            let _ = top.value::<serde::de::IgnoredAny>("outer");
            top.report_error_at("outer", path, "wrong".to_owned(), "fix it");
        });
        let found = &reported.unwrap_err()[0];
        assert_eq!(
            format!("{}:{}", found.line, found.column),
            expected,
            "{path}"
        );
    }
}

#[test]
fn a_syntax_error_shows_nothing_of_the_text() {
    for text in [
        "store: {}\npassword:hunter2\nx: 1\n",
        "hunter2:hunter2\nx: 1\n",
        "hunter2 = hunter2\nx: 1\n",
        "password: @hunter2\n",
        "password: *hunter2\n",
        "password: hunter2: hunter2\n",
        "hunter2: x\n   y: 1\n",
        "a:\n  b:\n    hunter2: 1\n   y: 1\n",
        "password: 'hunter2'hunter2\n",
    ] {
        let source = Source::new("s.yaml", text);
        for found in settings(&source, &["password"], |_| ()).unwrap_err() {
            let shown = format!("{} {:?}", found.message, found.help);
            assert!(!shown.contains("hunter2"), "{text}: {shown}");
        }
    }
}

#[test]
fn rules_without_their_separator_are_recognised() {
    let source = Source::new("s.yaml", "x: 1\ndomain: a\n");
    let found = settings(&source, &[], |top| top.flag("x", false)).unwrap_err();
    let helps = found.iter().filter_map(|found| found.help.as_deref());
    let is_separator = |help: &str| help.contains("put `---` on a line of its own");
    assert_eq!(
        helps.filter(|help| is_separator(help)).count(),
        1,
        "{found:?}"
    );
}
