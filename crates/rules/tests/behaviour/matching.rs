//! Which rule a request meets, and under which key it counts.

use serde_json::json;
use tollgate_core::{ChargeDenied, Cost, Enforcement, OnDenial, Request, Span, Status, Wait};

use crate::fixture::{Fixture, clean, domain, load, overriding, request};

#[test]
fn an_unknown_domain_limits_nothing() {
    let fixture = Fixture::of("{key: a, rate_limit: 1/s}");
    let request = Request {
        domain: b"other",
        ..request(&[&[("a", "x")]])
    };
    assert!(fixture.resolve(&request).charges().is_empty());
}

#[test]
fn a_rule_is_met_only_at_its_own_depth() {
    let fixture = Fixture::of("{key: a, descriptors: [{key: b, rate_limit: 1/s}]}");
    assert_eq!(fixture.matched_rules(&[&[("a", "1")]]), ["-"]);
    assert_eq!(fixture.matched_rules(&[&[("a", "1"), ("b", "2")]]), ["a.b"]);
    assert_eq!(
        fixture.matched_rules(&[&[("a", "1"), ("b", "2"), ("c", "3")]]),
        ["-"]
    );
    assert_eq!(fixture.matched_rules(&[&[("b", "2"), ("a", "1")]]), ["-"]);
    assert_eq!(fixture.matched_rules(&[&[]]), ["-"]);
}

#[test]
fn a_rule_in_the_middle_is_met_by_a_shorter_descriptor() {
    let fixture =
        Fixture::of("{key: a, rate_limit: 1/s, descriptors: [{key: b, rate_limit: 2/s}]}");
    assert_eq!(fixture.matched_rules(&[&[("a", "1")]]), ["a"]);
    assert_eq!(fixture.matched_rules(&[&[("a", "1"), ("b", "2")]]), ["a.b"]);
}

#[test]
fn exact_then_wildcards_in_file_order_then_bare() {
    let fixture = Fixture::of(
        "{key: a, rate_limit: 1/s}
         {key: a, value: x*z, rate_limit: 2/s}
         {key: a, value: x*, rate_limit: 3/s}
         {key: a, value: xyz, rate_limit: 4/s}",
    );
    assert_eq!(fixture.matched_rules(&[&[("a", "xyz")]]), ["a_xyz"]);
    assert_eq!(fixture.matched_rules(&[&[("a", "xz")]]), ["a_x*z"]);
    assert_eq!(fixture.matched_rules(&[&[("a", "xyy")]]), ["a_x*"]);
    assert_eq!(fixture.matched_rules(&[&[("a", "XYZ")]]), ["a"]);
    assert_eq!(fixture.matched_rules(&[&[("b", "xyz")]]), ["-"]);
}

#[test]
fn a_chosen_branch_is_not_left_again() {
    let fixture = Fixture::of(
        "{key: a, value: x, descriptors: [{key: b, rate_limit: 1/s}]}
         {key: a, descriptors: [{key: c, rate_limit: 1/s}]}",
    );
    assert_eq!(fixture.matched_rules(&[&[("a", "x"), ("c", "1")]]), ["-"]);
    assert_eq!(fixture.matched_rules(&[&[("a", "y"), ("c", "1")]]), ["a.c"]);
}

#[test]
fn a_value_without_a_limit_is_exempt() {
    let fixture = Fixture::of("{key: a, rate_limit: 1/s}\n{key: a, value: vip}");
    assert_eq!(
        fixture.matched_rules(&[&[("a", "vip")], &[("a", "x")]]),
        ["-", "a"]
    );
}

#[test]
fn a_glued_key_is_not_a_key_and_a_value() {
    let fixture = Fixture::of("{key: a_b, rate_limit: 1/s}\n{key: a, value: b_c, rate_limit: 2/s}");
    assert_eq!(fixture.matched_rules(&[&[("a", "b")]]), ["-"]);
    assert_eq!(fixture.matched_rules(&[&[("a_b", "c")]]), ["a_b"]);
    assert_eq!(fixture.matched_rules(&[&[("a", "b_c")]]), ["a_b_c"]);
}

#[test]
fn a_key_without_a_value_counts_each_value_apart() {
    let mut fixture = Fixture::of("{key: user, rate_limit: 1/s}");
    assert!(fixture.is_allowed(&[("user", "ann")]));
    assert!(!fixture.is_allowed(&[("user", "ann")]));
    assert!(fixture.is_allowed(&[("user", "bob")]));
    assert!(fixture.is_allowed(&[("user", "")]));
    fixture.wait(Span::SECOND);
    assert!(fixture.is_allowed(&[("user", "ann")]));
}

#[test]
fn a_wildcard_counts_apart_unless_it_shares() {
    let mut fixture = Fixture::of(
        "{key: a, value: x*, rate_limit: 1/s}
         {key: b, value: x*, share_threshold: true, rate_limit: 1/s}",
    );
    assert!(fixture.is_allowed(&[("a", "x1")]) && fixture.is_allowed(&[("a", "x2")]));
    assert!(fixture.is_allowed(&[("b", "x1")]) && !fixture.is_allowed(&[("b", "x2")]));
}

#[test]
fn sharing_holds_for_limits_further_down() {
    let fixture = Fixture::of(
        "{key: a, value: x*, share_threshold: true, descriptors: [{key: b, rate_limit: 1/s}]}",
    );
    let key = |a, b| fixture.key(&[("a", a), ("b", b)]);
    assert_eq!(key("x1", "1"), key("x2", "1"));
    assert_ne!(key("x1", "1"), key("x1", "2"));
}

#[test]
fn no_two_rules_share_a_counter() {
    let fixture = Fixture::of(
        "{key: a, rate_limit: 1/s, descriptors: [{key: b, rate_limit: 1/s}]}
         {key: a, value: x, rate_limit: 1/s, descriptors: [{key: b, rate_limit: 1/s}]}
         {key: a, value: y*, rate_limit: 1/s, descriptors: [{key: b, value: z*, rate_limit: 1/s}]}
         {key: a_x, rate_limit: 1/s}
         {key: ab, rate_limit: 1/s}",
    );
    let mut keys = vec![
        fixture.key(&[("a", "b")]),
        fixture.key(&[("a", "x")]),
        fixture.key(&[("a", "xb")]),
        fixture.key(&[("a", "y")]),
        fixture.key(&[("a", "yb")]),
        fixture.key(&[("a_x", "b")]),
        fixture.key(&[("ab", "")]),
        fixture.key(&[("a", "b"), ("b", "")]),
        fixture.key(&[("a", ""), ("b", "b")]),
        fixture.key(&[("a", "x"), ("b", "b")]),
        fixture.key(&[("a", "y"), ("b", "zb")]),
        fixture.key(&[("a", "yz"), ("b", "zb")]),
    ];
    let all = keys.len();
    keys.sort();
    keys.dedup();
    assert_eq!(keys.len(), all);
}

#[test]
fn domains_do_not_share_counters() {
    let text = "domain: d\ndescriptors: [{key: a, rate_limit: 1/s}]\n";
    let both = format!("{text}---\n{}", text.replace("domain: d", "domain: e"));
    let fixture = Fixture::new(clean(&both));
    let first = request(&[&[("a", "1")]]);
    let second = Request {
        domain: b"e",
        ..first.clone()
    };
    let key = |request: &Request<'_>| fixture.resolve(request).charges()[0].key;
    assert_ne!(key(&first), key(&second));
}

#[test]
fn unlimited_is_not_counted_and_exempts_from_nothing_else() {
    let mut fixture = Fixture::of(
        "{key: a, value: vip, rate_limit: {unlimited: true, name: friends}}
         {key: b, rate_limit: 1/s}",
    );
    let both: [&[(&str, &str)]; 2] = [&[("a", "vip")], &[("b", "1")]];
    assert_eq!(fixture.matched_rules(&both), ["*a_vip", "b"]);
    assert!(fixture.answer(&request(&both)).is_allowed());
    let second = fixture.answer(&request(&both));
    assert_eq!(second.denial.map(|rejected| rejected.by), Some(1));
    let Status::Unlimited { rule } = &second.statuses[0] else {
        panic!("the rule is unlimited");
    };
    assert_eq!(rule.shown(), "friends");
}

#[test]
fn costs_come_from_the_descriptor_or_else_the_request() {
    let fixture = Fixture::of("{key: a, rate_limit: 10/s}");
    let mut request = request(&[&[("a", "1")], &[("a", "2")]]);
    request.cost = Cost::Take(3);
    request.descriptors[1].cost = Some(Cost::Peek(0));
    let costs: Vec<Cost> = fixture
        .resolve(&request)
        .charges()
        .iter()
        .map(|c| c.cost)
        .collect();
    assert_eq!(costs, [Cost::Take(3), Cost::Peek(0)]);
}

#[test]
fn a_limit_brought_along_stands_in_for_the_rules() {
    let mut fixture = Fixture::of("{key: a, rate_limit: {unlimited: true}}");
    let strict = overriding(&[("a", "1")], 1, Span::MINUTE);
    assert!(fixture.answer(&strict).is_allowed());
    let rejected = fixture.answer(&strict);
    assert!(matches!(
        rejected.denial.map(|r| r.wait),
        Some(Wait::For(_))
    ));
    // N may vary; the counter is the same, and another unit has another one.
    assert!(
        fixture
            .answer(&overriding(&[("a", "1")], 2, Span::MINUTE))
            .is_allowed()
    );
    assert!(
        fixture
            .answer(&overriding(&[("a", "1")], 1, Span::HOUR))
            .is_allowed()
    );
    assert!(
        fixture
            .answer(&overriding(&[("a", "2")], 1, Span::MINUTE))
            .is_allowed()
    );
    // Keys that no rule has are limited as well, and an unknown domain is not.
    assert_eq!(
        fixture
            .resolve(&overriding(&[("z", "1")], 1, Span::MINUTE))
            .charges()
            .len(),
        1
    );
    let elsewhere = Request {
        domain: b"other",
        ..strict
    };
    assert!(fixture.resolve(&elsewhere).charges().is_empty());
}

#[test]
fn a_limit_brought_along_has_a_counter_for_each_window_and_not_a_rules() {
    let fixture = Fixture::of("{key: a, rate_limit: 1/m}");
    let key = |count, window| {
        fixture
            .resolve(&overriding(&[("a", "1")], count, window))
            .charges()[0]
            .key
    };
    assert_ne!(key(1, Span::MINUTE), fixture.key(&[("a", "1")]));
    assert_eq!(key(1, Span::SECOND), key(999_999_999, Span::SECOND));
    assert_eq!(key(1, Span::SECOND), key(u32::MAX, Span::SECOND));
    assert_ne!(key(1, Span::SECOND), key(1, Span::MINUTE));
}

#[test]
fn a_limit_brought_along_that_is_none_leaves_the_rules() {
    let fixture = Fixture::of("{key: a, rate_limit: 7/m}");
    for window in [Span::ZERO, Span::DAY.times(1000)] {
        let request = overriding(&[("a", "1")], 1, window);
        assert_eq!(fixture.resolve(&request).charges()[0].limit.count(), 7);
    }
}

#[test]
fn modes_become_what_a_denial_does() {
    let text = domain(
        "{key: a, shadow_mode: true, rate_limit: 1/s}
         {key: b, quota_mode: true, rate_limit: 1/s}
         {key: c, shadow_mode: false, rate_limit: 1/s}",
    );
    let text = format!("charge_denied: true\n{text}");
    let fixture = Fixture::new(clean(&text));
    let request = request(&[&[("a", "1")], &[("b", "1")], &[("c", "1")]]);
    let resolved = fixture.resolve(&request);
    let charges = resolved.charges();
    let enforcement: Vec<Enforcement> = charges.iter().map(|c| c.enforcement).collect();
    assert_eq!(
        enforcement,
        [
            Enforcement::Shadow,
            Enforcement::Quota,
            Enforcement::Enforce
        ]
    );
    assert!(charges.iter().all(|c| c.on_denial == OnDenial::Charge));
}

#[test]
fn charge_denied_is_the_rule_s_own_else_the_domain_s_else_the_protocol_s() {
    let own = |word: &str| {
        let limit = format!("{{unit: day, requests_per_unit: 5, charge_denied: {word}}}");
        format!("{{key: {word}, rate_limit: {limit}}}\n")
    };
    let rules = ["never", "excess", "always", "false", "true"]
        .map(own)
        .concat();
    let text = domain(&format!("{rules}{{key: unsaid, rate_limit: 5/day}}"));
    let on_denial = |fixture: &Fixture, charge_denied, key, cost| {
        let pairs = [(key, "x")];
        let request = Request {
            charge_denied,
            cost,
            ..request(&[&pairs])
        };
        fixture.resolve(&request).charges()[0].on_denial
    };
    let fixture = Fixture::new(clean(&text));
    let (one, two, peek) = (Cost::ONE, Cost::Take(2), Cost::Peek(2));
    for (key, cost, charged) in [
        ("never", two, false),
        ("false", two, false),
        ("excess", one, false),
        ("excess", peek, false),
        ("excess", two, true),
        ("always", one, true),
        ("true", one, true),
    ] {
        let unsaid = ChargeDenied::Never;
        let is_charged = on_denial(&fixture, unsaid, key, cost) == OnDenial::Charge;
        assert_eq!(is_charged, charged, "{key} {cost:?}");
    }
    for charge_denied in ChargeDenied::ALL {
        for cost in [one, two] {
            let of = |fixture, unsaid| on_denial(fixture, unsaid, "unsaid", cost);
            assert_eq!(of(&fixture, charge_denied), charge_denied.on_denial(cost));
            let said = Fixture::new(clean(&format!("charge_denied: {charge_denied}\n{text}")));
            assert_eq!(
                of(&said, ChargeDenied::Never),
                charge_denied.on_denial(cost)
            );
            assert_eq!(
                of(&said, ChargeDenied::Always),
                charge_denied.on_denial(cost)
            );
            let never = on_denial(&said, ChargeDenied::Always, "never", cost);
            assert_eq!(never, OnDenial::Keep);
        }
    }
}

#[test]
fn shadow_wins_over_quota() {
    let loaded = load(&domain(
        "{key: a, shadow_mode: true, quota_mode: true, rate_limit: 1/s}",
    ));
    let fixture = Fixture::new(loaded.rules);
    let request = request(&[&[("a", "1")]]);
    assert_eq!(
        fixture.resolve(&request).charges()[0].enforcement,
        Enforcement::Shadow
    );
}

#[test]
fn a_shadow_limit_never_denies() {
    let mut fixture = Fixture::of("{key: a, shadow_mode: true, rate_limit: 1/s}");
    let request = request(&[&[("a", "1")]]);
    for _ in 0..3 {
        assert!(fixture.answer(&request).is_allowed());
    }
}

#[test]
fn every_algorithm_is_what_the_file_says() {
    let limits = [
        "100/minute",
        "5 per 15m",
        "{requests_per_unit: 3, unit: Week}",
        "{requests_per_unit: 3, unit: MONTH, anchor: first_request}",
        "{requests_per_unit: 3, unit: year, algorithm: sliding_log}",
        "{requests_per_unit: 3, window: 1h30m, algorithm: sliding_window, segments: 6}",
        "{requests_per_unit: 3, unit: second, algorithm: token_bucket, burst: 9}",
        "{requests_per_unit: 0x10, window: 1s, algorithm: leaky_bucket, queue: 1_0, soft: 20%}",
    ];
    let lines = limits.iter().enumerate();
    let lines = lines.map(|(at, limit)| format!("{{key: k{at}, rate_limit: {limit}}}\n"));
    let fixture = Fixture::of(&lines.collect::<String>());
    let texts: Vec<String> = fixture.rules.rules().map(|rule| rule.text).collect();
    assert_eq!(
        texts,
        [
            "100 per 1m fixed_window",
            "5 per 15m fixed_window",
            "3 per 7d fixed_window",
            "3 per 30d fixed_window from the first request",
            "3 per 365d sliding_log",
            "3 per 1h30m sliding_window in 6 segments",
            "3 per 1s token_bucket burst 9",
            "16 per 1s leaky_bucket queue 10 soft 20%",
        ]
    );
}

#[test]
fn text_is_taken_as_it_is_written() {
    let fixture = Fixture::of(
        "{key: a, value: 10, rate_limit: 1/s}
         {key: a, value: true, rate_limit: 1/s}
         {key: a, value: 'null', rate_limit: 1/s}
         {key: a, value: 2026-11-21, rate_limit: 1/s}",
    );
    for value in ["10", "true", "null", "2026-11-21"] {
        assert_ne!(fixture.matched_rules(&[&[("a", value)]]), ["-"], "{value}");
    }
}

#[test]
fn metrics_say_what_the_flags_ask_for() {
    let fixture = Fixture::of(
        "{key: a, rate_limit: 1/s}
         {key: b, value: x*, value_to_metric: true, descriptors: [{key: c, rate_limit: 1/s}]}
         {key: d, descriptors: [{key: e, value: y*, detailed_metric: true, rate_limit: 1/s}]}
         {key: f, value: z*, share_threshold: true, detailed_metric: true, rate_limit: 1/s}
         {key: h, detailed_metric: true, rate_limit: {unlimited: true}}
         {key: i, value_to_metric: true, descriptors: [{key: j, rate_limit: {unlimited: true}}]}",
    );
    let metric = |pairs: &[(&str, &str)]| {
        let request = request(&[pairs]);
        let resolved = fixture.resolve(&request);
        resolved.metric(0).map(str::to_owned)
    };
    assert_eq!(metric(&[("a", "1")]).as_deref(), Some("a"));
    assert_eq!(
        metric(&[("b", "x1"), ("c", "2")]).as_deref(),
        Some("b_x1.c")
    );
    assert_eq!(
        metric(&[("d", "1"), ("e", "y2")]).as_deref(),
        Some("d_1.e_y2")
    );
    assert_eq!(metric(&[("f", "z1")]).as_deref(), Some("f_z*"));
    assert_eq!(metric(&[("g", "1")]), None);
    assert_eq!(metric(&[("h", "1")]).as_deref(), Some("h_1"));
    assert_eq!(metric(&[("i", "1"), ("j", "2")]).as_deref(), Some("i_1.j"));
}

#[test]
fn metadata_of_those_that_pass_is_merged_and_the_first_stays() {
    let mut fixture = Fixture::of(
        "{key: a, rate_limit: 9/s, metadata: {tier: gold, deep: {x: 1, l: [1, two, 3.5, ~, true]}}}
         {key: b, rate_limit: 1/s, metadata: {tier: lead, deep: {x: 2, y: 3}, more: yes}}
         {key: c, rate_limit: 1/s}",
    );
    let merged = |fixture: &mut Fixture, keys: &[&str]| {
        let pairs: Vec<[(&str, &str); 1]> = keys.iter().map(|key| [(*key, "1")]).collect();
        let pairs: Vec<&[(&str, &str)]> = pairs.iter().map(|pair| &pair[..]).collect();
        let request = request(&pairs);
        let answer = fixture.answer(&request);
        fixture
            .resolve(&request)
            .metadata(&answer)
            .map(serde_json::Value::Object)
    };
    let list = json!([1, "two", 3.5, null, true]);
    assert_eq!(
        merged(&mut fixture, &["a", "b"]),
        Some(json!({ "tier": "gold", "deep": { "x": 1, "y": 3, "l": list }, "more": "yes" }))
    );
    // The second is over now, and the first is as it was in the file.
    assert_eq!(
        merged(&mut fixture, &["a", "b"]),
        Some(json!({ "tier": "gold", "deep": { "x": 1, "l": list } }))
    );
    assert_eq!(merged(&mut fixture, &["c"]), None);
}

#[test]
fn whole_numbers_of_metadata_may_have_any_base() {
    let mut fixture = Fixture::of(
        "{key: a, rate_limit: 9/s, metadata: {l: \
         [0x10, -0x10, 0o17, 017, 0b11, 1_000, +7, 0, 09, 0x1_0000_0000_0000_0000]}}",
    );
    let request = request(&[&[("a", "1")]]);
    let answer = fixture.answer(&request);
    let metadata = fixture.resolve(&request).metadata(&answer);
    let large = 18_446_744_073_709_551_616.0;
    let expected = json!({"l": [16, -16, 15, 15, 3, 1000, 7, 0, 9, large]});
    assert_eq!(metadata.map(serde_json::Value::Object), Some(expected));
}

#[test]
fn whatever_a_client_sends_is_resolved() {
    let mut fixture = Fixture::of("{key: a, value: x*y*z, rate_limit: 1/s}");
    let long = "x".repeat(100_000);
    let strange: [&[(&str, &str)]; 5] = [
        &[],
        &[("", "")],
        &[("a", &long)],
        &[("\0", "\u{10ffff}")],
        &[("a", "xyz")],
    ];
    let answer = fixture.answer(&request(&strange));
    assert_eq!(answer.statuses.len(), strange.len());
    let many = vec![("a", "x"); 10_000];
    assert_eq!(fixture.matched_rules(&[&many]), ["-"]);
}
