//! `reserved`: which requests have a priority, and what a share leaves the others.

use tollgate_core::{Cost, Span, Status, Wait};
use tollgate_rules::{ChargedRule, NoHeadroom, RuleSet};

use crate::fixture::{Fixture, Pairs, SETTLED, clean, domain, load, overriding, request};

const RESERVED: &str = "{key: user, rate_limit: {requests_per_unit: 10, unit: day, \
     reserved: {share: 20%, for: [critical, internal]}}}\n{key: plain, rate_limit: 10/day}";

const ANN: Pairs<'_> = &[("user", "ann")];

fn has(priority: &'static str) -> [(&'static str, &'static str); 1] {
    [("priority", priority)]
}

/// How many of twenty such requests are allowed.
fn spend(fixture: &mut Fixture, descriptors: &[Pairs<'_>]) -> usize {
    let ask = |_| fixture.answer(&request(descriptors)).is_allowed();
    (0..20).map(ask).filter(|is_allowed| *is_allowed).count()
}

#[test]
fn the_share_is_for_requests_with_one_of_its_priorities() {
    let mut fixture = Fixture::of(RESERVED);
    assert_eq!(spend(&mut fixture, &[ANN]), 8);
    for other in ["low", "", "critical ", "Critical", "\u{fffd}"] {
        let other = [("priority", other)];
        assert_eq!(spend(&mut fixture, &[&other, ANN]), 0, "{other:?}");
    }
    assert_eq!(spend(&mut fixture, &[&has("internal"), ANN]), 2);
    assert_eq!(spend(&mut fixture, &[ANN, &has("critical")]), 0);
    // Where the descriptor stands does not matter, nor does it for a limit without a share.
    fixture.wait(Span::DAY);
    assert_eq!(spend(&mut fixture, &[ANN, &has("critical")]), 10);
    assert_eq!(spend(&mut fixture, &[&has("low"), &[("plain", "x")]]), 10);
}

#[test]
fn the_descriptor_of_the_priority_matches_no_rule() {
    let text =
        format!("{RESERVED}\n{{key: priority, descriptors: [{{key: a, rate_limit: 1/day}}]}}");
    let mut fixture = Fixture::of(&text);
    let longer: Pairs<'_> = &[("priority", "critical"), ("a", "x")];
    let matched = fixture.matched_rules(&[&has("critical"), longer]);
    assert_eq!(matched, ["-", "priority.a"]);
    // More than one entry states no priority.
    assert_eq!(spend(&mut fixture, &[longer, ANN]), 1);
    assert_eq!(
        fixture.answer(&request(&[&has("critical")])).statuses[..],
        [Status::NoLimit]
    );
    // Nor has it a limit of its own.
    let critical = has("critical");
    let own = overriding(&critical, 0, Span::DAY);
    assert!(fixture.answer(&own).is_allowed());
}

#[test]
fn of_several_priorities_the_first_counts() {
    let mut fixture = Fixture::of(RESERVED);
    let (low, critical) = (has("low"), has("critical"));
    assert_eq!(spend(&mut fixture, &[&low, ANN, &critical]), 8);
    assert_eq!(spend(&mut fixture, &[&critical, ANN, &low]), 2);
}

#[test]
fn without_a_share_in_its_domain_a_priority_is_a_descriptor_like_others() {
    let mut fixture =
        Fixture::of("{key: priority, rate_limit: 3/day}\n{key: user, rate_limit: 9/day}");
    assert_eq!(spend(&mut fixture, &[&has("critical")]), 3);
    assert_eq!(spend(&mut fixture, &[&has("critical"), ANN]), 0);
}

#[test]
fn a_domain_names_the_key_of_its_priorities() {
    let text = format!("priority_key: tier\n{}", domain(RESERVED));
    let mut fixture = Fixture::new(clean(&text));
    assert_eq!(spend(&mut fixture, &[&has("critical"), ANN]), 8);
    assert_eq!(spend(&mut fixture, &[&[("tier", "critical")], ANN]), 2);
}

#[test]
fn a_cost_is_judged_with_the_share_and_charged_without() {
    let mut fixture = Fixture::of(RESERVED);
    let mut ask = |descriptors: &[Pairs<'_>], units| {
        let mut asked = request(descriptors);
        asked.cost = Cost::Take(units);
        let answer = fixture.answer(&asked);
        let limited = answer.limited().next().unwrap().clone();
        (limited.decision.wait(), limited.remaining(), limited.limit)
    };
    assert_eq!(ask(&[ANN], 9).0, Some(Wait::Never));
    let (wait, remaining, limit) = ask(&[&has("critical"), ANN], 9);
    assert_eq!((wait, remaining), (None, 1));
    // The reported limit is the rule's, as the request met it.
    assert_eq!((limit.count(), limit.available()), (10, 10));
    let limit = ask(&[ANN], 0).2;
    assert_eq!((limit.count(), limit.available()), (10, 8));
    assert_eq!(limit.to_string(), "10 per 1d fixed_window reserved 20%");
}

#[test]
fn an_entry_without_an_order_may_state_the_priority_beside_others() {
    let mut fixture = Fixture::of(RESERVED);
    let mut ask = |pairs: Pairs<'_>, is_unordered| {
        let mut asked = request(&[pairs]);
        asked.descriptors[0].is_unordered = is_unordered;
        asked.cost = Cost::Take(9);
        fixture.answer(&asked)
    };
    let both: Pairs<'_> = &[("user", "ann"), ("priority", "critical")];
    // In an order, no rule nests them so.
    assert_eq!(ask(both, false).statuses[..], [Status::NoLimit]);
    assert!(!ask(&[("priority", "low"), ("user", "ann")], true).is_allowed());
    assert_eq!(ask(both, true).limited().next().unwrap().remaining(), 1);
}

#[test]
fn a_reload_keeps_what_was_used_and_changes_who_has_priority() {
    let rules = |share: u32, names: &str| {
        load(&domain(&format!(
            "{{key: user, rate_limit: {{requests_per_unit: 10, unit: day, \
             reserved: {{share: {share}%, for: [{names}]}}}}}}"
        )))
    };
    let mut fixture = Fixture::new(clean(&domain("{key: user, rate_limit: 10/day}")));
    for _ in 0..6 {
        assert!(fixture.is_allowed(ANN));
    }
    let changes = fixture.reload(rules(20, "critical"));
    assert_eq!(changes.changed.len(), 1);
    assert_eq!(spend(&mut fixture, &[ANN]), 2);
    assert!(fixture.reload(rules(20, "other")).changed.is_empty());
    assert_eq!(spend(&mut fixture, &[&has("critical"), ANN]), 0);
    assert!(fixture.answer(&request(&[&has("other"), ANN])).is_allowed());
    assert_eq!(fixture.reload(rules(50, "other")).changed.len(), 1);
    assert_eq!(spend(&mut fixture, &[&has("other"), ANN]), 1);
    fixture.reload(load(&domain("{key: user, rate_limit: 20/day}")));
    assert_eq!(spend(&mut fixture, &[ANN]), 10);
}

#[test]
fn a_settled_charge_keeps_its_priority_over_a_reload() {
    let fixture = Fixture::of(RESERVED);
    let charged = |descriptors: &[Pairs<'_>]| {
        let request = request(descriptors);
        let rules: Vec<_> = fixture.resolve(&request).charged_rules().collect();
        let bytes = rules[0].to_bytes().unwrap();
        [rules[0].clone(), ChargedRule::from_bytes(&bytes).unwrap()]
    };
    let later = clean(&domain(
        &RESERVED.replace("requests_per_unit: 10", "requests_per_unit: 20"),
    ));
    let without = clean(&domain("{key: user, rate_limit: 10/day}"));
    let available = |charged: &ChargedRule, rules: &RuleSet| {
        let charge = charged.charge(SETTLED, rules, &NoHeadroom).unwrap();
        charge.limit.available()
    };
    for charged in charged(&[ANN]) {
        assert_eq!(available(&charged, &later), 16);
    }
    for charged in charged(&[&has("critical"), ANN]) {
        assert_eq!(available(&charged, &later), 20);
        assert_eq!(available(&charged, &without), 10);
    }
}

#[test]
fn a_bucket_keeps_a_share_of_its_burst() {
    let mut fixture = Fixture::of(
        "{key: user, rate_limit: {requests_per_unit: 100, unit: day, algorithm: token_bucket, \
         burst: 7, soft: 100%, reserved: {share: 50%, for: [critical]}}}",
    );
    // 14 with the soft part, of which 4 are kept.
    assert_eq!(spend(&mut fixture, &[ANN]), 10);
    assert_eq!(spend(&mut fixture, &[&has("critical"), ANN]), 4);
}
