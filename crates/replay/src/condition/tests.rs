//! Which conditions hold, and what is said about those that are none.

use crate::format::Format;

use super::*;

fn holds(text: &str, denied: u64, events: u64) -> bool {
    let report = Report {
        events,
        denied,
        ..Report::default()
    };
    check(text, &report).holds
}

fn check(text: &str, report: &Report) -> Checked {
    let condition: Condition = text.parse().unwrap();
    condition.check(&Counted {
        report,
        traffic: &Traffic::new(Format::Trace),
        comparison: None,
    })
}

#[test]
fn thresholds_are_compared_exactly() {
    for (text, denied, events, expected) in [
        ("denied > 0.1%", 1, 1000, false),
        ("denied > 0.1%", 1, 999, true),
        ("denied>=0.1 %", 1, 1000, true),
        ("denied >= 33.333333%", 1, 3, true),
        ("denied >= 33.333334%", 1, 3, false),
        ("denied == 0", 0, 0, true),
        ("denied = 0.0", 1, 1, false),
        ("denied != 5", 5, 5, false),
        ("denied < 1.5", 1, 1, true),
        ("denied <= 1", 2, 2, false),
        ("denied > 0%", 0, 0, false),
        ("denied > 99.999999%", u64::MAX, u64::MAX, true),
        ("denied > 100.000%", u64::MAX, u64::MAX, false),
        ("denied > 999999999999999", u64::MAX, u64::MAX, true),
        ("  events   < 10  ", 0, 9, true),
    ] {
        assert_eq!(holds(text, denied, events), expected, "{text}");
    }
}

#[test]
fn nonsense_says_where_it_begins() {
    for (text, column, expected) in [
        ("", 1, "one of events, allowed,"),
        ("  dneied > 1", 3, "one of events,"),
        ("denied", 7, "one of > >="),
        ("denied ~ 1", 8, "one of > >="),
        ("denied >", 9, "a number such as"),
        ("denied > many", 10, "a number such as"),
        ("denied > 1.", 10, "a number such as"),
        ("denied > .1", 10, "a number such as"),
        ("denied > -1", 10, "a number such as"),
        ("denied > 1.0000001", 10, "a number such as"),
        ("denied > 1000000000000000", 10, "a number such as"),
        ("denied > 101%", 10, "a percentage of at most 100%"),
        ("denied > 100.000001 %", 10, "a percentage of at most 100%"),
        ("denied > 1 %%", 13, "the end"),
        ("denied > 1 and more", 12, "the end"),
        ("é > 1", 1, "one of events,"),
    ] {
        let invalid = text.parse::<Condition>().unwrap_err();
        assert_eq!(invalid.column, column, "{text}");
        assert!(invalid.expected.starts_with(expected), "{text}: {invalid}");
    }
}

#[test]
fn a_condition_shows_its_counts() {
    let report = Report {
        events: 12,
        denied: 3,
        ..Report::default()
    };
    let checked = check(" denied > 0.1% ", &report);
    let shown = "denied > 0.1%: 3 of 12 events (25.00%)";
    assert_eq!(checked.to_string(), shown);
    let one = Report {
        events: 1,
        denied: 1,
        ..Report::default()
    };
    let shown = "denied > 0: 1 of 1 event (100.00%)";
    assert_eq!(check("denied > 0", &one).to_string(), shown);
}

#[test]
fn what_limits_do_is_judged_only_if_an_event_met_one() {
    let report = |without_limit| Report {
        events: 5,
        allowed: 5,
        without_limit,
        ..Report::default()
    };
    for (metric, expected) in [
        ("events", true),
        ("without_limit", true),
        ("skipped", true),
        ("allowed", false),
        ("denied", false),
        ("over_soft", false),
        ("delayed", false),
    ] {
        let text = format!("{metric} < 1");
        assert_eq!(check(&text, &report(5)).is_judged, expected, "{metric}");
        assert!(check(&text, &report(4)).is_judged, "{metric}");
    }
}
