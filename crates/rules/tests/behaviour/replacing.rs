//! `name` and `replaces`.

use crate::desk::{Desk, Pairs};

const RULES: &str = "
    {key: a, rate_limit: {requests_per_unit: 1, unit: second, name: a, replaces: [{name: b}]}}
    {key: b, rate_limit: {requests_per_unit: 1, unit: second, name: b, replaces: [{name: c}]}}
    {key: c, rate_limit: {requests_per_unit: 1, unit: second, name: c}}
    {key: u, rate_limit: {unlimited: true, replaces: [{name: c}]}}
    {key: x, rate_limit: {requests_per_unit: 1, unit: second, name: x, replaces: [{name: y}]}}
    {key: y, rate_limit: {requests_per_unit: 1, unit: second, name: y, replaces: [{name: z}]}}
    {key: z, rate_limit: {requests_per_unit: 1, unit: second, name: z, replaces: [{name: x}]}}
    {key: c2, rate_limit: {requests_per_unit: 1, unit: second, name: c}}";

fn met(keys: &[&'static str]) -> Vec<String> {
    let pairs: Vec<[(&str, &str); 1]> = keys.iter().map(|key| [(*key, "1")]).collect();
    let pairs: Vec<Pairs<'_>> = pairs.iter().map(|pair| &pair[..]).collect();
    Desk::of(RULES).met(&pairs)
}

#[test]
fn a_replaced_limit_steps_aside_wherever_it_stands() {
    assert_eq!(met(&["a", "b"]), ["a", "-"]);
    assert_eq!(met(&["b", "a"]), ["-", "a"]);
    assert_eq!(met(&["a"]), ["a"]);
    assert_eq!(met(&["a", "c"]), ["a", "c"]);
}

#[test]
fn all_limits_of_the_name_step_aside() {
    assert_eq!(met(&["c", "b", "c2", "c"]), ["-", "b", "-", "-"]);
}

#[test]
fn a_replaced_limit_still_replaces() {
    assert_eq!(met(&["a", "b", "c"]), ["a", "-", "-"]);
}

#[test]
fn an_unlimited_rule_replaces() {
    assert_eq!(met(&["c", "u"]), ["-", "*u"]);
}

#[test]
fn of_a_circle_the_first_stays() {
    assert_eq!(met(&["x", "y", "z"]), ["x", "-", "-"]);
    assert_eq!(met(&["z", "y", "x"]), ["z", "-", "-"]);
    assert_eq!(met(&["y", "z"]), ["y", "-"]);
    assert_eq!(met(&["z", "y"]), ["-", "y"]);
}

#[test]
fn a_rule_met_twice_does_not_replace_itself() {
    assert_eq!(met(&["x", "x"]), ["x", "x"]);
}

#[test]
fn a_replaced_limit_is_not_charged() {
    let mut desk = Desk::of(RULES);
    let both: [Pairs<'_>; 2] = [&[("a", "1")], &[("b", "1")]];
    assert!(desk.answer(&crate::desk::request(&both)).is_allowed());
    assert!(desk.passes(&[("b", "1")]));
    assert!(!desk.passes(&[("b", "1")]));
}
