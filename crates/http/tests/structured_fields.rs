//! `RateLimit` and `RateLimit-Policy` as a parser of structured fields (RFC 9651) reads them.

#![allow(clippy::unwrap_used)]

use std::collections::BTreeMap;
use std::sync::Arc;

use http::{HeaderMap, HeaderName, Method};
use sfv::{BareItem, List, ListEntry, Parser};
use tollgate_behaviour::{Random, check};
use tollgate_core::{
    Answer, Decision, Denial, DenialReason, Enforcement, Grant, Limit, Limited, RequestDenial,
    RuleName, Span, Status, Wait,
};
use tollgate_http::{
    NAME_BYTES_MAX, POLICIES_MAX, RATE_LIMIT, RATE_LIMIT_POLICY, Responder, headers,
};

/// The draft's keys are all integers here: `qu` and `pk` are never sent.
type Parameters = BTreeMap<String, i64>;

/// The seconds of a wait or a window, of which there is at least one.
const SECS_MAX: u64 = 1_000_000_000;
/// Characters that mean something in a string, a list or a percent-encoding, and others.
const CHARS: [char; 16] = [
    '"', '\\', '%', ',', ';', '=', '(', ')', ' ', '\t', '\n', '\0', '\u{7f}', 'ü', '限', '🚦',
];

/// A list of strings with parameters, and nothing else.
fn items(headers: &HeaderMap, name: &HeaderName) -> Vec<(String, Parameters)> {
    assert_eq!(headers.get_all(name).iter().count(), 1, "{headers:?}");
    let list: List = Parser::new(headers[name].as_bytes()).parse().unwrap();
    let item = |entry: ListEntry| match entry {
        ListEntry::Item(item) => item,
        ListEntry::InnerList(list) => panic!("an inner list: {list:?}"),
    };
    let items = list.into_iter().map(item).map(|item| {
        let BareItem::String(name) = item.bare_item else {
            panic!("no string: {:?}", item.bare_item);
        };
        let parameters = item.params.iter().map(|(key, value)| {
            let value = value.as_integer().unwrap();
            (key.as_str().to_owned(), i64::from(value))
        });
        (name.as_str().to_owned(), parameters.collect())
    });
    items.collect()
}

/// The name of a rule that a header's name stands for.
fn decode(name: &str) -> String {
    let mut bytes = Vec::new();
    let mut rest = name.as_bytes();
    while let Some((first, others)) = rest.split_first() {
        rest = match first {
            b'%' => {
                let digits = std::str::from_utf8(&others[..2]).unwrap();
                bytes.push(u8::from_str_radix(digits, 16).unwrap());
                &others[2..]
            }
            byte => {
                bytes.push(*byte);
                others
            }
        };
    }
    String::from_utf8(bytes).unwrap()
}

fn random_name(random: &mut Random) -> String {
    let length = random.pick(&[0, 1, 3, 20, 200]);
    let char = |random: &mut Random| match random.chance(40) {
        true => random.pick(&CHARS),
        // Any character at all; surrogates are none.
        false if random.chance(20) => {
            char::from_u32(random.small(0, 0x10_ffff)).unwrap_or('\u{fffd}')
        }
        false => char::from(random.pick(b"abcdefgh_-./:09")),
    };
    (0..length).map(|_| char(random)).collect()
}

fn random_limit(random: &mut Random) -> Limit {
    let any = |random: &mut Random, most| u32::try_from(random.any_size(most)).unwrap().max(1);
    let window = Span::from_millis(random.any_size(1_000 * 86_400 * 365).max(1));
    let limit = match random.chance(50) {
        true => Limit::fixed_window(any(random, 1 << 31), window),
        false => Limit::token_bucket(any(random, 1_000), window)
            .and_then(|limit| limit.with_burst(any(random, 1_000))),
    };
    // Some buckets are too slow or too large: a limit that every machine has, in their place.
    limit.unwrap_or_else(|_| Limit::fixed_window(10, Span::MINUTE).unwrap())
}

fn random_span(random: &mut Random) -> Span {
    Span::from_millis(random.any_size(1_000 * SECS_MAX))
}

/// A limit with a random name, and a decision.
fn random_limited(random: &mut Random) -> Limited {
    let limit = random_limit(random);
    let remaining = u32::try_from(random.any_size(u64::from(limit.nominal()))).unwrap();
    let rule = RuleName {
        domain: "d".to_owned(),
        path: random_name(random),
        name: random.chance(50).then(|| random_name(random)),
    };
    Limited {
        rule: Arc::new(rule),
        limit,
        decision: Decision::Allow(Grant::new(remaining, random_span(random))),
        enforcement: Enforcement::Enforce,
    }
}

/// An answer of some limits, one of which may have denied the request.
fn random_answer(random: &mut Random) -> Answer {
    let count = random.small(1, 20);
    let mut statuses: Vec<Limited> = (0..count).map(|_| random_limited(random)).collect();
    let denial = random.chance(50).then(|| {
        let by = usize::try_from(random.small(0, count - 1)).unwrap();
        let wait = match random.chance(80) {
            true => Wait::For(random_span(random)),
            false => Wait::Never,
        };
        statuses[by].decision = Decision::Deny(Denial::new(wait, 0, random_span(random)));
        RequestDenial {
            by,
            wait,
            reason: DenialReason::Exceeded,
        }
    });
    let statuses: Vec<Status> = statuses.into_iter().map(Status::Limited).collect();
    Answer {
        statuses: statuses.into(),
        denial,
        delay: Span::ZERO,
    }
}

/// What a list of structured fields must say about a limit: its name as the rules have it, and the
/// parameters of both headers.
fn check_item(limited: &Limited, [left, policy]: [&(String, Parameters); 2]) {
    assert_eq!(left.0, policy.0, "one name in both headers");
    let shown = limited.rule.shown();
    let cut = shown.floor_char_boundary(NAME_BYTES_MAX);
    assert_eq!(decode(&left.0), shown[..cut]);
    let left: Vec<&str> = left.1.keys().map(String::as_str).collect();
    assert_eq!(left, ["r", "t"]);
    let (policy, limit) = (&policy.1, &limited.limit);
    assert_eq!(policy["q"], i64::from(limit.count()));
    let window = limit.window().as_nanos().div_ceil(1_000_000_000);
    assert_eq!(u64::try_from(policy["w"]).unwrap(), window);
    let burst = policy.get("tollgate-burst").copied();
    let has_burst = limit.nominal() != limit.count();
    assert_eq!(burst, has_burst.then(|| i64::from(limit.nominal())));
    assert_eq!(policy.len(), 2 + usize::from(has_burst), "{policy:?}");
}

/// Limits as the headers list them: the one that denied first.
fn listed(answer: &Answer) -> Vec<&Limited> {
    let mut listed: Vec<&Limited> = Vec::new();
    for limited in answer.denied_by().into_iter().chain(answer.limited()) {
        let is_same = |other: &&Limited| {
            let cut = |name: &str| name.floor_char_boundary(NAME_BYTES_MAX);
            let (one, two) = (limited.rule.shown(), other.rule.shown());
            one[..cut(one)] == two[..cut(two)] && limited.limit == other.limit
        };
        if !listed.iter().any(is_same) && listed.len() < POLICIES_MAX {
            listed.push(limited);
        }
    }
    listed
}

fn check_headers(answer: &Answer, headers: &HeaderMap) {
    let left = items(headers, &RATE_LIMIT);
    let policies = items(headers, &RATE_LIMIT_POLICY);
    let listed = listed(answer);
    assert_eq!([left.len(), policies.len()], [listed.len(); 2]);
    for ((limited, left), policy) in listed.into_iter().zip(&left).zip(&policies) {
        check_item(limited, [left, policy]);
        // Never negative: `parse` takes a sign, the draft none.
        assert!(left.1.values().chain(policy.1.values()).all(|n| *n >= 0));
    }
    if answer.denial.is_some() {
        assert_eq!(left[0].1["r"], 0);
    }
}

#[test]
fn headers_are_lists_of_strings_with_the_drafts_parameters_whatever_the_names() {
    check("structured_fields", 800, |random| {
        let answer = random_answer(random);
        let mut map = HeaderMap::new();
        headers(&answer, &mut map);
        check_headers(&answer, &map);
    });
}

/// As the gateway and the layer make them.
#[test]
fn responses_have_the_same_lists() {
    let responder = Responder::default();
    let now = std::time::Duration::from_secs(1_700_000_000);
    check("structured_responses", 200, |random| {
        let answer = random_answer(random);
        let denial = responder.deny(&answer, now, &Method::GET, &HeaderMap::new());
        let map = match denial {
            Some(response) => response.headers().clone(),
            None => {
                let mut map = HeaderMap::new();
                responder.decorate(&answer, now, &mut map);
                map
            }
        };
        check_headers(&answer, &map);
    });
}
