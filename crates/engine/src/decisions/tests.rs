#![allow(clippy::unwrap_used)]

use std::collections::BTreeMap;

use tollgate_core::{
    ChargeDenied, Clock, Cost, Descriptor, Entry, Moment, Override, Request, Span,
};
use tollgate_memory::{ManualClock, Memory};

use super::*;
use crate::engine::Engine;
use crate::stores::Stores;

const VARYING: &str =
    "domain: d\ndescriptors:\n- {key: a, detailed_metric: true, rate_limit: 9/day}\n";

#[test]
fn series_with_clients_values_are_bounded_in_number_and_length() {
    let varying = parse(VARYING);
    let decisions = Decisions::default();
    let domain = Arc::clone(&decisions.track(&varying).domains["d"].name);
    let of_values = |path: &str| decisions.of_values(&domain, "a", path);
    for index in 0..VALUE_SERIES_MAX {
        assert!(of_values(&format!("v{index}")).is_some());
    }
    assert!(of_values("one more").is_none());
    assert!(of_values("v0").is_some());
    let fresh = Decisions::default();
    fresh.track(&varying);
    let long = "v".repeat(VALUE_PATH_BYTES_MAX + 1);
    assert!(fresh.of_values(&domain, "a", &long).is_none());
    assert!(fresh.of_values(&domain, "a", &long[1..]).is_some());
}

fn parse(text: &str) -> RuleSet {
    let source = tollgate_rules::Source::new("r.yaml", text);
    let loaded = RuleSet::parse(&[source], &tollgate_rules::Options::default());
    assert!(!loaded.has_errors());
    loaded.rules
}

#[test]
fn a_value_that_looks_like_a_rule_makes_no_second_series() {
    let rules = parse(
        "domain: d\ndescriptors: [{key: a, value: b, rate_limit: 1/day}, {key: a, \
         detailed_metric: true, rate_limit: 1/day}]\n",
    );
    let decisions = Decisions::default();
    let series = decisions.track(&rules);
    let view = rules.rules().next().unwrap();
    series.rules[&address(&view.rule)].add(DescriptorOutcome::Allowed);
    let domain = Arc::clone(&series.domains["d"].name);
    decisions
        .of_values(&domain, "a", &view.rule.path)
        .unwrap()
        .add(DescriptorOutcome::Allowed);
    let mut found = Vec::new();
    let visited = decisions.visit(|domain, rule, outcome, count| {
        assert!(decisions.values.try_write().is_ok(), "a new value waits");
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
    // The domain's own three and that of the rule that is left.
    assert_eq!(decisions.rules.read().unwrap().len(), 4);
}

#[test]
fn series_with_values_go_with_their_rule() {
    let plain = "domain: d\ndescriptors:\n- {key: a, rate_limit: 1/day}\n";
    let decisions = Decisions::default();
    let mut series = decisions.track(&parse(VARYING));
    let has_series = |series: &Series| {
        let domain = &series.domains["d"].name;
        decisions.of_values(domain, "a", "a_ann").is_some()
    };
    assert!(has_series(&series));
    for (rules, expected) in [(VARYING, 1), (plain, 0), (VARYING, 0)] {
        let next = decisions.track(&parse(rules));
        assert_eq!(decisions.values.read().unwrap().series.len(), expected);
        // A decision under the former rules is counted after the reload.
        assert_eq!(has_series(&series), rules == VARYING);
        series = next;
    }
}

#[tokio::test]
async fn overrides_have_a_series_of_their_own_and_each_descriptor_counts() {
    let clock: Arc<dyn Clock> = Arc::new(ManualClock::at(Moment::ZERO + Span::DAY));
    let memory = Memory::builder().max_keys(10_000).clock(clock).build();
    let engine = Engine::new(Stores::new(memory));
    engine.replace_rules(parse(VARYING));
    for index in 0..=VALUE_SERIES_MAX {
        decide(&engine, b"d", format!("v{index}").as_bytes(), None).await;
    }
    let limit = Override {
        count: 9,
        window: Span::DAY,
    };
    decide(&engine, b"d", b"v", Some(limit)).await;
    decide(&engine, b"elsewhere", b"v", None).await;
    let mut found = BTreeMap::new();
    let visited = engine.visit_decisions(|_, rule, outcome, count| {
        found.insert((rule.to_owned(), outcome), count);
        Ok::<(), ()>(())
    });
    visited.unwrap();
    let of = |rule: &str, outcome| found.get(&(rule.to_owned(), outcome)).copied();
    assert_eq!(of("a_v0", "allowed"), Some(2));
    assert_eq!(of(OTHER, "allowed"), Some(2));
    assert_eq!(of("(override)", "allowed"), Some(2));
    assert_eq!(of("", "unknown_domain"), Some(2));
}

/// Decides on a request with the same descriptor twice.
async fn decide(engine: &Engine, domain: &[u8], value: &[u8], limit: Option<Override>) {
    let descriptor = Descriptor {
        entries: vec![Entry { key: b"a", value }].into(),
        limit,
        ..Descriptor::default()
    };
    let request = Request {
        domain,
        descriptors: vec![descriptor.clone(), descriptor].into(),
        cost: Cost::ONE,
        charge_denied: ChargeDenied::Never,
    };
    let decided = engine.decide(&request).await.unwrap();
    assert!(decided.answer.is_allowed());
}
