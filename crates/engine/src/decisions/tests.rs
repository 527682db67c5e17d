#![allow(clippy::unwrap_used)]

use super::*;

#[test]
fn series_with_clients_values_are_bounded_in_number_and_length() {
    let decisions = Decisions::default();
    let domain: Arc<str> = "d".into();
    for index in 0..VALUE_SERIES_MAX {
        assert!(decisions.of_values(&domain, &format!("v{index}")).is_some());
    }
    assert!(decisions.of_values(&domain, "one more").is_none());
    assert!(decisions.of_values(&domain, "v0").is_some());
    let fresh = Decisions::default();
    let long = "v".repeat(VALUE_PATH_BYTES_MAX + 1);
    assert!(fresh.of_values(&domain, &long).is_none());
    assert!(fresh.of_values(&domain, &long[1..]).is_some());
}

fn parse(text: &str) -> RuleSet {
    let source = tollgate_rules::Source::new("r.yaml", text);
    let loaded = RuleSet::parse(&[source], &tollgate_rules::Options::default());
    assert!(!loaded.has_errors());
    loaded.rules
}

#[test]
fn a_value_that_looks_like_a_rule_makes_no_second_series() {
    let rules = parse("domain: d\ndescriptors: [{key: a, value: b, rate_limit: 1/day}]\n");
    let decisions = Decisions::default();
    let series = decisions.track(&rules);
    let view = rules.rules().next().unwrap();
    series.rules[&address(&view.rule)].add(DescriptorOutcome::Allowed);
    let domain = Arc::clone(&series.domains["d"].name);
    decisions
        .of_values(&domain, &view.rule.path)
        .unwrap()
        .add(DescriptorOutcome::Allowed);
    let mut found = Vec::new();
    let visited = decisions.visit(|domain, rule, outcome, count| {
        found.push(format!("{domain} {rule} {outcome} {count}"));
        Ok::<(), ()>(())
    });
    assert_eq!(
        (visited, found),
        (Ok(()), vec!["d a_b allowed 2".to_owned()])
    );
}

#[test]
fn a_reload_goes_on_counting_and_forgets_what_is_gone() {
    let both =
        "domain: d\ndescriptors:\n- {key: a, rate_limit: 1/day}\n- {key: b, rate_limit: 1/day}\n";
    let one = "domain: d\ndescriptors:\n- {key: a, rate_limit: 2/day}\n";
    let decisions = Decisions::default();
    let before = parse(both);
    let series = decisions.track(&before);
    for view in before.rules() {
        series.rules[&address(&view.rule)].add(DescriptorOutcome::Allowed);
    }
    let after = parse(one);
    let series = decisions.track(&after);
    let view = after.rules().next().unwrap();
    let tally = &series.rules[&address(&view.rule)];
    assert_eq!(
        tally.0[DescriptorOutcome::Allowed.index()].load(Ordering::Relaxed),
        1
    );
    // The domain's own two and that of the rule that is left.
    assert_eq!(decisions.rules.read().unwrap().len(), 3);
}
