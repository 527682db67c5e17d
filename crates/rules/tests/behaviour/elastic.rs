//! `elastic`: what is allowed while there is headroom, and what becomes of it without.

use tollgate_core::Span;
use tollgate_rules::{ChargedRule, Headroom, HeadroomSource, NoHeadroom, RuleView};

use crate::fixture::{Fixture, Pairs, SETTLED, clean, domain, load, overriding, request};

const ELASTIC: &str = "{key: user, rate_limit: {requests_per_unit: 10, unit: day, \
     elastic: {share: 50%, while: [reported]}}}\n{key: plain, rate_limit: 10/day}";

const ANN: Pairs<'_> = &[("user", "ann")];

/// Headroom is reported for one domain.
struct Reported(&'static str);

impl Headroom for Reported {
    fn has_headroom(&self, domain: &str, source: &HeadroomSource) -> bool {
        *source == HeadroomSource::Reported && domain == self.0
    }
}

/// How many of thirty such requests are allowed.
fn spend(fixture: &mut Fixture, headroom: &dyn Headroom, descriptors: &[Pairs<'_>]) -> usize {
    let ask = |_| {
        let answer = fixture.answer_with(&request(descriptors), headroom);
        answer.is_allowed()
    };
    (0..30).map(ask).filter(|is_allowed| *is_allowed).count()
}

#[test]
fn what_is_elastic_is_allowed_while_there_is_headroom() {
    let mut fixture = Fixture::of(ELASTIC);
    assert_eq!(spend(&mut fixture, &NoHeadroom, &[ANN]), 10);
    assert_eq!(spend(&mut fixture, &Reported("other"), &[ANN]), 0);
    assert_eq!(spend(&mut fixture, &Reported("d"), &[ANN]), 5);
    // It does not matter how often it comes and goes.
    assert_eq!(spend(&mut fixture, &NoHeadroom, &[ANN]), 0);
    assert_eq!(spend(&mut fixture, &Reported("d"), &[ANN]), 0);
    fixture.wait(Span::DAY);
    assert_eq!(spend(&mut fixture, &Reported("d"), &[ANN]), 15);
    fixture.wait(Span::DAY);
    assert_eq!(spend(&mut fixture, &NoHeadroom, &[ANN]), 10);
    let plain: Pairs<'_> = &[("plain", "x")];
    assert_eq!(spend(&mut fixture, &Reported("d"), &[plain]), 10);
}

#[test]
fn the_limit_of_a_request_has_no_elastic_part() {
    let fixture = Fixture::of(ELASTIC);
    let own = overriding(ANN, 3, Span::DAY);
    let resolved = fixture
        .rules
        .resolve_with_headroom(&own, &fixture.numbers, &Reported("d"));
    assert_eq!(resolved.charges()[0].limit.available(), 3);
}

#[test]
fn a_share_for_priority_is_kept_of_what_is_there() {
    let mut fixture = Fixture::of(
        "{key: user, rate_limit: {requests_per_unit: 10, unit: day, \
         elastic: {share: 50%, while: [reported]}, reserved: {share: 20%, for: [critical]}}}",
    );
    let critical: Pairs<'_> = &[("priority", "critical")];
    assert_eq!(spend(&mut fixture, &NoHeadroom, &[ANN]), 8);
    assert_eq!(spend(&mut fixture, &NoHeadroom, &[critical, ANN]), 2);
    assert_eq!(spend(&mut fixture, &Reported("d"), &[ANN]), 3);
    assert_eq!(spend(&mut fixture, &Reported("d"), &[critical, ANN]), 2);
    let rule = fixture.rules.rules().next().unwrap();
    let text = "10 per 1d fixed_window elastic 50% reserved 20% for critical while reported";
    assert_eq!((&*rule.text, rule.has_headroom), (text, Some(false)));
}

#[test]
fn every_source_has_to_report_headroom() {
    let mut fixture = Fixture::of(&ELASTIC.replace("[reported]", "[host, reported]"));
    // The host reports none.
    assert_eq!(spend(&mut fixture, &Reported("d"), &[ANN]), 10);
    let view = fixture.rules.elastic_rules(&Reported("d")).next().unwrap();
    let sources = [
        (HeadroomSource::Host, false),
        (HeadroomSource::Reported, true),
    ];
    assert_eq!(
        (view.has_headroom, &*view.sources),
        (Some(false), &sources[..])
    );
    let view = RuleView {
        has_headroom: Some(true),
        ..view
    };
    assert_eq!(view.available(), Some(15));
}

#[test]
fn a_reload_keeps_what_was_used() {
    let mut fixture = Fixture::new(clean(&domain("{key: user, rate_limit: 10/day}")));
    for _ in 0..6 {
        assert!(fixture.is_allowed(ANN));
    }
    assert_eq!(fixture.reload(load(&domain(ELASTIC))).changed.len(), 1);
    assert_eq!(spend(&mut fixture, &Reported("d"), &[ANN]), 9);
    fixture.reload(load(&domain("{key: user, rate_limit: 20/day}")));
    assert_eq!(spend(&mut fixture, &Reported("d"), &[ANN]), 5);
}

#[test]
fn a_charge_is_settled_by_the_headroom_of_then() {
    let fixture = Fixture::of(ELASTIC);
    let request = request(&[ANN]);
    let rule = fixture.resolve(&request).charged_rules().next().unwrap();
    let read = ChargedRule::from_bytes(&rule.to_bytes().unwrap()).unwrap();
    for rule in [rule, read] {
        let available = |headroom: &dyn Headroom| {
            let charge = rule.charge(SETTLED, &fixture.rules, headroom).unwrap();
            charge.limit.available()
        };
        assert_eq!(available(&NoHeadroom), 10);
        assert_eq!(available(&Reported("d")), 15);
    }
}

#[test]
fn elastic_rules_are_listed() {
    let fixture = Fixture::of(ELASTIC);
    let reported = HeadroomSource::Reported;
    assert!(fixture.rules.uses_headroom("d", reported));
    assert!(!fixture.rules.uses_headroom("e", reported));
    assert!(!fixture.rules.uses_headroom("d", HeadroomSource::Host));
    let domains: Vec<&str> = fixture.rules.domains_with_headroom(reported).collect();
    assert_eq!(domains, ["d"]);
    for (headroom, has_headroom) in [(Reported("d"), true), (Reported("e"), false)] {
        let mut rules = fixture.rules.elastic_rules(&headroom);
        let only = rules.next().unwrap();
        assert_eq!(
            (&*only.rule.path, only.has_headroom),
            ("user", Some(has_headroom))
        );
        assert_eq!(only.sources, [(reported, has_headroom)]);
        assert!(rules.next().is_none());
    }
}
