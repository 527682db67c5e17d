//! Limits that are enforced for a share of their keys.

use std::collections::BTreeSet;

use tollgate_core::Enforcement;

use crate::fixture::{Fixture, domain, load, request};

/// One request a day for each user, enforced for this share of them.
fn rules(percent: u32) -> String {
    domain(&format!(
        "{{key: user, enforce: {percent}%, rate_limit: 1/day}}"
    ))
}

/// Users whose next request is denied, of those that have sent one today.
fn denied_users(fixture: &mut Fixture, key: &str) -> BTreeSet<u32> {
    let denied = (0..5000).filter(|number| {
        let user = format!("user-{number}");
        let answer = fixture.answer(&request(&[&[(key, &user)]]));
        // The limit counts for all; where it is not enforced, it says what it would have done.
        let limited = answer.limited().next().unwrap();
        assert!(!limited.decision.is_allowed());
        let expected = match answer.is_allowed() {
            true => Enforcement::Shadow,
            false => Enforcement::Enforce,
        };
        assert_eq!(limited.enforcement, expected);
        !answer.is_allowed()
    });
    denied.collect()
}

fn let_all_ask(fixture: &mut Fixture, key: &str) {
    for number in 0..5000 {
        assert!(fixture.is_allowed(&[(key, &format!("user-{number}"))]));
    }
}

/// Without warnings, except for shares of nothing and of everything.
fn fixture(text: &str) -> Fixture {
    let loaded = load(text);
    assert!(loaded.diagnostics.is_empty(), "{:?}", loaded.diagnostics);
    Fixture::new(loaded.rules)
}

#[test]
fn a_growing_share_keeps_the_keys_that_it_had_and_all_that_was_counted() {
    let mut fixture = fixture(&rules(0));
    let_all_ask(&mut fixture, "user");
    let mut before = BTreeSet::new();
    for percent in [0, 1, 10, 20, 50, 99, 100] {
        fixture.reload(load(&rules(percent)));
        let denied = denied_users(&mut fixture, "user");
        assert!(before.is_subset(&denied), "{percent}%");
        let expected = usize::try_from(percent * 50).unwrap();
        // Within five standard deviations of a fair choice.
        assert!(denied.len().abs_diff(expected) < 180, "{percent}%");
        assert_eq!(percent == 0, denied.is_empty());
        assert_eq!(percent == 100, denied.len() == 5000);
        before = denied;
    }
}

#[test]
fn instances_agree_and_other_rules_have_other_keys() {
    let both = "{key: user, enforce: 10%, rate_limit: 1/day}\n\
                {key: account, enforce: 10%, rate_limit: 1/day}";
    let mut denied = Vec::new();
    for (text, key) in [
        (&rules(10), "user"),
        (&domain(both), "user"),
        (&domain(both), "account"),
    ] {
        let mut fixture = fixture(text);
        let_all_ask(&mut fixture, key);
        denied.push(denied_users(&mut fixture, key));
    }
    assert_eq!(denied[0], denied[1]);
    let common = denied[1].intersection(&denied[2]).count();
    assert!(common < 100, "{common} of {}", denied[1].len());
}

#[test]
fn a_quota_that_is_enforced_for_a_share_stays_a_quota() {
    let quotas = "{key: user, enforce: 50%, quota_mode: true, rate_limit: 1/day}\n\
                  {key: spare, quota_mode: true, rate_limit: 100000/day}";
    let mut fixture = fixture(&domain(quotas));
    let_all_ask(&mut fixture, "user");
    let mut found = BTreeSet::new();
    for number in 0..100 {
        let user = format!("user-{number}");
        // The other quota is enough.
        let answer = fixture.answer(&request(&[&[("user", &user)], &[("spare", "x")]]));
        assert!(answer.is_allowed());
        found.insert(answer.limited().next().unwrap().enforcement.name());
    }
    assert_eq!(found, BTreeSet::from(["quota", "shadow"]));
}

/// A trial of a ban is no ban, and neither is a quota beside others.
#[test]
fn a_limit_of_0_denies_everything_only_where_it_is_enforced() {
    let zero = "nothing fits in this quota, so only other quotas of a request can allow it";
    let ban = "a limit of 0 denies everything";
    let bucket = "{algorithm: token_bucket, requests_per_unit: 5, unit: day, burst: 0}";
    let bucket = format!("rate_limit: {bucket}");
    for (descriptor, expected) in [
        ("rate_limit: 0/day", Some(ban)),
        ("rate_limit: {requests_per_unit: 0, unit: day}", Some(ban)),
        (
            bucket.as_str(),
            Some("nothing fits at once, so everything is denied"),
        ),
        ("enforce: 10%, rate_limit: 0/day", Some(ban)),
        ("quota_mode: true, rate_limit: 0/day", Some(zero)),
        ("shadow_mode: true, rate_limit: 0/day", None),
        ("enforce: 0%, rate_limit: 0/day", None),
        ("quota_mode: true, enforce: 0%, rate_limit: 0/day", None),
    ] {
        let text = domain(&format!("{{key: user, {descriptor}}}"));
        let loaded = load(&text);
        let found = loaded.diagnostics.iter().map(|found| &*found.message);
        assert_eq!(
            found.collect::<Vec<_>>(),
            Vec::from_iter(expected),
            "{text}"
        );
    }
}
