//! New rules take over, and what was consumed stays.

use tollgate_core::Span;
use tollgate_rules::{ChargedRule, NoHeadroom, Options, RuleSet, Source};

use crate::fixture::{Fixture, SETTLED, domain, load, request};

fn limit(count: u32, unit: &str) -> String {
    domain(&format!("{{key: a, rate_limit: {count}/{unit}}}"))
}

fn exhaust(rules: &str, units: usize) -> Fixture {
    let mut fixture = Fixture::new(load(rules).rules);
    for _ in 0..units {
        assert!(fixture.is_allowed(&[("a", "1")]));
    }
    fixture
}

#[test]
fn an_unchanged_rule_keeps_its_state() {
    let mut fixture = exhaust(&limit(3, "hour"), 3);
    let changes = fixture.reload(load(&limit(3, "hour")));
    assert_eq!(changes, tollgate_rules::Changes::default());
    assert!(!fixture.is_allowed(&[("a", "1")]));
}

#[test]
fn a_changed_limit_keeps_what_was_consumed() {
    let mut fixture = exhaust(&limit(3, "hour"), 3);
    let changes = fixture.reload(load(&limit(5, "hour")));
    assert_eq!(changes.changed.len(), 1);
    assert_eq!(changes.changed[0].rule.path, "a");
    assert_eq!(
        (
            changes.changed[0].from.count(),
            changes.changed[0].to.count()
        ),
        (3, 5)
    );
    assert!(fixture.is_allowed(&[("a", "1")]) && fixture.is_allowed(&[("a", "1")]));
    assert!(!fixture.is_allowed(&[("a", "1")]));
}

#[test]
fn a_changed_window_counts_what_was_used_as_used_now() {
    let mut fixture = exhaust(&limit(3, "hour"), 3);
    fixture.reload(load(&limit(3, "day")));
    assert!(!fixture.is_allowed(&[("a", "1")]));
    fixture.wait(Span::DAY);
    assert!(fixture.is_allowed(&[("a", "1")]));
}

#[test]
fn changes_add_up_over_several_reloads() {
    let mut fixture = exhaust(&limit(3, "hour"), 3);
    for count in [4, 5, 6] {
        fixture.reload(load(&limit(count, "hour")));
    }
    let passed = (0..10)
        .filter(|_| fixture.is_allowed(&[("a", "1")]))
        .count();
    assert_eq!(passed, 3);
    assert_eq!(fixture.rules.rules().next().unwrap().changes, 3);
}

#[test]
fn a_rule_that_comes_back_with_another_limit_converts() {
    let mut fixture = exhaust(&limit(3, "hour"), 3);
    let changes = fixture.reload(load("domain: other\n"));
    assert_eq!(
        (changes.removed, changes.added),
        (vec!["d".into()], vec!["other".into()])
    );
    assert!(fixture.is_allowed(&[("a", "1")]));
    let changes = fixture.reload(load(&limit(5, "hour")));
    assert_eq!(changes.changed.len(), 1);
    let passed = (0..10)
        .filter(|_| fixture.is_allowed(&[("a", "1")]))
        .count();
    assert_eq!(passed, 2);
}

#[test]
fn a_rule_that_was_unlimited_for_a_while_is_the_same_rule() {
    let mut fixture = exhaust(&limit(3, "hour"), 3);
    fixture.reload(load(&domain("{key: a, rate_limit: {unlimited: true}}")));
    assert!(fixture.is_allowed(&[("a", "1")]));
    fixture.reload(load(&limit(4, "hour")));
    assert!(fixture.is_allowed(&[("a", "1")]));
    assert!(!fixture.is_allowed(&[("a", "1")]));
}

/// Otherwise a slip in the name of a domain would leave its requests without limits.
#[test]
fn a_domain_that_is_missing_in_a_file_with_an_error_stays() {
    let file = |domain: &str, limit: &str| {
        let descriptors = format!("descriptors: [{{key: k, rate_limit: {limit}}}]");
        format!("domain: {domain}\n{descriptors}\n")
    };
    let sources = |a: &str| {
        let sources = [("a.yaml", a), ("b.yaml", &file("b", "1/s"))];
        sources.map(|(name, text)| Source::new(name, text))
    };
    let old = RuleSet::parse(&sources(&file("a", "1/s")), &Options::default()).rules;
    // A name is compared as it is, and not as people see it.
    let odd = |text: &str| [Source::new("a\tb.yaml", text)];
    let before = RuleSet::parse(&odd(&file("a", "1/s")), &Options::default()).rules;
    let slip = RuleSet::parse(&odd(&file("c", "1/fortnight")), &Options::default());
    assert_eq!(slip.succeed(&before).1.kept, ["a"]);
    for (text, kept, removed) in [
        // The name of the other file's domain, and a new one that is not valid.
        (
            file("b", "1/s"),
            vec!["a".to_owned(), "b".to_owned()],
            vec![],
        ),
        (file("c", "1/fortnight"), vec!["a".to_owned()], vec![]),
        (file("c", "1/s"), vec![], vec!["a".to_owned()]),
    ] {
        let (rules, changes) = RuleSet::parse(&sources(&text), &Options::default()).succeed(&old);
        assert_eq!(
            (&changes.kept, &changes.removed),
            (&kept, &removed),
            "{text}"
        );
        assert_eq!(rules.domains().any(|name| name == "a"), !kept.is_empty());
    }
}

#[test]
fn a_error_keeps_the_old_domain_and_lets_the_others_in() {
    let old = [
        Source::new(
            "a.yaml",
            "domain: a\ndescriptors: [{key: k, rate_limit: 1/s}]\n",
        ),
        Source::new(
            "b.yaml",
            "domain: b\ndescriptors: [{key: k, rate_limit: 1/s}]\n",
        ),
    ];
    let new = [
        Source::new(
            "a.yaml",
            "domain: a\ndescriptors: [{key: k, rate_limit: 2/fortnight}]\n",
        ),
        Source::new(
            "b.yaml",
            "domain: b\ndescriptors: [{key: k, rate_limit: 2/s}]\n",
        ),
    ];
    let old = RuleSet::parse(&old, &Options::default()).rules;
    let (rules, changes) = RuleSet::parse(&new, &Options::default()).succeed(&old);
    assert_eq!(changes.kept, ["a"]);
    let counts: Vec<u32> = rules
        .rules()
        .map(|rule| rule.limit.unwrap().count())
        .collect();
    assert_eq!(counts, [1, 2]);
}

#[test]
fn a_file_that_is_no_yaml_keeps_its_domains() {
    for broken in ["\u{0}", "domain: \"a\ndescriptors", "", "- x"] {
        let old = load(&limit(1, "second")).rules;
        let (rules, changes) = load(broken).succeed(&old);
        assert_eq!(changes.kept, ["d"], "{broken:?}");
        assert_eq!(rules.rules().count(), 1);
    }
}

/// None of these begins a name, so nobody can have meant a domain of that name.
#[test]
fn a_syntax_error_in_the_domain_is_no_domain_without_rules() {
    let old = load(&limit(1, "second")).rules;
    for value in [
        "[x", "{x", "| x", "> x", "&x *y", "*x", "!<x", "%x", "@x", "`x", "]x", "}x", ",x", "- x",
        "? x: [", "'x' y", "a: b",
    ] {
        let broken = format!("domain: {value}\ndescriptors: [\n");
        let (rules, changes) = load(&broken).succeed(&old);
        assert_eq!(changes.kept, ["d"], "{value}");
        assert_eq!(changes.without_rules, [""; 0], "{value}");
        assert_eq!(rules.rules().count(), 1);
    }
    // The name is known, and the error is behind it.
    let (_, changes) = load("domain: shop\ndescriptors: [\n").succeed(&old);
    assert_eq!(changes.without_rules, ["shop"]);
}

#[test]
fn a_broken_file_of_another_name_removes_nothing() {
    let old = load(&limit(1, "second")).rules;
    let renamed = [Source::new("renamed.yaml", "domain")];
    let (rules, changes) = RuleSet::parse(&renamed, &Options::default()).succeed(&old);
    assert_eq!(changes.kept, ["d"]);
    assert_eq!(rules.domains().collect::<Vec<_>>(), ["d"]);
}

#[test]
fn a_merged_domain_is_not_cut_by_a_broken_file() {
    let merging = Options {
        merge_domains: true,
        ..Options::default()
    };
    let first = Source::new(
        "a.yaml",
        "domain: d\ndescriptors: [{key: a, rate_limit: 1/s}]\n",
    );
    let second = Source::new(
        "b.yaml",
        "domain: d\ndescriptors: [{key: b, rate_limit: 1/s}]\n",
    );
    let old = RuleSet::parse(&[first.clone(), second], &merging).rules;
    let broken = Source::new("b.yaml", "\"");
    let (rules, changes) = RuleSet::parse(&[first, broken], &merging).succeed(&old);
    assert_eq!(changes.kept, ["d"]);
    assert_eq!(rules.rules().count(), 2);
}

#[test]
fn a_charged_rule_is_found_wherever_it_is_after_a_reload() {
    let rule = |key: usize, count| format!("{{key: k{key}, rate_limit: {count}/hour}}");
    let file = |keys: &mut dyn Iterator<Item = usize>, count| {
        let rules: Vec<String> = keys.map(|key| rule(key, count)).collect();
        load(&domain(&rules.join("\n")))
    };
    let mut fixture = Fixture::new(file(&mut (0..50), 1).rules);
    let resolve = |fixture: &Fixture, key: &str| {
        let pairs = [(key, "v")];
        let request = request(&[&pairs]);
        let resolved = fixture.resolve(&request);
        resolved.charged_rules().next().unwrap()
    };
    let charged: Vec<_> = (0..50)
        .map(|key| resolve(&fixture, &format!("k{key}")))
        .collect();
    // Others before them, in the opposite order, and one less.
    fixture.reload(file(&mut (1..100).rev(), 2));
    for (key, rule) in charged.iter().enumerate() {
        let bytes = rule.to_bytes().unwrap();
        for rule in [rule, &ChargedRule::from_bytes(&bytes).unwrap()] {
            assert_eq!(rule.name().path, format!("k{key}"));
            let found = rule.charge(SETTLED, &fixture.rules, &NoHeadroom);
            let count = found.map(|found| (found.limit.count(), found.history.revision()));
            assert_eq!(count, (key > 0).then_some((2, 1)));
        }
    }
}

#[test]
fn sharing_or_not_is_another_counter() {
    let shared = domain("{key: a, value: x*, share_threshold: true, rate_limit: 1/s}");
    let apart = domain("{key: a, value: x*, rate_limit: 1/s}");
    let mut fixture = Fixture::new(load(&shared).rules);
    let before = fixture.key(&[("a", "x")]);
    fixture.reload(load(&apart));
    assert_ne!(before, fixture.key(&[("a", "x")]));
}

#[test]
fn a_limit_that_its_store_cannot_keep_is_a_error_of_its_domain() {
    let text = format!("{}---\n{}", limit(3, "hour"), limit(3, "hour")).replacen(": d", ": e", 1);
    let asked = std::cell::RefCell::new(Vec::new());
    let unfit = |written: &tollgate_rules::WrittenLimit<'_>| {
        let (domain, limit) = (written.domain, written.limit);
        asked.borrow_mut().push((domain.to_owned(), limit.count()));
        (domain == "e").then(|| "3 is too many".to_owned())
    };
    let source = Source::new("rules.yaml", text);
    let loaded = RuleSet::parse_for(&[source], &Options::default(), &unfit);
    assert_eq!(*asked.borrow(), [("e".to_owned(), 3), ("d".to_owned(), 3)]);
    assert!(loaded.rules.domains().eq(["d"]));
    let [found] = &loaded.diagnostics[..] else {
        panic!("{:?}", loaded.diagnostics);
    };
    assert_eq!(
        (found.code, &*found.message),
        ("unfit-limit", "3 is too many")
    );
    assert_eq!((found.line, found.domain.as_deref()), (3, Some("e")));
}

#[test]
fn what_decides_whether_a_limit_fits_has_its_keys_and_its_mode() {
    let text = "domain: d\nmode: leased\ndescriptors:\n- key: a\n  rate_limit: 1/s\n  \
        descriptors:\n  \
        - {key: b, rate_limit: {unit: second, requests_per_unit: 1, mode: write_back}}\n  \
        - {key: c, rate_limit: {unlimited: true}}\n- {key: b, value: x, rate_limit: 1/s}\n";
    let asked = std::cell::RefCell::new(Vec::new());
    let unfit = |written: &tollgate_rules::WrittenLimit<'_>| {
        let (keys, mode) = (written.keys.join("."), written.sharing.mode);
        asked.borrow_mut().push(format!("{keys} {mode}"));
        None
    };
    let source = Source::new("rules.yaml", text);
    let loaded = RuleSet::parse_for(&[source], &Options::default(), &unfit);
    assert!(!loaded.has_errors(), "{:?}", loaded.diagnostics);
    assert_eq!(*asked.borrow(), ["a leased", "a.b write_back", "b leased"]);
}
