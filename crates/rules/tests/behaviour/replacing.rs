//! `name` and `replaces`.

use crate::fixture::{Fixture, Pairs};

const RULES: &str = "
    {key: a, rate_limit: {requests_per_unit: 1, unit: second, name: a, replaces: [{name: b}]}}
    {key: b, rate_limit: {requests_per_unit: 1, unit: second, name: b, replaces: [{name: c}]}}
    {key: c, rate_limit: {requests_per_unit: 1, unit: second, name: c}}
    {key: u, rate_limit: {unlimited: true, replaces: [{name: c}]}}
    {key: x, rate_limit: {requests_per_unit: 1, unit: second, name: x, replaces: [{name: y}]}}
    {key: y, rate_limit: {requests_per_unit: 1, unit: second, name: y, replaces: [{name: z}]}}
    {key: z, rate_limit: {requests_per_unit: 1, unit: second, name: z, replaces: [{name: x}]}}
    {key: c2, rate_limit: {requests_per_unit: 1, unit: second, name: c}}";

fn matched_rules(keys: &[&'static str]) -> Vec<String> {
    let pairs: Vec<[(&str, &str); 1]> = keys.iter().map(|key| [(*key, "1")]).collect();
    let pairs: Vec<Pairs<'_>> = pairs.iter().map(|pair| &pair[..]).collect();
    Fixture::of(RULES).matched_rules(&pairs)
}

#[test]
fn a_replaced_limit_steps_aside_wherever_it_stands() {
    assert_eq!(matched_rules(&["a", "b"]), ["a", "-"]);
    assert_eq!(matched_rules(&["b", "a"]), ["-", "a"]);
    assert_eq!(matched_rules(&["a"]), ["a"]);
    assert_eq!(matched_rules(&["a", "c"]), ["a", "c"]);
}

#[test]
fn all_limits_of_the_name_step_aside() {
    assert_eq!(matched_rules(&["c", "b", "c2", "c"]), ["-", "b", "-", "-"]);
}

#[test]
fn a_replaced_limit_still_replaces() {
    assert_eq!(matched_rules(&["a", "b", "c"]), ["a", "-", "-"]);
}

#[test]
fn an_unlimited_rule_replaces() {
    assert_eq!(matched_rules(&["c", "u"]), ["-", "*u"]);
}

#[test]
fn of_a_circle_the_first_stays() {
    assert_eq!(matched_rules(&["x", "y", "z"]), ["x", "-", "-"]);
    assert_eq!(matched_rules(&["z", "y", "x"]), ["z", "-", "-"]);
    assert_eq!(matched_rules(&["y", "z"]), ["y", "-"]);
    assert_eq!(matched_rules(&["z", "y"]), ["-", "y"]);
}

#[test]
fn a_rule_met_twice_does_not_replace_itself() {
    assert_eq!(matched_rules(&["x", "x"]), ["x", "x"]);
}

#[test]
fn a_replaced_limit_is_not_charged() {
    let mut fixture = Fixture::of(RULES);
    let both: [Pairs<'_>; 2] = [&[("a", "1")], &[("b", "1")]];
    assert!(fixture.answer(&crate::fixture::request(&both)).is_allowed());
    assert!(fixture.is_allowed(&[("b", "1")]));
    assert!(!fixture.is_allowed(&[("b", "1")]));
}
