//! `tollgate check`.

use std::fs;

use serde_json::Value;

use crate::house::{RULES, directory, run, tollgate};

#[test]
fn check_exits_with_0_for_good_rules_1_for_bad_and_2_for_none() {
    let rules = directory(&[("good.yaml", RULES), ("bad.yaml", "domain: e\nx: 1\n")]);
    let good = run(rules.path(), &["check", "good.yaml"]);
    assert_eq!(good.status.code(), Some(0));
    let bad = run(rules.path(), &["check", "."]);
    assert_eq!(bad.status.code(), Some(1));
    let text = String::from_utf8(bad.stdout).unwrap();
    assert!(text.contains("bad.yaml:2:1"), "{text}");
    assert!(
        text.contains("2 files, 1 valid domain with 1 rule: 1 error, 0 warnings"),
        "{text}"
    );
    let json = run(rules.path(), &["check", "--output", "json", "bad.yaml"]);
    assert_eq!(json.status.code(), Some(1));
    let json: Value = serde_json::from_slice(&json.stdout).unwrap();
    assert_eq!(json["errors"], 1);
    assert_eq!(json["diagnostics"][0]["line"], 2);
    let none = run(rules.path(), &["check", "nowhere.yaml"]);
    assert_eq!(none.status.code(), Some(2));
    assert_eq!(run(rules.path(), &["check"]).status.code(), Some(2));
}

#[test]
fn check_without_a_path_names_both_ways() {
    let nothing = directory(&[]);
    let output = run(nothing.path(), &["check"]);
    assert_eq!(output.status.code(), Some(2));
    let text = String::from_utf8(output.stderr).unwrap();
    assert!(text.contains("<PATH|--config <PATH>>"), "{text}");
}

#[test]
fn more_warnings_than_are_shown_are_no_error() {
    let mut bans = "domain: a\ndescriptors:\n".to_owned();
    for value in 0..1_100 {
        bans.push_str(&format!(
            "- {{key: k, value: v{value}, rate_limit: {{unit: second, requests_per_unit: 0}}}}\n"
        ));
    }
    let rules = directory(&[("bans.yaml", &bans)]);
    let output = run(rules.path(), &["check", "bans.yaml"]);
    assert_eq!(output.status.code(), Some(0));
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.contains("100 more warnings are not shown"), "{text}");
    assert!(
        text.contains("1 valid domain with 1100 rules: 0 errors"),
        "{text}"
    );
}

/// A file may have both, and its settings are not checked with the rules.
#[test]
fn settings_before_rules_are_not_checked_without_saying_so() {
    let both = format!("listen: {{http: }}\n---\n{RULES}");
    let files = directory(&[("both.yaml", &both), ("only.yaml", "listen: {http: }\n")]);
    let output = run(files.path(), &["check", "both.yaml"]);
    assert_eq!(output.status.code(), Some(0));
    let text = String::from_utf8(output.stdout).unwrap();
    let hint = "hint: both.yaml:1: the settings in this file are not checked: `tollgate check \
        --config both.yaml` checks them";
    assert!(text.starts_with(hint), "{text}");
    let only = run(files.path(), &["check", "only.yaml"]);
    let text = String::from_utf8(only.stdout).unwrap();
    assert!(
        text.contains("not-rules") && !text.contains("hint"),
        "{text}"
    );
}

#[test]
fn a_path_that_cannot_be_read_hides_no_error_of_the_others() {
    let rules = directory(&[
        ("1.yaml", "domain: a\nx: 1\n"),
        ("3.yaml", "domain: b\ny: 1\n"),
    ]);
    let words = ["check", "1.yaml", "no.yaml", "3.yaml", "nor.yaml"];
    let output = run(rules.path(), &words);
    assert_eq!(output.status.code(), Some(2));
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(
        text.contains("1.yaml:2:1") && text.contains("3.yaml:2:1"),
        "{text}"
    );
    assert!(text.contains("2 files, 0 valid domains"), "{text}");
    let text = String::from_utf8(output.stderr).unwrap();
    assert!(text.contains("error: cannot read no.yaml: "), "{text}");
    assert!(text.contains("error: cannot read nor.yaml: "), "{text}");
    let json = run(rules.path(), &[&words[..], &["--output", "json"]].concat());
    let json: Value = serde_json::from_slice(&json.stdout).unwrap();
    assert_eq!(json["errors"], 2);
    assert_eq!(json["unreadable"].as_array().unwrap().len(), 2);
    let none = run(rules.path(), &["check", "no.yaml", "nor.yaml"]);
    let text = String::from_utf8(none.stderr).unwrap();
    assert_eq!(text.matches("error: cannot read no").count(), 2, "{text}");
    assert!(none.stdout.is_empty());
}

#[test]
fn a_program_reads_what_cannot_be_read_even_if_nothing_can() {
    let files = directory(&[("settings.yaml", "rules: [no.yaml]\n")]);
    for (words, unreadable, errors) in [
        (&["check", "no.yaml", "nor.yaml"][..], 2, 0),
        (&["check", "--config", "no.yaml"], 1, 0),
        (&["check", "--config", "settings.yaml"], 1, 1),
    ] {
        let output = run(files.path(), &[words, &["--output", "json"]].concat());
        assert_eq!(output.status.code(), Some(2), "{words:?}");
        let json: Value = serde_json::from_slice(&output.stdout).unwrap();
        let found = json["unreadable"].as_array().unwrap();
        assert_eq!(found.len(), unreadable, "{json}");
        assert!(found[0].as_str().unwrap().contains("no.yaml"), "{json}");
        assert_eq!(json["errors"], errors, "{json}");
        assert_eq!(
            (&json["rules"], json["domains"].as_array().unwrap().len()),
            (&Value::from(0), 0)
        );
        assert!(!output.stderr.is_empty());
    }
}

#[test]
fn standard_input_is_checked_like_a_file() {
    let files = directory(&[("1.yaml", RULES), ("in", "domain: a\nx: 1\n")]);
    let input = fs::File::open(files.path().join("in")).unwrap();
    let mut command = tollgate(files.path());
    let command = command.args(["check", "-", "1.yaml", "no.yaml"]);
    let output = command.stdin(input).output().unwrap();
    assert_eq!(output.status.code(), Some(2), "of no.yaml");
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.contains(" --> -:2:1"), "{text}");
    assert!(text.contains("2 files, 1 valid domain"), "{text}");
}

/// Otherwise each of its rules would be a duplicate, with advice on how to merge them.
/// Nobody named it twice, and the other files are checked.
#[test]
fn a_link_in_a_directory_to_a_file_beside_it_is_reported_with_its_place() {
    let directory = directory(&[]);
    let rules = directory.path().join("rules");
    fs::create_dir(&rules).unwrap();
    fs::write(rules.join("1.yaml"), RULES).unwrap();
    std::os::unix::fs::symlink("1.yaml", rules.join("2.yaml")).unwrap();
    let checked = run(directory.path(), &["check", "rules"]);
    assert_eq!(checked.status.code(), Some(1));
    let shown = String::from_utf8(checked.stdout).unwrap();
    assert!(shown.contains("error[duplicate-domain]"), "{shown}");
    assert!(shown.contains("rules/2.yaml:1:9"), "{shown}");
}

#[test]
fn a_file_that_is_named_twice_is_an_error_of_its_own() {
    let files = directory(&[("1.yaml", RULES), ("a.log", "")]);
    for (words, expected) in [
        (
            &["check", "1.yaml", "."][..],
            "error: 1.yaml and ./1.yaml are the same file, so all of its rules would be duplicates",
        ),
        (
            &["check", "-", "-"],
            "error: - is named twice, so all of its rules would be duplicates; name it once",
        ),
        (
            &["suggest", "a.log", "a.log"],
            "error: a.log is named twice, so each of its lines would count twice; name it once",
        ),
        (
            &[
                "replay",
                "--rules",
                "1.yaml",
                "--descriptor",
                "k={client}",
                "a.log",
                "./a.log",
            ],
            "error: a.log and ./a.log are the same file, so each of its lines would count twice",
        ),
    ] {
        let output = run(files.path(), words);
        assert_eq!(output.status.code(), Some(2), "{words:?}");
        let text = String::from_utf8(output.stderr).unwrap();
        assert!(text.starts_with(expected), "{text}");
    }
}

const STORE: &str = "rules: rules.yaml\nstore: {redis: {url: 'redis://127.0.0.1:1'}}\n";

/// The exit status and the output of `check --config` for these files.
fn check(settings: &str, rules: &str) -> (Option<i32>, String) {
    let files = directory(&[("tollgate.yaml", settings), ("rules.yaml", rules)]);
    let output = run(files.path(), &["check", "--config", "tollgate.yaml"]);
    let text = String::from_utf8(output.stdout).unwrap();
    (output.status.code(), text)
}

#[test]
fn a_limit_that_the_gateway_cannot_reserve_is_an_error() {
    let rules = "domain: d
descriptors: [{key: k, rate_limit: {unit: day, requests_per_unit: 5, mode: write_back}}]
";
    let gateway = "gateway: {domain: d, upstreams: {u: {addresses: ['h:1']}}, identity: \
        {descriptors: [{entries: [{key: j, from: host, if_missing: {use: {key: k, from: path}}}], \
        count_when: {status: [401]}}]}}\n";
    let (status, text) = check(STORE, rules);
    assert_eq!(status, Some(0), "{text}");
    let (status, text) = check(&format!("{STORE}{gateway}"), rules);
    assert_eq!(status, Some(1), "{text}");
    let written = "`cost`): write `mode: strict`";
    for words in ["error[unfit-limit]", "rules.yaml:2:", written] {
        assert!(text.contains(words), "{words}: {text}");
    }
    let (status, text) = check(&format!("rules: rules.yaml\n{gateway}"), rules);
    assert_eq!(status, Some(0), "{text}");
}

#[test]
fn check_reads_settings_and_rules_together() {
    let rules = "domain: d
descriptors:
  - key: fast
    rate_limit: {requests_per_unit: 5000000, unit: second, algorithm: token_bucket}
  - key: fine
    rate_limit: 5/day
";
    let memory = "rules: rules.yaml\n";
    let (status, text) = check(memory, rules);
    assert_eq!(status, Some(0), "{text}");
    assert_eq!(
        text,
        "1 file, 1 valid domain with 2 rules: 0 errors, 0 warnings\n"
    );
    // `check` does not connect to Redis.
    let (status, text) = check(STORE, rules);
    assert_eq!(status, Some(1), "{text}");
    assert!(text.contains("error[unfit-limit]"), "{text}");
    assert!(text.contains("rules.yaml:3:"), "{text}");
    assert!(text.contains("at most one unit in 1us"), "{text}");
    let leased = "domain: d
mode: leased
descriptors: [{key: k, rate_limit: 5/day}]
";
    let (status, text) = check(STORE, leased);
    assert_eq!(
        (status, text.matches("warning").count()),
        (Some(0), 1),
        "{text}"
    );
    let (status, text) = check(memory, leased);
    assert_eq!(status, Some(0), "{text}");
    assert!(
        text.contains("`mode: leased` of `k` in `d` has no effect"),
        "{text}"
    );
    let (_, text) = check(&format!("{memory}store: {{mode: leased}}\n"), rules);
    assert!(text.contains("no store is in Redis"), "{text}");
    assert!(text.contains("0 errors, 1 warning"), "{text}");
    let others = format!("{memory}stores: {{a: {{memory: true, domains: [e]}}}}\n");
    let (_, text) = check(&others, leased);
    assert!(
        text.contains("the store `a` serves the domain `e`, which has no rules"),
        "{text}"
    );
}

#[test]
fn check_finds_what_no_rule_limits() {
    let rules = "domain: d\ndescriptors: [{key: fine, rate_limit: 5/day}]\n";
    let memory = "rules: rules.yaml\n";
    let auth = "auth: {domain: e, source: x-original-uri, \
        identity: {client_address: {source: x-real-ip}}}\n";
    let (_, text) = check(&format!("{memory}{auth}"), rules);
    let expected = "`auth` asks for the domain `e`, which has no rules, so it allows everything";
    assert!(text.contains(expected), "{text}");
    let routes = "[{domain: f, upstream: u, match: {paths: [/a]}}, {upstream: u}]";
    let gateway = format!(
        "gateway: {{domain: d, upstreams: {{u: {{addresses: ['127.0.0.1:1']}}}}, routes: {routes}}}"
    );
    let (_, text) = check(&format!("{memory}{gateway}\n"), rules);
    let expected = "`gateway` asks for the domain `f`, which has no rules, so it allows everything";
    assert!(text.contains(expected), "{text}");
    assert!(text.contains("0 errors, 2 warnings"), "{text}");
    let gateway = "gateway: {domain: d, upstreams: {u: {addresses: ['127.0.0.1:1']}}, \
        in_flight: [{per: [busy], requests: 1}], identity: {descriptors: [\
        {entries: [{key: fine, from: path}]}, {entries: [{key: fien, from: path}]}, \
        {entries: [{key: fine, from: path}, {key: method, from: method}]}, \
        {entries: [{key: busy, from: path}]}]}}";
    let (_, text) = check(&format!("{memory}{gateway}\n"), rules);
    for keys in ["fien", "fine`, `method"] {
        let expected = format!("no rule of the domain `d` is for the descriptor `{keys}` of");
        assert!(text.contains(&expected), "{text}");
    }
    assert!(text.contains("0 errors, 2 warnings"), "{text}");
}

#[test]
fn check_takes_defaults_from_the_settings() {
    let rules = "domain: d\ninstances: 3\ndescriptors: [{key: k, rate_limit: 5/day}]\n";
    let denied = "rules: rules.yaml\nstore: {redis: {url: 'redis://127.0.0.1:1'}, \
        on_store_error: deny}\n";
    let files = directory(&[("tollgate.yaml", denied), ("rules.yaml", rules)]);
    let alone = run(files.path(), &["check", "rules.yaml"]);
    let text = String::from_utf8(alone.stdout).unwrap();
    assert!(text.contains("0 errors, 0 warnings"), "{text}");
    let together = run(files.path(), &["check", "--config", "tollgate.yaml"]);
    let text = String::from_utf8(together.stdout).unwrap();
    assert!(text.contains("`instances` has no effect"), "{text}");
}

#[test]
fn check_reports_which_limits_the_settings_mode_does_not_suit() {
    let leased = "rules: rules.yaml\nstore: {redis: {url: 'redis://127.0.0.1:1'}, mode: leased}\n";
    let limit = "requests_per_unit: 50, unit: day, algorithm";
    let rules = format!(
        "domain: d
descriptors:
  - {{key: a, rate_limit: {{{limit}: leaky_bucket}}}}
  - {{key: b, rate_limit: {{{limit}: sliding_window}}}}
  - {{key: c, rate_limit: {{{limit}: sliding_log}}}}
  - {{key: e, rate_limit: {{{limit}: leaky_bucket, mode: strict}}}}
"
    );
    let files = directory(&[("tollgate.yaml", leased), ("rules.yaml", &rules)]);
    let output = run(files.path(), &["check", "--config", "tollgate.yaml"]);
    assert_eq!(output.status.code(), Some(0));
    let text = String::from_utf8(output.stdout).unwrap();
    let note = "`mode: leased` of the settings does not suit 2 limits, the first `a` in `d`";
    assert!(text.contains(note), "{text}");
    assert!(text.contains("0 errors, 1 warning\n"), "{text}");
}

#[test]
fn check_reports_which_limits_are_too_small_to_be_leased() {
    let leased = STORE.replace("'}}", "'}, mode: leased}");
    let others = "stores: {near: {domains: [near], memory: true}}\n";
    let rules = "domain: d
descriptors:
  - {key: small, rate_limit: 16/day}
  - {key: large, rate_limit: 17/day}
  - key: soft
    rate_limit: {requests_per_unit: 16, unit: day, soft: 10%}
    descriptors:
      - {key: below, value: x, rate_limit: 5/day, shadow_mode: true}
  - {key: ban, rate_limit: 0/day}
  - {key: free, rate_limit: {unlimited: true}}
  - {key: leaky, rate_limit: {requests_per_unit: 5, unit: day, algorithm: leaky_bucket}}
  - {key: strict, rate_limit: {requests_per_unit: 5, unit: day, mode: strict}}
---
domain: near
descriptors: [{key: k, rate_limit: 5/day}]
";
    let settings = format!("{leased}{others}");
    let files = directory(&[("tollgate.yaml", &settings), ("rules.yaml", rules)]);
    let output = run(files.path(), &["check", "--config", "tollgate.yaml"]);
    assert_eq!(output.status.code(), Some(0));
    let text = String::from_utf8(output.stdout).unwrap();
    let hints: Vec<&str> = text
        .lines()
        .filter(|line| line.contains("hint: "))
        .collect();
    let hint = |line, rule, capacity| {
        format!(
            "hint: rules.yaml:{line}: `{rule}` in `d` is too small to be leased, so Redis is asked \
             for each decision: it holds {capacity} units, and a lease needs 17"
        )
    };
    let expected = [hint(3, "small", 16), hint(8, "soft.below_x", 5)];
    assert_eq!(hints, expected, "{text}");
    // The limit of 0 and the leaky bucket are warnings.
    assert!(text.contains("\n\n1 file, 2 valid domains"), "{text}");
    assert!(text.ends_with("0 errors, 2 warnings, 2 hints\n"), "{text}");

    let words = ["check", "--config", "tollgate.yaml", "--format", "json"];
    let json: Value = serde_json::from_slice(&run(files.path(), &words).stdout).unwrap();
    assert_eq!((&json["warnings"], &json["errors"]), (&2.into(), &0.into()));
    let first = &json["hints"][0];
    let place = (first["file"].as_str(), first["line"].as_u64());
    assert!(place.0.unwrap().ends_with("rules.yaml") && place.1 == Some(3));
    assert_eq!(json["hints"].as_array().unwrap().len(), 2);

    // The same hint if the rules set the mode, and none if the store is in memory.
    let rules = "domain: d\nmode: leased\ndescriptors: [{key: k, rate_limit: 5/day}]\n";
    let files = directory(&[("redis.yaml", STORE), ("rules.yaml", rules)]);
    let words = ["check", "--config", "redis.yaml"];
    let text = String::from_utf8(run(files.path(), &words).stdout).unwrap();
    assert!(text.contains("hint: rules.yaml:3: `k` in `d`"), "{text}");
    let alone = run(files.path(), &["check", "rules.yaml"]);
    let text = String::from_utf8(alone.stdout).unwrap();
    assert!(!text.contains("hint"), "{text}");
}

#[test]
fn check_reports_what_is_wrong_with_settings() {
    let files = directory(&[("tollgate.yaml", "rulse: rules.yaml\n")]);
    let wrong = run(files.path(), &["check", "--config", "tollgate.yaml"]);
    assert_eq!(wrong.status.code(), Some(1));
    let text = String::from_utf8(wrong.stdout).unwrap();
    assert!(text.contains("tollgate.yaml:1:1"), "{text}");
    assert!(text.contains("the settings, not the rules"), "{text}");
    let json = run(
        files.path(),
        &["check", "--format", "json", "--config", "tollgate.yaml"],
    );
    let json: Value = serde_json::from_slice(&json.stdout).unwrap();
    assert_eq!(json["domains"], serde_json::json!([]));
    // Settings that are checked as rules get a note that says so.
    fs::write(files.path().join("tollgate.yaml"), STORE).unwrap();
    let as_rules = run(files.path(), &["check", "tollgate.yaml"]);
    let text = String::from_utf8(as_rules.stdout).unwrap();
    assert!(
        text.contains("`tollgate check --config tollgate.yaml` checks them"),
        "{text}"
    );
    let both = run(
        files.path(),
        &["check", "--config", "tollgate.yaml", "rules.yaml"],
    );
    assert_eq!(both.status.code(), Some(2));
    let none = run(files.path(), &["check", "--config", "nowhere.yaml"]);
    assert_eq!(none.status.code(), Some(2));
}

#[test]
fn warnings_fail_if_they_are_denied() {
    let rules = "domain: shop\ndescriptors: [{key: a, rate_limit: 3/day}]\n";
    let statuses = |text: &str| {
        let files = directory(&[("tollgate.yaml", text), ("rules.yaml", rules)]);
        let check = ["check", "--config", "tollgate.yaml"];
        let denying = [&check[..], &["--deny-warnings"]].concat();
        [&check[..], &denying].map(|arguments| run(files.path(), arguments).status.code())
    };
    assert_eq!(statuses("rules: rules.yaml\n"), [Some(0), Some(0)]);
    let warns = "rules: rules.yaml\nstores: {e: {memory: true, domains: [shops]}}\n";
    assert_eq!(statuses(warns), [Some(0), Some(1)]);
}

#[test]
fn rules_with_errors_are_not_said_to_be_missing() {
    let settings = "rules: rules.yaml\nstores: {e: {memory: true, domains: [shop]}}\ngateway:\n  \
        domain: shop\n  upstreams: {u: {addresses: ['127.0.0.1:1']}}\n";
    let rules = "domain: shop\ndescriptors: [{key: a, rate_limit: 3/min}]\n---\n\
        domain: other\ndescriptors: [{key: a, rate_limit: 3/day}]\n";
    let (status, text) = check(settings, rules);
    assert_eq!(status, Some(1), "{text}");
    let says = "`gateway` asks for the domain `shop`, whose rules have errors";
    assert!(
        text.contains(says) && text.contains("correct the errors"),
        "{text}"
    );
    assert!(
        text.contains("a service that starts with them allows everything"),
        "{text}"
    );
    assert!(!text.contains("has no rules"), "{text}");
    // Without the other domain, nothing is left to serve.
    let (_, text) = check(settings, rules.split("---").next().unwrap());
    assert!(
        text.contains("have errors: a service does not start"),
        "{text}"
    );
}

/// The place of a warning about settings or rules, its message, and what to write instead.
fn assert_warns(settings: &str, rules: &str, expected: &[(&str, &str, &str)]) {
    let (status, text) = check(settings, rules);
    assert_eq!(status, Some(0), "{text}");
    for (place, message, help) in expected {
        let mut warnings = text.split("warning[");
        let is_expected = |found: &str| {
            found.contains(&format!("--> {place}\n"))
                && found.contains(message)
                && found.contains(&format!("= help: {help}"))
        };
        assert!(warnings.any(is_expected), "{place} {message}: {text}");
    }
    assert_eq!(text.matches("warning[").count(), expected.len(), "{text}");
}

#[test]
fn warnings_about_settings_have_a_place_and_a_remedy() {
    let rules = "domain: shop\ndescriptors: [{key: fine, rate_limit: 5/day}]\n";
    let gateway = "rules: rules.yaml\ngateway:\n  domain: shpo\n  \
        upstreams: {u: {addresses: ['127.0.0.1:1']}}\n";
    let no_rules = "which has no rules, so it allows everything";
    let did_you_mean = "did you mean `shop`?";
    assert_warns(
        gateway,
        rules,
        &[("tollgate.yaml:3:11", no_rules, did_you_mean)],
    );
    let routes = "  routes: [{match: {paths: [/a]}, domain: shoop}, {domain: shop}]\n  \
        identity: {descriptors: [{entries: [{key: fien, from: path}]}, \
        {entries: [{key: fine, from: path}]}]}\n";
    let gateway = format!("{}{routes}", gateway.replace("shpo", "shop"));
    let no_rule = "no rule of the domain `shop` is for the descriptor `fien`";
    assert_warns(
        &gateway,
        rules,
        &[
            ("tollgate.yaml:5:43", no_rules, did_you_mean),
            ("tollgate.yaml:6:28", no_rule, "did you mean `fine`"),
        ],
    );
    let auth = "rules: rules.yaml\nauth: {domain: other, source: x-original-uri, \
        identity: {client_address: {source: x-real-ip}}}\n";
    let domains = "the rules have the domains `shop`";
    assert_warns(auth, rules, &[("tollgate.yaml:2:16", no_rules, domains)]);
    let stores = "rules: rules.yaml\nstores:\n  e: {memory: true, domains: [shop, shops]}\n\
        store: {on_store_error: local, instances: 3}\n";
    let no_effect = "has no effect: no store is in Redis";
    assert_warns(
        stores,
        rules,
        &[
            ("tollgate.yaml:3:37", "the store `e` serves", did_you_mean),
            ("tollgate.yaml:4:25", no_effect, "remove it"),
            ("tollgate.yaml:4:43", no_effect, "remove it"),
        ],
    );
}

#[test]
fn settings_that_lack_another_one_have_a_warning() {
    let rules = "domain: shop\ndescriptors: [{key: a, rate_limit: 5/day}]\n";
    let cors = "responses: {cors: {allow_credentials: true}}";
    let identity = "identity: {token: {verify: unverified}, descriptors: \
        [{entries: [{key: a, from: path}], cost: {from: {constant: 0}}}]}";
    let settings = format!(
        "rules: rules.yaml\ngateway:\n  domain: shop\n  \
         upstreams: {{u: {{addresses: ['127.0.0.1:1']}}}}\n  {cors}\n  {identity}\n  \
         routes:\n  - match: {{paths: [/a]}}\n    {cors}\n  - {{}}\n"
    );
    let origins = "write `allow_origins: [https://app.example]` beside it";
    let claim = "write an entry such as `{key: user, from: {claim: sub}, if_missing: deny}`";
    assert_warns(
        &settings,
        rules,
        &[
            ("tollgate.yaml:5:41", "no origin is allowed", origins),
            (
                "tollgate.yaml:6:21",
                "`token` has no effect: no descriptor",
                claim,
            ),
            ("tollgate.yaml:6:115", "cost 0 units", "write at least 1"),
            ("tollgate.yaml:9:43", "no origin is allowed", origins),
        ],
    );
    let good = settings
        .replace(
            "allow_credentials: true",
            "allow_credentials: true, allow_origins: [https://a.b]",
        )
        .replace("constant: 0", "constant: 1")
        .replace("from: path}", "from: {claim: sub}, if_missing: skip}");
    assert_warns(&good, rules, &[]);
}

#[test]
fn routes_that_no_descriptor_reads_have_a_warning() {
    let rules =
        "domain: shop\ndescriptors: [{key: a, rate_limit: 5/day}, {key: b, rate_limit: 5/day}]\n";
    let settings = "rules: rules.yaml\ngateway:\n  domain: shop\n  \
        upstreams: {u: {addresses: ['127.0.0.1:1']}}\n  \
        identity: {routes: [/login], descriptors: [{entries: [{key: a, from: path}]}]}\n";
    let expected = (
        "tollgate.yaml:5:22",
        "`routes` has no effect: no descriptor has `from: route`",
        "write an entry such as `{key: route, from: route, if_missing: skip}`",
    );
    assert_warns(settings, rules, &[expected]);
    let in_place = "{header: x}, if_missing: {use: {key: b, from: route, if_missing: skip}}}";
    for used in ["route, if_missing: skip}", in_place] {
        assert_warns(&settings.replace("path}", used), rules, &[]);
    }
}

#[test]
fn settings_of_telemetry_that_nothing_is_sent_with_have_a_warning() {
    let rules = "domain: shop\ndescriptors: [{key: a, rate_limit: 5/day}]\n";
    let no_tls = "`ca` has no effect: no endpoint begins with https://";
    let no_ca = "write https:// in the endpoint, or remove `ca`";
    let of_metrics = "`traces` has no effect: the only endpoint is that of `metrics`";
    let of_traces = "`metrics` has no effect: the only endpoint is that of `traces`";
    let name_one = "write `endpoint` in it, or for both in `telemetry`; or remove it";
    let url = "endpoint: 'http://c:4318'";
    for (telemetry, expected) in [
        (format!("{url}, ca: a.pem"), &[("2:44", no_tls, no_ca)][..]),
        (
            format!("traces: {{{url}}}, ca: a.pem"),
            &[("2:54", no_tls, no_ca)],
        ),
        (
            format!("metrics: {{{url}}}, traces: {{sample: 10%}}"),
            &[("2:59", of_metrics, name_one)],
        ),
        (
            format!("traces: {{{url}}}, metrics: {{interval: 5s}}"),
            &[("2:59", of_traces, name_one)],
        ),
        (format!("metrics: {{{url}}}, traces: null"), &[]),
        (format!("{url}, traces: {{sample: 10%}}"), &[]),
        // The environment may name the endpoint.
        ("ca: a.pem, traces: {sample: 10%}".to_owned(), &[]),
    ] {
        let settings = format!("rules: rules.yaml\ntelemetry: {{{telemetry}}}\n");
        let places = expected
            .iter()
            .map(|(place, ..)| format!("tollgate.yaml:{place}"));
        let places: Vec<String> = places.collect();
        let expected = places.iter().zip(expected);
        let expected: Vec<_> = expected
            .map(|(place, (_, message, help))| (&**place, *message, *help))
            .collect();
        assert_warns(&settings, rules, &expected);
    }
}

#[test]
fn settings_of_a_gateway_that_each_route_has_itself_have_a_warning() {
    let rules = "domain: shop\ndescriptors: [{key: remote_address, rate_limit: 5/day}]\n";
    let own = "domain: shop, identity: {}, upgrades: [], in_flight: [], body_rate: 0";
    let settings = format!(
        "rules: rules.yaml\ngateway:\n  upstreams: {{u: {{addresses: ['127.0.0.1:1']}}}}\n  \
         domain: shop\n  identity: {{descriptors: [{{entries: [{{key: a, from: path}}]}}]}}\n  \
         upgrades: [websocket]\n  in_flight: [{{per: [a], requests: 20}}]\n  body_rate: 100\n  \
         routes:\n  - {{match: {{paths: [/a]}}, {own}}}\n  - {{{own}}}\n"
    );
    let expected = [
        ("tollgate.yaml:5:27", "`identity.descriptors` has no effect"),
        ("tollgate.yaml:6:13", "`upgrades` has no effect"),
        ("tollgate.yaml:7:14", "`in_flight` has no effect"),
        ("tollgate.yaml:8:14", "`body_rate` has no effect"),
    ];
    let help = "remove it here, or in the routes that it is meant for";
    let expected = expected.map(|(place, message)| (place, message, help));
    assert_warns(&settings, rules, &expected);
    let one_without = settings.replace(&format!("  - {{{own}}}\n"), "  - {}\n");
    assert_warns(&one_without, rules, &[]);
}

#[test]
fn a_memory_that_is_too_small_for_a_rule_has_a_warning_that_ends() {
    let rules = "domain: d\ndescriptors:\n- key: a\n  \
        rate_limit: {requests_per_unit: 1000, unit: minute, algorithm: sliding_log}\n";
    let all = "{max_keys: 1000000, max_bytes: ";
    for memory in ["", "memory: {max_bytes: 512MiB}\n"] {
        let settings = format!("rules: rules.yaml\n{memory}");
        let place = format!(
            "tollgate.yaml:{}",
            if memory.is_empty() { "1:1" } else { "2:9" }
        );
        let help = format!("set `memory: {all}");
        assert_warns(
            &settings,
            rules,
            &[(&place, "keys of `a` in `d`, and", &help)],
        );
        let (_, text) = check(&settings, rules);
        let advice = text.split(&format!("set `memory: {all}")).nth(1).unwrap();
        let bytes = advice.split('}').next().unwrap();
        let settings = format!("rules: rules.yaml\nmemory: {all}{bytes}}}\n");
        assert_warns(&settings, rules, &[]);
    }
    let shared = format!("{STORE}memory: {{max_bytes: 512MiB}}\n");
    assert_warns(&shared, rules, &[]);
}

#[test]
fn what_only_shared_stores_have_has_no_effect_in_memory() {
    let rules = "domain: d\non_store_error: deny\ndescriptors:\n- key: a\n  rate_limit: 5/day\n\
        - key: b\n  rate_limit: {requests_per_unit: 5, unit: day, mode: leased, instances: 3}\n";
    let settings = "rules: rules.yaml\n";
    assert_warns(
        settings,
        rules,
        &[
            (
                "rules.yaml:6:3",
                "`instances: 3` of `b` in `d` has no effect: its store, `default`, is in memory",
                "remove it",
            ),
            (
                "rules.yaml:6:3",
                "`mode: leased` of `b` in `d` has no effect: its store, `default`, is in memory",
                "remove it",
            ),
            (
                "rules.yaml:4:3",
                "`on_store_error: deny` of 2 rules, the first `a`, in `d` has no effect",
                "remove it",
            ),
            (
                "rules.yaml:7:74",
                "`instances` has no effect without `on_store_error: local`",
                "write `on_store_error: local`, or remove it",
            ),
        ],
    );
    assert_warns(
        STORE,
        &rules.replace(", mode: leased, instances: 3", ""),
        &[],
    );
}
