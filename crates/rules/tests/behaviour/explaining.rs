//! An explanation says what the look-up of a decision does: both are held to each other, and to a
//! plain search through the same rules.

use std::fmt::Write as _;

use tollgate_behaviour::{Random, check};
use tollgate_core::{Descriptor, Entry, Override, Request, Span, Status};
use tollgate_rules::{CandidateOutcome, Finding, NoHeadroom, RuleSet, Walk};

use crate::fixture::{Fixture, Numbers, descriptor, domain, load, request};

const KEYS: [&str; 3] = ["a", "b", "c"];
/// Written values; none of the two with a star covers the other.
const WRITTEN: [Option<&str>; 5] = [Some("x"), Some("xy"), Some("x*"), Some("*y"), None];
const VALUES: [&str; 5] = ["x", "xy", "xz", "zy", "q"];
const CASES: u64 = 300;

/// A descriptor of a file, as it is generated.
struct Made {
    key: &'static str,
    value: Option<&'static str>,
    has_rule: bool,
    line: u32,
    below: Vec<Made>,
}

/// The line of each candidate of a look-up, and its outcome.
type Outcomes = Vec<(u32, CandidateOutcome)>;

/// A file while it is generated.
struct File {
    text: String,
    lines: u32,
}

// === impl File ===

impl File {
    fn line(&mut self, depth: usize, text: &str) -> u32 {
        writeln!(self.text, "{}{text}", "    ".repeat(depth)).unwrap();
        self.lines += 1;
        self.lines
    }

    fn level(&mut self, random: &mut Random, depth: usize) -> Vec<Made> {
        let mut level: Vec<Made> = Vec::new();
        for _ in 0..random.between(1, 5) {
            let (key, value) = (random.pick(&KEYS), random.pick(&WRITTEN));
            let is_known = |one: &Made| one.key == key && one.value == value;
            if level.iter().any(is_known) {
                continue;
            }
            let line = self.line(depth, &format!("- key: {key}"));
            if let Some(value) = value {
                self.line(depth, &format!("  value: \"{value}\""));
            }
            let has_rule = random.chance(60);
            if has_rule {
                self.line(depth, "  rate_limit: 3/minute");
            }
            let mut below = Vec::new();
            if depth < 2 && (random.chance(60) || !has_rule) {
                self.line(depth, "  descriptors:");
                below = self.level(random, depth + 1);
            }
            level.push(Made {
                key,
                value,
                has_rule,
                line,
                below,
            });
        }
        level
    }
}

/// The line of each descriptor that a plain search compares, and whether it matches; and where all
/// entries lead to.
fn search<'m>(mut level: &'m [Made], entries: &[Entry<'_>]) -> (Vec<Outcomes>, Option<&'m Made>) {
    let (mut compared, mut found) = (Vec::new(), None);
    for entry in entries {
        let mut candidates: Vec<&Made> = Vec::new();
        let of_key = || level.iter().filter(|one| one.key.as_bytes() == entry.key);
        let star = |one: &&Made| one.value.is_some_and(|value| value.contains('*'));
        candidates.extend(of_key().filter(|one| one.value.is_some() && !star(one)));
        candidates.extend(of_key().filter(star));
        candidates.extend(of_key().filter(|one| one.value.is_none()));
        let first = candidates
            .iter()
            .position(|one| fits(one.value, entry.value));
        let is_exact =
            |index: usize| candidates[index].value.is_some() && !star(&candidates[index]);
        let outcomes = (0..candidates.len()).map(|index| {
            let outcome = match first {
                Some(first) if index == first => CandidateOutcome::Matches,
                // One look-up compares all values without stars.
                Some(first) if index > first && !(is_exact(index) && is_exact(first)) => {
                    CandidateOutcome::NotTried
                }
                _ => CandidateOutcome::Differs,
            };
            (candidates[index].line, outcome)
        });
        compared.push(outcomes.collect());
        let Some(first) = first else {
            return (compared, None);
        };
        found = Some(candidates[first]);
        level = &candidates[first].below;
    }
    (compared, found)
}

fn fits(written: Option<&str>, value: &[u8]) -> bool {
    match written {
        None => true,
        Some("x*") => value.starts_with(b"x"),
        Some("*y") => value.ends_with(b"y"),
        Some(written) => written.as_bytes() == value,
    }
}

/// The lines of the candidates of each look-up, and their outcomes.
fn outcomes(walk: &Walk) -> Vec<Outcomes> {
    let look_ups = walk.look_ups.iter();
    let outcomes = look_ups.map(|look_up| {
        let candidates = look_up.candidates.iter();
        let outcomes = candidates.map(|candidate| (candidate.written.line, candidate.outcome));
        outcomes.collect()
    });
    outcomes.collect()
}

fn random_request(random: &mut Random) -> Request<'static> {
    let descriptors = (0..random.between(1, 3)).map(|_| {
        let mut entries: Vec<Entry<'static>> = Vec::new();
        let is_unordered = random.chance(40);
        for _ in 0..random.between(1, 4) {
            let (key, value) = (random.pick(&KEYS), random.pick(&VALUES));
            let is_known = entries.iter().any(|entry| entry.key == key.as_bytes());
            if !(is_unordered && is_known) {
                let (key, value) = (key.as_bytes(), value.as_bytes());
                entries.push(Entry { key, value });
            }
        }
        Descriptor {
            entries: entries.into(),
            is_unordered,
            ..Descriptor::default()
        }
    });
    let descriptors = descriptors.collect();
    Request {
        descriptors,
        ..request(&[])
    }
}

#[test]
fn an_explanation_equals_the_look_up_of_a_decision() {
    let (mut met, mut missed) = (0, 0);
    check("explanation", CASES, |random| {
        let text = "domain: d\ndescriptors:\n".to_owned();
        let mut file = File { text, lines: 2 };
        let made = file.level(random, 0);
        let loaded = load(&file.text);
        assert!(!loaded.has_errors(), "{:?}", loaded.diagnostics);
        for _ in 0..20 {
            let request = random_request(random);
            let (rules, numbers) = (loaded.rules.clone(), Numbers::default());
            let explained = rules.explain(&request, &numbers, &NoHeadroom);
            let resolved = rules.resolve(&request, &numbers);
            let keys = |charges: &[tollgate_core::Charge<'_>]| {
                charges.iter().map(|charge| charge.key).collect::<Vec<_>>()
            };
            assert_eq!(
                keys(&explained.resolved.charges()),
                keys(&resolved.charges())
            );
            let statuses = resolved.answer(&all_allowed(&resolved)).statuses;
            assert_eq!(statuses.len(), explained.findings.len());
            let parts = request.descriptors.iter().zip(&statuses);
            for ((descriptor, status), (walk, finding)) in parts.zip(&explained.findings) {
                match (status, finding) {
                    (Status::Limited(limited), Finding::Rule(view)) => {
                        assert_eq!(limited.rule, view.rule);
                        met += 1;
                    }
                    (Status::NoLimit, Finding::NoMatch | Finding::NoLimit) => missed += 1,
                    pair => panic!("{pair:?}\n{}", file.text),
                }
                if !descriptor.is_unordered {
                    check_walk(&made, descriptor, walk, finding, &file.text);
                }
            }
        }
    });
    assert!(met > 1_000 && missed > 1_000, "{met} met, {missed} missed");
}

fn check_walk(
    made: &[Made],
    descriptor: &Descriptor<'_>,
    walk: &Walk,
    finding: &Finding,
    text: &str,
) {
    let (compared, found) = search(made, &descriptor.entries);
    assert_eq!(outcomes(walk), compared, "{descriptor:?}\n{text}");
    let depths = walk.look_ups.iter().map(|look_up| look_up.depth);
    assert!(depths.eq(0..walk.look_ups.len()), "{walk:?}");
    let line = match finding {
        Finding::Rule(view) => Some(view.line),
        _ => None,
    };
    let rule = found.filter(|made| made.has_rule);
    assert_eq!(line, rule.map(|made| made.line), "{descriptor:?}\n{text}");
    let arrival = walk.arrivals.first();
    assert_eq!(
        arrival.map(|arrival| arrival.written.line),
        found.map(|made| made.line)
    );
    if let (Some(arrival), Some(found)) = (arrival, found) {
        let deeper: Vec<u32> = arrival.deeper.iter().map(|one| one.line).collect();
        let below: Vec<u32> = found.below.iter().map(|made| made.line).collect();
        assert_eq!(deeper, below, "{text}");
    }
}

fn all_allowed(resolved: &tollgate_rules::Resolved<'_>) -> tollgate_core::Verdict {
    let charges = resolved.charges().len();
    let allowed = tollgate_core::Decision::allowed(1);
    tollgate_core::Verdict::new(tollgate_core::PerCharge::from_elem(allowed, charges), None)
}

/// The rules of domain `d` with these descriptors.
fn rules(descriptors: &str) -> RuleSet {
    load(&domain(descriptors)).rules
}

#[test]
fn an_entry_whose_key_no_descriptor_has_names_those_that_there_are() {
    let rules = rules("{key: user, rate_limit: 1/s}\n{key: path, value: /x, rate_limit: 1/s}");
    let asked = request(&[&[("usr", "ann")]]);
    let explained = rules.explain(&asked, &Numbers::default(), &NoHeadroom);
    let (walk, finding) = &explained.findings[0];
    assert_eq!(*finding, Finding::NoMatch);
    let others = walk.look_ups[0].others.iter();
    let others: Vec<(&str, u32)> = others.map(|one| (&*one.key, one.line)).collect();
    assert_eq!(others, [("user", 3), ("path", 4)]);
    assert!(walk.arrivals.is_empty());
}

#[test]
fn a_replaced_rule_names_the_one_that_replaces_it() {
    let fixture = Fixture::of(
        "{key: a, rate_limit: {name: one, unit: second, requests_per_unit: 1}}
         {key: b, rate_limit: {name: two, unit: second, requests_per_unit: 1, \
         replaces: [{name: one}]}}",
    );
    let asked = request(&[&[("a", "1")], &[("b", "2")]]);
    let explained = fixture.rules.explain(&asked, &fixture.numbers, &NoHeadroom);
    let Finding::Replaced { rule, by } = &explained.findings[0].1 else {
        panic!("{:?}", explained.findings);
    };
    assert_eq!((rule.rule.shown(), by.rule.shown()), ("one", "two"));
    assert!(matches!(explained.findings[1].1, Finding::Rule(_)));
}

#[test]
fn a_limit_of_the_request_itself_is_no_rule() {
    let rules = rules("{key: a, rate_limit: 1/s}");
    let limit = Override {
        count: 7,
        window: Span::MINUTE,
    };
    let own = Descriptor {
        limit: Some(limit),
        ..descriptor(&[("a", "1")])
    };
    let asked = Request {
        descriptors: vec![own].into(),
        ..request(&[])
    };
    let explained = rules.explain(&asked, &Numbers::default(), &NoHeadroom);
    let (walk, finding) = &explained.findings[0];
    assert!(matches!(finding, Finding::OwnLimit { limit, .. } if limit.count() == 7));
    assert_eq!(*walk, Walk::default());
}

#[test]
fn what_is_shown_of_many_candidates_is_bounded_and_has_the_one_that_matches() {
    let mut descriptors = String::new();
    for index in 0..100 {
        writeln!(descriptors, "{{key: a, value: v{index}, rate_limit: 1/s}}").unwrap();
    }
    let rules = rules(&descriptors);
    let asked = request(&[&[("a", "v70")], &[("b", "x")]]);
    let explained = rules.explain(&asked, &Numbers::default(), &NoHeadroom);
    let look_up = &explained.findings[0].0.look_ups[0];
    assert_eq!((look_up.candidates.len(), look_up.omitted), (17, 83));
    let last = look_up.candidates.last().unwrap();
    assert_eq!(last.outcome, CandidateOutcome::Matches);
    assert_eq!(last.written.value.as_deref(), Some("v70"));
    let other = &explained.findings[1].0.look_ups[0];
    assert_eq!((other.others.len(), other.others_omitted), (16, 84));
}

#[test]
fn candidates_are_shown_in_the_order_of_the_file_on_one_line_too() {
    let items = (0..100).map(|index| format!("{{key: a, value: v{index}, rate_limit: 1/s}}"));
    let items: Vec<String> = items.collect();
    let text = format!("domain: d\ndescriptors: [{}]\n", items.join(", "));
    let rules = load(&text).rules;
    let asked = request(&[&[("a", "x")], &[("b", "x")]]);
    let explained = rules.explain(&asked, &Numbers::default(), &NoHeadroom);
    let expected: Vec<String> = (0..16).map(|index| format!("v{index}")).collect();
    let [(walk, _), (other, _)] = &explained.findings[..] else {
        panic!("{:?}", explained.findings);
    };
    let candidates = walk.look_ups[0].candidates.iter();
    let values = candidates.map(|one| one.written.value.as_deref().unwrap());
    assert!(values.eq(expected.iter()), "{walk:?}");
    let others = other.look_ups[0].others.iter();
    let values = others.map(|one| one.value.as_deref().unwrap());
    assert!(values.eq(expected.iter()), "{other:?}");
}

/// A match after the first ones, of each kind, beside values that are not compared.
#[test]
fn a_match_beyond_those_that_are_shown_is_shown_last() {
    let mut descriptors = String::new();
    for index in 0..20 {
        writeln!(descriptors, "{{key: a, value: v{index}, rate_limit: 1/s}}").unwrap();
        writeln!(
            descriptors,
            "{{key: a, value: p{index}-*, rate_limit: 1/s}}"
        )
        .unwrap();
        writeln!(
            descriptors,
            "{{key: b, value: p{index}-*, rate_limit: 1/s}}"
        )
        .unwrap();
    }
    let rules = rules(&format!("{descriptors}{{key: a, rate_limit: 1/s}}"));
    for (key, value, shown, omitted, matching) in [
        ("a", "v3", 16, 25, Some("v3")),
        ("a", "v19", 17, 24, Some("v19")),
        ("a", "p19-x", 17, 24, Some("p19-*")),
        ("a", "x", 17, 24, None),
        ("b", "p3-x", 16, 4, Some("p3-*")),
        ("b", "p19-x", 17, 3, Some("p19-*")),
    ] {
        let pairs = [(key, value)];
        let asked = request(&[&pairs]);
        let explained = rules.explain(&asked, &Numbers::default(), &NoHeadroom);
        let look_up = &explained.findings[0].0.look_ups[0];
        let candidates = &look_up.candidates;
        assert_eq!((candidates.len(), look_up.omitted), (shown, omitted));
        let mut found = candidates.iter();
        let found = found.find(|one| one.outcome == CandidateOutcome::Matches);
        assert_eq!(found.unwrap().written.value.as_deref(), matching, "{value}");
        if shown > 16 {
            let last = candidates.last().unwrap();
            assert_eq!(last.outcome, CandidateOutcome::Matches, "{value}");
        }
    }
}

#[test]
fn a_search_in_any_order_is_bounded_too() {
    // Nine entries lead to 9 * 8 * 7 descriptors of the file.
    let keys = ["k1", "k2", "k3", "k4", "k5", "k6", "k7", "k8", "k9"];
    let mut text = "domain: d\ndescriptors:\n".to_owned();
    for one in keys {
        writeln!(text, "  - key: {one}\n    descriptors:").unwrap();
        for two in keys.iter().filter(|two| **two != one) {
            writeln!(text, "      - {{key: {two}, rate_limit: 1/s}}").unwrap();
        }
    }
    let rules = load(&text).rules;
    let entries: Vec<(&str, &str)> = keys.iter().map(|key| (*key, "v")).collect();
    let all = Descriptor {
        is_unordered: true,
        ..descriptor(&entries)
    };
    let two = Descriptor {
        is_unordered: true,
        ..descriptor(&entries[..2])
    };
    let asked = Request {
        descriptors: vec![all, two].into(),
        ..request(&[])
    };
    let explained = rules.explain(&asked, &Numbers::default(), &NoHeadroom);
    let (walk, finding) = &explained.findings[0];
    assert_eq!(
        (walk.look_ups.len(), *finding == Finding::NoMatch),
        (64, true)
    );
    assert!(walk.omitted > 0);
    let (walk, finding) = &explained.findings[1];
    assert_eq!(walk.arrivals.len(), 2, "{walk:?}");
    let Finding::Rule(view) = finding else {
        panic!("{finding:?}");
    };
    assert_eq!(view.rule.path, "k1.k2");
}

#[test]
fn a_descriptor_that_states_the_priority_is_no_missed_rule() {
    let reserved = "{requests_per_unit: 10, unit: day, reserved: {share: 20%, for: [critical]}}";
    let rules = rules(&format!("{{key: user, rate_limit: {reserved}}}"));
    let asked = request(&[&[("priority", "low")], &[("user", "ann")]]);
    let explained = rules.explain(&asked, &Numbers::default(), &NoHeadroom);
    assert_eq!(explained.findings[0].1, Finding::Priority);
    let Finding::Rule(view) = &explained.findings[1].1 else {
        panic!("{explained:?}");
    };
    assert_eq!(
        view.text,
        "10 per 1d fixed_window reserved 20% for critical"
    );
}
