//! A rules file through the library.

#![cfg(feature = "rules")]
#![allow(clippy::unwrap_used)]

use std::sync::Arc;

use tollgate::{LoadError, ManualClock, Memory, RuleLimiter, Source, Span, Wait};

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
    let allowed = |user| {
        limiter
            .check("shop", &[("user", user)])
            .unwrap()
            .is_allowed()
    };
    assert!(allowed("ann") && allowed("ann") && allowed("bob"));
    assert!(!allowed("ann"));
    clock.advance(Span::MINUTE);
    assert!(allowed("ann"));
}

#[test]
fn what_no_rule_matches_is_allowed() {
    let (_, limiter) = limiter(&rules("0/minute"));
    assert!(
        limiter
            .check("shop", &[("color", "red")])
            .unwrap()
            .is_allowed()
    );
    assert!(
        limiter
            .check("elsewhere", &[("user", "ann")])
            .unwrap()
            .is_allowed()
    );
    let denied = limiter.check("shop", &[("user", "ann")]).unwrap();
    assert_eq!(denied.denial.unwrap().wait, Wait::Never);
}

#[test]
fn a_nested_rule_is_asked_with_all_its_entries() {
    let (_, limiter) = limiter(&rules("2/minute"));
    let login = [("path", "/login"), ("user", "ann")];
    assert!(limiter.check("shop", &login).unwrap().is_allowed());
    let denied = limiter.check("shop", &login).unwrap();
    assert_eq!(denied.denied_by().unwrap().rule.shown(), "path_/login.user");
}

#[test]
fn a_reload_keeps_what_was_consumed() {
    let (_, limiter) = limiter(&rules("5/minute"));
    for _ in 0..5 {
        assert!(
            limiter
                .check("shop", &[("user", "ann")])
                .unwrap()
                .is_allowed()
        );
    }
    let changes = limiter.reload(&rules("7/minute")).unwrap();
    assert_eq!(changes.changed.len(), 1);
    let allowed = |_: &u32| {
        limiter
            .check("shop", &[("user", "ann")])
            .unwrap()
            .is_allowed()
    };
    assert_eq!((0..5).filter(allowed).count(), 2);
    assert_eq!(limiter.rules().domains().collect::<Vec<_>>(), ["shop"]);
}

/// Threads that still decide under the former rules meet a state that was converted already.
#[test]
fn a_reload_under_load_loses_nothing() {
    const RELOADS: usize = 12;
    let counted = |algorithm| {
        let text = format!(
            "domain: shop\ndescriptors:\n  - key: user\n    rate_limit:\n      \
             requests_per_unit: 200\n      unit: day\n      algorithm: {algorithm}\n"
        );
        [Source::new("shop.yaml", text)]
    };
    let versions = ["fixed_window", "sliding_window", "token_bucket"].map(counted);
    let (_, limiter) = limiter(&versions[0]);
    let ask = || {
        let answer = limiter.check("shop", &[("user", "ann")]);
        usize::from(answer.unwrap().is_allowed())
    };
    let allowed: usize = std::thread::scope(|scope| {
        let threads = [(); 4].map(|()| scope.spawn(|| (0..150).map(|_| ask()).sum::<usize>()));
        for version in versions.iter().cycle().skip(1).take(RELOADS) {
            limiter.reload(version).unwrap();
            std::thread::yield_now();
        }
        threads.map(|thread| thread.join().unwrap()).iter().sum()
    });
    assert_eq!(allowed, 200);
}

/// A rule that was removed, dropped from the history and added again starts at its first revision,
/// and finds state of a later one. Only the rules can tell that there is no later rule.
#[test]
fn a_rule_that_is_removed_and_added_again_still_decides() {
    let (_, limiter) = limiter(&rules("5/day"));
    limiter.reload(&rules("7/day")).unwrap();
    let ask = || limiter.check("shop", &[("user", "ann")]).unwrap();
    assert!(ask().is_allowed());
    let others = (0..=tollgate_rules::REMOVED_RULES_MAX)
        .map(|rule| format!("  - key: k{rule}\n    rate_limit: 1/day\n"));
    let others = format!(
        "domain: others\ndescriptors:\n{}",
        others.collect::<String>()
    );
    let others = [Source::new("others.yaml", others)];
    limiter.reload(&others).unwrap();
    limiter
        .reload(&[Source::new("none.yaml", "domain: none\n")])
        .unwrap();
    limiter.reload(&rules("5/day")).unwrap();
    assert!(ask().is_allowed());
}

#[test]
fn errors_are_reported_and_the_old_rules_stay() {
    let (_, limiter) = limiter(&rules("1/minute"));
    let error = limiter.reload(&rules("1/fortnight")).unwrap_err();
    assert!(error.to_string().contains("shop.yaml"), "{error}");
    assert!(
        limiter
            .check("shop", &[("user", "ann")])
            .unwrap()
            .is_allowed()
    );
    assert!(
        !limiter
            .check("shop", &[("user", "ann")])
            .unwrap()
            .is_allowed()
    );
    assert!(RuleLimiter::from_yaml("domain: [").is_err());
}

#[test]
fn warnings_are_those_about_the_rules_in_effect() {
    let (_, limiter) = limiter(&rules(""));
    let codes = || {
        let warnings = limiter.warnings().into_iter();
        warnings.map(|one| (one.code, one.line)).collect::<Vec<_>>()
    };
    assert_eq!(codes(), [("no-effect", 3), ("no-value", 4)]);
    // Rules that are not used say nothing, either.
    assert!(limiter.reload(&rules("many")).is_err());
    assert_eq!(codes(), [("no-effect", 3), ("no-value", 4)]);
    limiter.reload(&rules("2/minute")).unwrap();
    assert_eq!(codes(), []);
}

#[test]
fn rules_are_loaded_and_reloaded_from_files() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("shop.yaml");
    let rules = |count: u32| {
        format!("{{domain: shop, descriptors: [{{key: user, rate_limit: {count}/hour}}]}}")
    };
    std::fs::write(&file, rules(1)).unwrap();
    let limiter = RuleLimiter::from_paths(&[directory.path()]).unwrap();
    let ask = || limiter.check("shop", &[("user", "ann")]).unwrap();
    assert!(ask().is_allowed());
    let denied = ask();
    assert!(
        denied
            .retry_after_secs()
            .is_some_and(|secs| (1..=3_600).contains(&secs))
    );
    std::fs::write(&file, rules(2)).unwrap();
    limiter.reload_paths(&[&file]).unwrap();
    assert!(ask().is_allowed());
    assert!(!ask().is_allowed());
    std::fs::write(&file, "domain: [").unwrap();
    let invalid = limiter.reload_paths(&[&file]).unwrap_err();
    assert!(matches!(invalid, LoadError::Invalid(_)));
    let missing = RuleLimiter::from_paths(&[directory.path().join("none")]).unwrap_err();
    assert!(matches!(missing, LoadError::Read(_)));
    // Such as a pattern that matches no file.
    let none: &[&std::path::Path] = &[];
    let unnamed = RuleLimiter::from_paths(none).unwrap_err();
    assert!(matches!(unnamed, LoadError::NoPaths));
    let unnamed = limiter.reload_paths(none).unwrap_err();
    assert!(unnamed.to_string().starts_with("no rules file is named"));
    assert!(!ask().is_allowed(), "the rules stay in effect");
}
