//! What is written as other products have it, or as YAML does not: the error is at its cause, and
//! its help says what to write.

use tollgate_rules::{Diagnostic, Options, RuleSet, Source};

/// A descriptor, to which lines can be added.
const USER: &str = "domain: shop\ndescriptors:\n  - key: user\n";

fn find(text: &str) -> Vec<Diagnostic> {
    let sources = [Source::new("rules.yaml", text)];
    RuleSet::parse(&sources, &Options::default()).diagnostics
}

/// The only diagnostic of a file.
fn find_one(text: &str) -> Diagnostic {
    let mut found = find(text);
    assert_eq!(found.len(), 1, "{text}\n{found:?}");
    found.remove(0)
}

/// Checks that there is one error, its position, and how its help begins.
#[track_caller]
fn check(text: &str, (line, column): (u32, u32), help: &str) {
    let found = find_one(text);
    let shown = found.help.clone().unwrap_or_default();
    assert!(found.is_error(), "{found}");
    assert_eq!((found.line, found.column), (line, column), "{found}");
    assert!(shown.starts_with(help), "{found}");
}

#[test]
fn keys_of_other_products_in_a_descriptor() {
    for (line, help) in [
        (
            "requests_per_second: 20",
            "write the limit as `rate_limit: 20/second`",
        ),
        (
            "requestsPerMinute: 60",
            "write the limit as `rate_limit: 60/minute`",
        ),
        ("rate: 7r/s", "write the limit as `rate_limit: 7/second`"),
        (
            "max_requests: 5",
            "write the limit as `rate_limit: 5/second`",
        ),
        ("period: 1m", "write the limit as `rate_limit: 10/1m`"),
        (
            "limit: {unit: minute, requests_per_unit: 5}",
            "did you mean `rate_limit`?",
        ),
        ("limit_by: ip", "each value of `key` has its own counter"),
        (
            "path: /x",
            "each value of `key` has its own counter; a second key goes one level down",
        ),
        ("dry_run: true", "write `shadow_mode: true`"),
        ("max_burst: 3", "a burst belongs inside `rate_limit`"),
        (
            "limits: [5/m]",
            "write the limit of this descriptor as `rate_limit`",
        ),
        (
            "description: for guests",
            "write it as a comment, after `# `",
        ),
    ] {
        check(&format!("{USER}    {line}\n"), (4, 5), help);
    }
    let both = find(&format!("{USER}    average: 100\n    period: 1m\n"));
    let helps: Vec<_> = both.iter().map(|found| found.help.as_deref()).collect();
    assert_eq!(helps, [Some("write the limit as `rate_limit: 100/1m`"); 2]);
}

#[test]
fn a_descriptor_with_another_key_than_key() {
    for (item, help) in [
        (
            "header: x-user",
            "write `key: NAME`: requests carry this key",
        ),
        (
            "name: user",
            "write `key: NAME`, the key that requests carry",
        ),
        ("user: ann", "write `key: user` and `value: ann`"),
        ("user: 5/m", "write `key: user` and `rate_limit: 5/m`"),
    ] {
        check(
            &format!("domain: shop\ndescriptors:\n  - {item}\n"),
            (3, 5),
            help,
        );
    }
}

#[test]
fn keys_of_other_products_in_a_limit() {
    for (keys, help) in [
        (
            "requests_per_second: 20",
            "write `requests_per_unit: 20` and `unit: second`",
        ),
        (
            "requests: 20, unit: minute",
            "write `requests_per_unit: 20`",
        ),
        ("per: minute, requests_per_unit: 5", "write `unit: minute`"),
        (
            "window_ms: 500, requests_per_unit: 5",
            "write `window: 500ms`",
        ),
        ("period: 60, requests_per_unit: 5", "write `window: 60s`"),
        ("limit: 5/m", "write `rate_limit: 5/minute`"),
        ("5/m", "write `rate_limit: 5/m`, without braces"),
    ] {
        check(
            &format!("{USER}    rate_limit: {{{keys}}}\n"),
            (4, 18),
            help,
        );
    }
}

#[test]
fn keys_of_other_products_in_a_document() {
    let rules = "[{key: user, rate_limit: 5/m}]";
    for (text, help) in [
        (
            format!("domain: a\nrules: {rules}\n"),
            "rules are listed below `descriptors`",
        ),
        (
            format!("domain: a\nlimits: {rules}\n"),
            "rules are listed below `descriptors`",
        ),
        (
            "domain: a\nrequests_per_second: 5\n".to_owned(),
            "a limit belongs in a descriptor",
        ),
        (
            "domain: a\nlisten: {http: '127.0.0.1:80'}\n".to_owned(),
            "it is a setting of the service: put `---` on a line of its own",
        ),
    ] {
        check(&text, (2, 1), help);
    }
    for (text, help) in [
        ("name: shop\n", "write `domain: NAME`"),
        ("domains: [a]\n", "each domain is a document of its own"),
        (
            "apiVersion: v1\nkind: ConfigMap\ndata: {}\n",
            "this is an object of Kubernetes",
        ),
        (
            "- key: user\n  rate_limit: 5/m\n",
            "write `domain: NAME` and `descriptors:` above this list",
        ),
        ("- domain: shop\n", "remove the `- ` before `domain`"),
        ("domain:shop\n", "write a space after the colon"),
        ("domain = \"shop\"\n", "write `:` in place of `=`"),
    ] {
        check(text, (1, 1), help);
    }
}

#[test]
fn what_a_short_form_suggests_is_right() {
    for (form, meant) in [
        ("05/m", "5/minute"),
        ("1e3/m", "1000/minute"),
        ("100r/s", "100/second"),
        ("5 / 15 m", "5/15m"),
        ("5 req/min", "5/minute"),
        ("10 rps", "10/second"),
        ("1,000/h", "1000/hour"),
        ("5 per 15 minutes", "5/15m"),
        ("“5/m”", "5/minute"),
    ] {
        let help = format!("did you mean `rate_limit: {meant}`?");
        check(&format!("{USER}    rate_limit: {form}\n"), (4, 17), &help);
        assert_eq!(find(&format!("{USER}    rate_limit: {meant}\n")), []);
    }
}

#[test]
fn other_texts_in_place_of_a_limit() {
    for (form, help) in [
        ("10", "write its window as well: `rate_limit: 10/second`"),
        ("10/", "write its window as well: `rate_limit: 10/second`"),
        ("5/60", "for seconds, write `rate_limit: 5/60s`"),
        ("unlimited", "write `rate_limit: {unlimited: true}`"),
        ("1.5/s", "write a whole number and a window to match"),
        ("[5/m]", "write `rate_limit: 5/m`"),
        ("[5/m, 9/h]", "a descriptor has one limit"),
        ("5/m, 9/h", "a descriptor has one limit"),
        ("5/s burst 9", "other parameters go in a map"),
        ("60s", "write `rate_limit: 100/minute`"),
    ] {
        check(&format!("{USER}    rate_limit: {form}\n"), (4, 17), help);
    }
    for (unit, help) in [
        ("unit: s", "did you mean `second`?"),
        ("unit: 60", "write `window: 60s` in place of `unit`"),
        ("unit: 15 minutes", "write `window: 15m` in place of `unit`"),
        (
            "window: minute",
            "write `unit: minute` in place of `window`",
        ),
        ("window: 15 minutes", "did you mean `window: 15m`?"),
    ] {
        let column = if unit.starts_with('u') { 24 } else { 26 };
        let limit = format!("{USER}    rate_limit: {{{unit}, requests_per_unit: 5}}\n");
        check(&limit, (4, column), help);
    }
    for (count, help) in [
        ("10/m", "write `rate_limit: 10/m`"),
        ("1k", "write `requests_per_unit: 1000`"),
        ("unlimited", "write `unlimited: true`"),
    ] {
        let limit = format!("{USER}    rate_limit: {{unit: day, requests_per_unit: {count}}}\n");
        check(&limit, (4, 48), help);
    }
}

#[test]
fn numbers_that_are_no_counts_of_units() {
    for (count, help) in [
        ("1e3", "write `requests_per_unit: 1000`"),
        (".inf", "write `unlimited: true` in place of"),
        ("1.5", "write a whole number and a window to match"),
    ] {
        let text = format!("{USER}    rate_limit: {{requests_per_unit: {count}, unit: hour}}\n");
        check(&text, (4, 37), help);
    }
    let text = format!("{USER}    rate_limit: 5/-5s\n");
    let message = find_one(&text).message;
    assert_eq!(message, "`5/-5s` has a negative length of time");
}

#[test]
fn values_that_need_quotes() {
    for (value, column, help) in [
        ("*", 12, "a wildcard goes in quotes: `\"*\"`"),
        (
            "*.example",
            12,
            "a wildcard goes in quotes: `\"*.example\"`",
        ),
        ("@x", 12, "put it in quotes: `\"@x\"`"),
        ("%41", 12, "put it in quotes: `\"%41\"`"),
        ("- a", 12, "put it in quotes: `\"- a\"`"),
        ("| a", 12, "put it in quotes: `\"| a\"`"),
        ("`a`", 12, "put it in quotes"),
        ("a: b", 13, "put the value in quotes: `value: \"a: b\"`"),
        ("'it's'", 16, "put all of the value in one pair of quotes"),
        ("\"a", 12, "close it at the end of the value"),
        ("\"\\d\"", 12, "use single quotes"),
    ] {
        check(
            &format!("{USER}    value: {value}\n    rate_limit: 5/m\n"),
            (4, column),
            help,
        );
    }
    check(
        &format!("{USER}    rate_limit: *five\n"),
        (4, 17),
        "`*NAME` repeats a value",
    );
    let open = "the `[` in line 4, column 12 is not closed";
    check(
        &format!("{USER}    value: [a\n    rate_limit: 5/m\n"),
        (5, 15),
        open,
    );
}

#[test]
fn tabs_and_other_spaces() {
    let tab = "YAML is indented with spaces only";
    check(&format!("{USER}\trate_limit: 5/m\n"), (4, 1), tab);
    check(&format!("{USER}  \trate_limit: 5/m\n"), (4, 3), tab);
    check("domain:\tshop\n", (1, 8), "write a space after the colon");
    let space = "replace it with an ordinary space";
    check(
        "domain: a\ndescriptors:\n  - key:\u{a0}b\n    rate_limit: 5/m\n",
        (3, 9),
        space,
    );
}

#[test]
fn keys_without_a_space_or_a_colon() {
    let item = |item: &str| format!("domain: a\ndescriptors:\n  {item}\n    rate_limit: 5/m\n");
    check(&item("- key:user"), (3, 8), "write `key: user`");
    check(&item("- key user"), (3, 8), "write `key: user`");
    check(&item("- key = user"), (3, 9), "write `key: user`");
    check(&item("-key: user"), (3, 3), "write `- key: user`");
    check(&item("* key: user"), (3, 3), "begin it with `- `");
    check(
        &format!("{USER}    value:x\n    rate_limit: 5/m\n"),
        (4, 10),
        "write `value: x`",
    );
    check(
        &format!("{USER}    rate_limit:5/m\n"),
        (4, 15),
        "write `rate_limit: 5/m`",
    );
    check(
        "domain: a\ndescriptors:\n  - key:user\n",
        (3, 5),
        "write a space after the colon",
    );
    let flow = format!("{USER}    rate_limit: {{unit:day, requests_per_unit: 5}}\n");
    check(&flow, (4, 18), "write a space after the colon: `unit: day`");
    check(
        "domain shop\ndescriptors: []\n",
        (1, 7),
        "write `domain: shop`",
    );
    check(
        "// rules\ndomain: shop\n",
        (1, 1),
        "a comment begins with `#`",
    );
    check(
        "domain: a\n----\ndomain: b\n",
        (2, 1),
        "write `---` on a line of its own",
    );
    check(
        "{\"domain\": \"a\" \"mode\": \"strict\"}",
        (1, 16),
        "write a comma",
    );
    check(
        "{{- if x }}\ndomain: a\n",
        (1, 1),
        "render the template first",
    );
}

#[test]
fn lines_that_are_indented_wrongly() {
    for indentation in [2, 3, 5, 8] {
        let spaces = " ".repeat(indentation);
        let column = u32::try_from(indentation).unwrap() + 1;
        let text = format!("{USER}{spaces}rate_limit: 5/m\n");
        check(
            &text,
            (4, column),
            "begin it in column 5, as `key` in line 3",
        );
    }
    let limit = |line: &str| format!("{USER}    rate_limit:\n      unit: day\n{line}\n");
    for (line, column) in [
        ("     requests_per_unit: 5", 6),
        ("        requests_per_unit: 5", 9),
    ] {
        check(
            &limit(line),
            (6, column),
            "begin it in column 7, as `unit` in line 5",
        );
    }
    let item = "domain: a\ndescriptors:\n - key: b\n  - key: c\n";
    check(item, (4, 3), "begin it in column 2, as the item in line 3");
    let flat = find(&format!(
        "{USER}    rate_limit:\n    unit: day\n    requests_per_unit: 5\n"
    ));
    let help = "it belongs inside `rate_limit`: indent it by two more spaces, below `rate_limit`";
    let found: Vec<_> = flat
        .iter()
        .map(|found| (found.line, found.help.as_deref()))
        .collect();
    assert_eq!(found, [(5, Some(help)), (6, Some(help))]);
    let beside = format!("{USER}    rate_limit: 5/m\n    burst: 5\n");
    check(
        &beside,
        (5, 5),
        "it belongs inside `rate_limit`; `rate_limit` is then a map",
    );
    let [alone, apart] = &find(&format!("{USER}  - rate_limit: 5/m\n"))[..] else {
        panic!("a warning and an error");
    };
    assert_eq!((alone.line, apart.line), (3, 4));
    let help = "remove the `- ` before `rate_limit` if it belongs to the item above";
    assert!(apart.help.as_ref().unwrap().starts_with(help), "{apart}");
}

#[test]
fn lists_and_texts() {
    for (replaces, column, help) in [
        ("x", 58, "write `replaces: [{name: x}]`"),
        ("[x]", 59, "write `- name: x`"),
        ("{name: x}", 58, "begin each item with `- `: `- name: …`"),
    ] {
        let limit = format!("{{unlimited: true, name: abcdefghi, replaces: {replaces}}}");
        check(
            &format!("{USER}    rate_limit: {limit}\n"),
            (4, column + 4),
            help,
        );
    }
    for (descriptors, help) in [
        ("user", "write `descriptors: [{key: user}]`"),
        (
            "{user: {}}",
            "begin each item with `- `: `- key: user`, in place of `user:`",
        ),
    ] {
        check(
            &format!("domain: a\ndescriptors: {descriptors}\n"),
            (2, 14),
            help,
        );
    }
    let lists = "write a descriptor for each value";
    check(
        &format!("{USER}    value: [a, b]\n    rate_limit: 5/m\n"),
        (4, 12),
        lists,
    );
    let key = "domain: a\ndescriptors:\n  - key: [b, c]\n";
    check(
        key,
        (3, 10),
        "write one key here; a second key goes one level down",
    );
    let twice = "domain: a\ndescriptors: []\ndomain: b\ndescriptors: []\n";
    check(twice, (3, 1), "put `---` on a line of its own before it");
}

#[test]
fn what_a_merge_key_adds_is_reported_where_it_is_used() {
    let limit = "rate_limit: &five {unit: day, requests_per_unit: 5}";
    let text = format!("{USER}    {limit}\n  - key: b\n    <<: *five\n");
    let found = find(&text);
    assert_eq!(found.len(), 2, "{found:?}");
    for error in &found {
        assert_eq!((error.line, error.column), (6, 5), "{error}");
        assert!(
            error
                .message
                .ends_with("`<<` adds it from the map in line 4"),
            "{error}"
        );
    }
    let same = "domain: a\ndescriptors:\n  - &d\n    key: b\n    rate_limit: 5/m\n  - <<: *d\n";
    let twice = find_one(same);
    assert_eq!(
        (twice.code, twice.line, twice.column),
        ("duplicate-descriptor", 6, 5)
    );
    let alias = find_one(&same.replace("<<: ", ""));
    assert!(alias.message.ends_with("an alias repeats it"), "{alias}");
    let burst = "rate_limit: &x {unit: day, requests_per_unit: 5, burst: 1}";
    let once = format!("{USER}    {burst}\n  - key: b\n    rate_limit: {{<<: *x}}\n");
    assert_eq!(find_one(&once).line, 4);
    let fits = burst.replace("burst: 1", "burst: 1, algorithm: token_bucket");
    let other = "{<<: *x, algorithm: sliding_log}";
    let used = format!("{USER}    {fits}\n  - key: b\n    rate_limit: {other}\n");
    assert_eq!(find_one(&used).line, 6);
    let wrong = "rate_limit: &x {unit: day, requests_per_unit: 5, share: 1}";
    let once = format!("{USER}    {wrong}\n  - key: b\n    rate_limit: {{<<: *x}}\n");
    assert_eq!(find_one(&once).line, 4);
}

#[test]
fn characters_that_are_not_meant_are_warned_about() {
    for (value, message) in [
        ("“ann”", "the curly quotes are part of this value: `“ann”`"),
        ("\"ann\\n\"", "this value ends with a line break: `ann\\n`"),
        (
            "|\n      ann",
            "this value ends with a line break: `ann\\n`",
        ),
        (
            "ann\u{a0}",
            "this value begins or ends with the character U+00A0: `ann\u{a0}`",
        ),
        (
            "${USER}",
            "variables are not replaced in rules, so they are part of this value: `${USER}`",
        ),
    ] {
        let found = find_one(&format!("{USER}    value: {value}\n    rate_limit: 5/m\n"));
        assert!(!found.is_error(), "{found}");
        assert_eq!(
            (found.code, found.message.as_str()),
            ("look-alike", message)
        );
    }
    let comma = find_one("domain: shop,\n");
    assert_eq!(
        comma.message,
        "the last character is part of this domain: `shop,`"
    );
    for value in ["a, b", "it’s", "'a '", "|-\n      ann", "$x", "a,"] {
        let found = find(&format!("{USER}    value: {value}\n    rate_limit: 5/m\n"));
        assert_eq!(found, [], "{value}");
    }
}

#[test]
fn parts_of_a_document_that_are_missing() {
    check(
        "domain: a\nrate_limit: 5/m\n",
        (2, 1),
        "it belongs in an item of `descriptors`",
    );
    let list = "domain: a\n- key: b\n  rate_limit: 5/m\n";
    check(list, (2, 1), "write `descriptors:` in the line above");
    check("domain: \"a\",\n", (1, 12), "remove it");
    let empty = "domain:\ndescriptors: []\n";
    check(empty, (1, 1), "begin with `domain: NAME`");
    let null = find_one("domain: a\ndescriptors:\n  - {key: b, value: null, rate_limit: 5/m}\n");
    let help = "without quotes, this is not text: put it in quotes, or remove the key";
    assert_eq!(null.help.as_deref(), Some(help));
}

#[test]
fn words_of_other_products() {
    for (word, column, help) in [
        ("algorithm: gcra", 62, "did you mean `token_bucket`?"),
        ("algorithm: sliding", 62, "did you mean `sliding_window`?"),
        ("algorithm: leaky", 62, "did you mean `leaky_bucket`?"),
        ("on_store_error: fail_open", 67, "did you mean `allow`?"),
    ] {
        let limit = format!("{{unit: day, requests_per_unit: 5, {word}}}");
        let text = format!("{USER}    rate_limit: {limit}\n");
        check(&text, (4, column), help);
    }
}
