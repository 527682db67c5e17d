//! How instances share a limit: rule, else domain, else the default of the load.

use std::num::NonZeroU32;

use tollgate_core::{Mode, OnStoreError, Sharing, Span};
use tollgate_rules::{Changes, NoHeadroom, Options, RuleSet, Source};

use crate::fixture::{Fixture, Pairs, SETTLED, clean, domain, load, overriding, request};

const OUTER: Sharing = Sharing {
    mode: Mode::WriteBack,
    on_store_error: OnStoreError::Allow,
    instances: NonZeroU32::new(9),
};

/// How the rule that `pairs` meets is shared.
fn sharing_of(rules: &RuleSet, pairs: Pairs<'_>) -> Sharing {
    let fixture = Fixture::new(rules.clone());
    let request = request(&[pairs]);
    fixture.resolve(&request).charges()[0].sharing
}

fn load_within(text: &str, sharing: Sharing) -> RuleSet {
    let options = Options {
        sharing,
        ..Options::default()
    };
    let loaded = RuleSet::parse(&[Source::new("rules.yaml", text)], &options);
    assert!(loaded.diagnostics.is_empty(), "{:?}", loaded.diagnostics);
    loaded.rules
}

#[test]
fn without_a_word_it_is_the_default() {
    let text = domain("{key: a, rate_limit: 5/minute}");
    assert_eq!(sharing_of(&clean(&text), &[("a", "1")]), Sharing::default());
    assert_eq!(sharing_of(&load_within(&text, OUTER), &[("a", "1")]), OUTER);
}

#[test]
fn each_word_is_looked_for_by_itself_from_the_inside_out() {
    let limits =
        "{key: own, rate_limit: {requests_per_unit: 5, unit: day, mode: leased, instances: 2}}
                  {key: none, rate_limit: 5/day}
                  {key: a, descriptors: [{key: b, rate_limit: {requests_per_unit: 5, unit: day, \
                   on_store_error: deny}}]}";
    let text = format!("mode: strict\non_store_error: local\n{}", domain(limits));
    let rules = load_within(&text, OUTER);
    let of_domain = Sharing {
        mode: Mode::Strict,
        on_store_error: OnStoreError::Local,
        instances: NonZeroU32::new(9),
    };
    assert_eq!(sharing_of(&rules, &[("none", "1")]), of_domain);
    let own = Sharing {
        mode: Mode::Leased,
        instances: NonZeroU32::new(2),
        ..of_domain
    };
    assert_eq!(sharing_of(&rules, &[("own", "1")]), own);
    let below = Sharing {
        on_store_error: OnStoreError::Deny,
        ..of_domain
    };
    assert_eq!(sharing_of(&rules, &[("a", "1"), ("b", "2")]), below);
    let views: Vec<Sharing> = rules.rules().map(|view| view.sharing).collect();
    assert_eq!(views, [own, of_domain, below]);
}

#[test]
fn a_limit_of_the_request_takes_the_domain_s() {
    let text = format!(
        "mode: leased\non_store_error: local\ninstances: 3\n{}",
        domain("{key: a, rate_limit: 5/day}")
    );
    let fixture = Fixture::new(load_within(&text, OUTER));
    let request = overriding(&[("x", "1")], 7, Span::MINUTE);
    let resolved = fixture.resolve(&request);
    let expected = Sharing {
        mode: Mode::Leased,
        on_store_error: OnStoreError::Local,
        instances: NonZeroU32::new(3),
    };
    assert_eq!(resolved.charges()[0].sharing, expected);
}

#[test]
fn a_changed_word_alone_keeps_what_was_used() {
    let limit = |words| {
        domain(&format!(
            "{{key: a, rate_limit: {{requests_per_unit: 3, unit: hour, {words}}}}}"
        ))
    };
    let mut fixture = Fixture::new(clean(&limit("mode: strict")));
    let key = fixture.key(&[("a", "1")]);
    for _ in 0..3 {
        assert!(fixture.is_allowed(&[("a", "1")]));
    }
    for words in [
        "mode: leased",
        "on_store_error: local, instances: 4",
        "on_store_error: allow",
    ] {
        let changes = fixture.reload(load(&limit(words)));
        assert_eq!(changes, Changes::default(), "{words}");
        assert!(!fixture.is_allowed(&[("a", "1")]), "{words}");
        assert_eq!(fixture.key(&[("a", "1")]), key, "{words}");
    }
    assert_eq!(
        sharing_of(&fixture.rules, &[("a", "1")]).on_store_error,
        OnStoreError::Allow
    );
    assert_eq!(sharing_of(&fixture.rules, &[("a", "1")]).mode, Mode::Strict);
}

#[test]
fn documents_of_one_domain_agree() {
    let options = Options {
        merge_domains: true,
        ..Options::default()
    };
    let parse = |second: &str| {
        let first = "domain: d\nmode: leased\n".to_owned();
        let limits = domain("{key: a, rate_limit: 5/day}");
        let sources = [
            Source::new("first.yaml", first),
            Source::new("second.yaml", format!("{second}{limits}")),
        ];
        RuleSet::parse(&sources, &options)
    };
    for agreeing in ["", "mode: leased\n", "on_store_error: allow\n"] {
        let loaded = parse(agreeing);
        assert!(loaded.diagnostics.is_empty(), "{agreeing}");
        assert_eq!(sharing_of(&loaded.rules, &[("a", "1")]).mode, Mode::Leased);
    }
    let loaded = parse("mode: strict\n");
    let [error] = &loaded.diagnostics[..] else {
        panic!("one mistake: {:?}", loaded.diagnostics);
    };
    assert_eq!((error.code, error.line), ("contradiction", 1));
    assert!(error.message.contains("`mode`"), "{}", error.message);
}

/// The mode of a rule may have changed since it charged a request.
#[test]
fn a_settled_charge_is_shared_as_its_rule_is_then() {
    let text = domain("{key: a, rate_limit: 5/day}");
    let before = Fixture::new(clean(&text));
    let after = load_within(&text, OUTER);
    let without = clean(&text.replace("domain: d", "domain: e"));
    let pairs: Pairs<'_> = &[("a", "1")];
    for (request, is_of_rule) in [
        (request(&[pairs]), true),
        (overriding(pairs, 3, Span::DAY), false),
    ] {
        let rule = before.resolve(&request).charged_rules().next().unwrap();
        let sharing = |rules| Some(rule.charge(SETTLED, rules, &NoHeadroom)?.sharing);
        assert_eq!(sharing(&before.rules), Some(Sharing::default()));
        assert_eq!(sharing(&after), Some(OUTER));
        // A limit that was part of the request outlives its domain.
        let left = (!is_of_rule).then(Sharing::default);
        assert_eq!(sharing(&without), left);
    }
}
