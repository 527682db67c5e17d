#![allow(clippy::unwrap_used)]

use prost::Message;
use tollgate_core::{Cost, Entry, Override, Span};

use super::*;

fn read(json: &str) -> RateLimitRequest {
    serde_json::from_str(json).unwrap()
}

fn refusal(json: &str) -> String {
    request(&read(json)).unwrap_err().to_string()
}

#[test]
fn both_spellings_and_both_kinds_of_number_are_read() {
    let camel = read(
        r#"{"domain":"d","descriptors":[{"entries":[{"key":"k","value":"v"}],
            "limit":{"requestsPerUnit":5,"unit":"HOUR"},"hitsAddend":"7","isNegativeHits":true}],
            "hitsAddend":3}"#,
    );
    let snake = read(
        r#"{"domain":"d","descriptors":[{"entries":[{"key":"k","value":"v"}],
            "limit":{"requests_per_unit":"5","unit":3},"hits_addend":7,"is_negative_hits":true}],
            "hits_addend":"3"}"#,
    );
    assert_eq!(camel, snake);
    let request = request(&camel).unwrap();
    assert_eq!((request.domain, request.cost), ("d", Cost::Take(3)));
    let descriptor = &request.descriptors[0];
    let (key, value) = ("k", "v");
    assert_eq!(descriptor.entries, [Entry { key, value }]);
    assert_eq!(descriptor.cost, Some(Cost::Refund(7)));
    let (count, window) = (5, Span::HOUR);
    assert_eq!(descriptor.limit, Some(Override { count, window }));
}

#[test]
fn a_message_comes_back_from_both_its_forms() {
    let message = read(
        r#"{"domain":"d","descriptors":[{"entries":[{"key":"k"}],"hitsAddend":"0"},
            {"entries":[{"key":"k","value":"é"}],"limit":{"requestsPerUnit":1,"unit":"YEAR"}}]}"#,
    );
    let decoded = RateLimitRequest::decode(message.encode_to_vec().as_slice()).unwrap();
    assert_eq!(decoded, message);
    let json = serde_json::to_string(&message).unwrap();
    assert_eq!(read(&json), message);
    assert!(json.contains(r#""hitsAddend":"0""#), "{json}");
}

#[test]
fn costs_are_those_of_the_protocol() {
    let cost = |request_hits: u32, rest: &str| {
        let json = format!(
            r#"{{"domain":"d","descriptors":[{{"entries":[{{"key":"k"}}]{rest}}}],
                "hitsAddend":{request_hits}}}"#
        );
        let message = read(&json);
        let request = request(&message).unwrap();
        request.descriptors[0].cost.unwrap_or(request.cost)
    };
    assert_eq!(cost(0, ""), Cost::ONE);
    assert_eq!(cost(4, ""), Cost::Take(4));
    assert_eq!(cost(4, r#","hitsAddend":2"#), Cost::Take(2));
    assert_eq!(cost(4, r#","hitsAddend":0"#), Cost::Take(0));
    assert_eq!(cost(4, r#","isNegativeHits":true"#), Cost::Refund(4));
    assert_eq!(cost(0, r#","isNegativeHits":true"#), Cost::Refund(1));
    let none = r#","hitsAddend":0,"isNegativeHits":true"#;
    assert_eq!(cost(4, none), Cost::Take(0));
    assert_eq!(cost(u32::MAX, ""), Cost::Take(COST_MAX));
}

#[test]
fn what_cannot_be_decided_says_why() {
    let with =
        |descriptor: &str| refusal(&format!(r#"{{"domain":"d","descriptors":[{descriptor}]}}"#));
    let entry = r#""entries":[{"key":"k"}]"#;
    assert_eq!(refusal("{}"), "rate limit domain must not be empty");
    assert_eq!(
        refusal(r#"{"domain":"d"}"#),
        "rate limit descriptor list must not be empty"
    );
    assert_eq!(
        with("{}"),
        "descriptors[0] has no entries; it needs at least one"
    );
    assert_eq!(
        with(r#"{"entries":[{"key":"k"},{"value":"v"}]}"#),
        "descriptors[0].entries[1] has an empty key; a value may be empty, a key may not"
    );
    assert_eq!(
        with(&format!(r#"{{{entry},"limit":{{"requestsPerUnit":1}}}}"#)),
        "descriptors[0].limit.unit is 0; \
         it must be SECOND, MINUTE, HOUR, DAY, MONTH or YEAR (1 to 6)"
    );
    assert_eq!(
        with(&format!(
            r#"{{{entry},"hitsAddend":"18446744073709551615"}}"#
        )),
        "descriptors[0]: a cost of 18446744073709551615; 4294967295 is the most"
    );
}

#[test]
fn a_unit_that_only_the_binary_form_can_carry_is_refused() {
    let mut message =
        read(r#"{"domain":"d","descriptors":[{"entries":[{"key":"k"}],"limit":{"unit":"DAY"}}]}"#);
    for unit in [-1, 7, 99, i32::MAX] {
        message.descriptors[0].limit.as_mut().unwrap().unit = unit;
        let descriptor = 0;
        let expected = InvalidRequest::UnknownUnit { descriptor, unit };
        assert_eq!(request(&message), Err(expected));
    }
}

#[test]
fn each_maximum_holds_and_one_more_does_not() {
    let base = read(r#"{"domain":"d","descriptors":[{"entries":[{"key":"k","value":"v"}]}]}"#);
    let judge = |change: &dyn Fn(&mut RateLimitRequest, usize), most: usize| {
        let mut message = base.clone();
        change(&mut message, most);
        assert!(request(&message).is_ok());
        let mut message = base.clone();
        change(&mut message, most + 1);
        request(&message).unwrap_err()
    };
    let many = judge(
        &|m, n| m.descriptors = vec![m.descriptors[0].clone(); n],
        DESCRIPTORS_MAX,
    );
    assert_eq!(many, InvalidRequest::ManyDescriptors { count: 129 });
    let many = judge(
        &|m, n| m.descriptors[0].entries = vec![m.descriptors[0].entries[0].clone(); n],
        ENTRIES_MAX,
    );
    let (descriptor, entry) = (0, 0);
    let count = 33;
    assert_eq!(many, InvalidRequest::ManyEntries { descriptor, count });
    let long = judge(&|m, n| m.domain = "d".repeat(n), DOMAIN_BYTES_MAX);
    assert_eq!(long, InvalidRequest::LongDomain { bytes: 1025 });
    let long = judge(
        &|m, n| m.descriptors[0].entries[0].key = "k".repeat(n),
        KEY_BYTES_MAX,
    );
    let bytes = 1025;
    let expected = InvalidRequest::LongKey {
        descriptor,
        entry,
        bytes,
    };
    assert_eq!(long, expected);
    let long = judge(
        &|m, n| m.descriptors[0].entries[0].value = "v".repeat(n),
        VALUE_BYTES_MAX,
    );
    let bytes = 65537;
    let expected = InvalidRequest::LongValue {
        descriptor,
        entry,
        bytes,
    };
    assert_eq!(long, expected);
}
