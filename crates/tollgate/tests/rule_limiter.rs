//! A rules file through the library.

#![cfg(feature = "rules")]
#![allow(clippy::unwrap_used)]

use std::sync::Arc;

use tollgate::rules::Source;
use tollgate::{ManualClock, Memory, RuleLimiter, Span, Wait};

fn rules(user_limit: &str) -> [Source; 1] {
    let text = format!(
        "domain: shop\ndescriptors:\n  - key: user\n    rate_limit: {user_limit}\n  - key: path\n\
         \x20   value: /login\n    descriptors:\n      - key: user\n        rate_limit: 1/minute\n"
    );
    [Source::new("shop.yaml", text)]
}

fn limiter(sources: &[Source]) -> (Arc<ManualClock>, RuleLimiter<Arc<ManualClock>>) {
    let clock = Arc::new(ManualClock::default());
    clock.advance(Span::DAY);
    let store = Memory::builder()
        .max_keys(1_000)
        .clock(Arc::clone(&clock))
        .build();
    (clock, RuleLimiter::from_sources(sources, store).unwrap())
}

#[test]
fn each_value_is_counted_by_itself() {
    let (clock, limiter) = limiter(&rules("2/minute"));
    let admitted = |user| {
        limiter
            .check("shop", &[("user", user)])
            .unwrap()
            .is_admitted()
    };
    assert!(admitted("ann") && admitted("ann") && admitted("bob"));
    assert!(!admitted("ann"));
    clock.advance(Span::MINUTE);
    assert!(admitted("ann"));
}

#[test]
fn what_no_rule_matches_is_admitted() {
    let (_, limiter) = limiter(&rules("0/minute"));
    assert!(
        limiter
            .check("shop", &[("color", "red")])
            .unwrap()
            .is_admitted()
    );
    assert!(
        limiter
            .check("elsewhere", &[("user", "ann")])
            .unwrap()
            .is_admitted()
    );
    let refused = limiter.check("shop", &[("user", "ann")]).unwrap();
    assert_eq!(refused.refused.unwrap().wait, Wait::Never);
}

#[test]
fn a_nested_rule_is_asked_with_all_its_entries() {
    let (_, limiter) = limiter(&rules("2/minute"));
    let login = [("path", "/login"), ("user", "ann")];
    assert!(limiter.check("shop", &login).unwrap().is_admitted());
    let refused = limiter.check("shop", &login).unwrap();
    assert_eq!(
        refused.refused_by().unwrap().rule.shown(),
        "path_/login.user"
    );
}

#[test]
fn a_reload_keeps_what_was_consumed() {
    let (_, limiter) = limiter(&rules("5/minute"));
    for _ in 0..5 {
        assert!(
            limiter
                .check("shop", &[("user", "ann")])
                .unwrap()
                .is_admitted()
        );
    }
    let changes = limiter.reload(&rules("7/minute")).unwrap();
    assert_eq!(changes.changed.len(), 1);
    let admitted = |_: &u32| {
        limiter
            .check("shop", &[("user", "ann")])
            .unwrap()
            .is_admitted()
    };
    assert_eq!((0..5).filter(admitted).count(), 2);
    assert_eq!(limiter.rules().domains().collect::<Vec<_>>(), ["shop"]);
}

#[test]
fn mistakes_are_told_and_the_old_rules_stay() {
    let (_, limiter) = limiter(&rules("1/minute"));
    let error = limiter.reload(&rules("1/fortnight")).unwrap_err();
    assert!(error.to_string().contains("shop.yaml"), "{error}");
    assert!(
        limiter
            .check("shop", &[("user", "ann")])
            .unwrap()
            .is_admitted()
    );
    assert!(
        !limiter
            .check("shop", &[("user", "ann")])
            .unwrap()
            .is_admitted()
    );
    assert!(RuleLimiter::from_yaml("domain: [").is_err());
}
