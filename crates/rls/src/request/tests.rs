#![allow(clippy::unwrap_used)]

use prost::Message;
use tollgate_core::{
    COST_MAX, Cost, DESCRIPTORS_MAX, DOMAIN_BYTES_MAX, ENTRIES_MAX, Entry, InvalidRequest,
    Override, Span,
};

use super::*;
use crate::BoundedRequest;

fn read(json: &str) -> RateLimitRequest {
    serde_json::from_str(json).unwrap()
}

fn rejection(json: &str) -> String {
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
    assert_eq!((request.domain, request.cost), (&b"d"[..], Cost::Take(3)));
    let descriptor = &request.descriptors[0];
    let (key, value) = (&b"k"[..], &b"v"[..]);
    assert_eq!(descriptor.entries[..], [Entry { key, value }]);
    assert_eq!(descriptor.cost, Some(Cost::Refund(7)));
    let (count, window) = (5, Span::HOUR);
    assert_eq!(descriptor.limit, Some(Override { count, window }));
}

#[test]
fn a_message_comes_back_from_its_binary_form() {
    let message = read(
        r#"{"domain":"d","descriptors":[{"entries":[{"key":"k"}],"hitsAddend":"0"},
            {"entries":[{"key":"k","value":"é"}],"limit":{"requestsPerUnit":1,"unit":"YEAR"}}]}"#,
    );
    let decoded = RateLimitRequest::decode(message.encode_to_vec().as_slice()).unwrap();
    assert_eq!(decoded, message);
}

#[test]
fn bytes_that_are_not_utf8_are_read_as_they_are() {
    // On the wire `string` and `bytes` are the same: domain 1, descriptors 2, entries 1.
    let entry = b"\x0a\x02k\xfe\x12\x02v\xff";
    let wire = [b"\x0a\x02d\x80\x12\x0a\x0a\x08".as_slice(), entry].concat();
    let message = RateLimitRequest::decode(wire.as_slice()).unwrap();
    let request = request(&message).unwrap();
    assert_eq!(
        (request.domain, request.domain_name()),
        (&b"d\x80"[..], None)
    );
    let (key, value) = (&b"k\xfe"[..], &b"v\xff"[..]);
    assert_eq!(request.descriptors[0].entries[..], [Entry { key, value }]);
}

#[test]
fn reflection_describes_the_protocol_as_it_is() {
    const TYPE_STRING: i32 = 9;
    let set = prost_types::FileDescriptorSet::decode(crate::DESCRIPTORS).unwrap();
    let messages = set.file.iter().flat_map(|file| &file.message_type);
    let nested = messages.clone().flat_map(|message| &message.nested_type);
    let fields = messages.chain(nested).flat_map(|message| {
        let name = message.name();
        message.field.iter().map(move |field| (name, field))
    });
    let texts = fields.filter(|(message, field)| {
        let is_request = ["RateLimitRequest", "Entry"].contains(message);
        is_request && field.r#type == Some(TYPE_STRING)
    });
    let names: Vec<String> = texts.map(|(_, field)| field.name().to_owned()).collect();
    assert_eq!(names, ["domain", "key", "value"]);
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
        |descriptor: &str| rejection(&format!(r#"{{"domain":"d","descriptors":[{descriptor}]}}"#));
    let entry = r#""entries":[{"key":"k"}]"#;
    assert_eq!(rejection("{}"), "rate limit domain must not be empty");
    assert_eq!(
        rejection(r#"{"domain":"d"}"#),
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
}

#[test]
fn a_unit_that_only_the_binary_form_can_carry_is_rejected() {
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
fn a_domain_has_a_length() {
    let mut message =
        read(r#"{"domain":"d","descriptors":[{"entries":[{"key":"k","value":"v"}]}]}"#);
    message.domain = b"d".repeat(DOMAIN_BYTES_MAX).into();
    assert!(request(&message).is_ok());
    message.domain = b"d".repeat(DOMAIN_BYTES_MAX + 1).into();
    let expected = InvalidRequest::LongDomain { bytes: 1025 };
    assert_eq!(request(&message), Err(expected));
}

#[test]
fn nothing_that_a_client_sends_is_too_large() {
    let mut message =
        read(r#"{"domain":"d","descriptors":[{"entries":[{"key":"k","value":"v"}]}]}"#);
    let descriptor = &mut message.descriptors[0];
    descriptor.entries[0].key = b"k".repeat(1 << 20).into();
    descriptor.entries[0].value = b"v".repeat(1 << 20).into();
    descriptor.entries = vec![descriptor.entries[0].clone(); 33];
    descriptor.hits_addend = Some(u64::MAX.into());
    message.descriptors = vec![message.descriptors[0].clone(); 2];
    message.descriptors[1].is_negative_hits = true;
    let request = request(&message).unwrap();
    assert_eq!(request.descriptors[0].entries.len(), 33);
    let costs: Vec<_> = request.descriptors.iter().map(|one| one.cost).collect();
    assert_eq!(
        costs,
        [Some(Cost::Take(COST_MAX)), Some(Cost::Refund(COST_MAX))]
    );
}

#[test]
fn of_too_many_descriptors_the_first_are_decided_on() {
    let mut message = read(r#"{"domain":"d","descriptors":[{"entries":[{"key":"k"}]}]}"#);
    message.descriptors = vec![message.descriptors[0].clone(); DESCRIPTORS_MAX + 2];
    assert_eq!(
        request(&message).unwrap().descriptors.len(),
        DESCRIPTORS_MAX
    );
    let encoded = message.encode_to_vec();
    assert_eq!(BoundedRequest::decode(encoded.into()).unwrap().left_out, 2);
}

#[test]
fn other_protocols_have_maxima() {
    let message = read(r#"{"domain":"d","descriptors":[{"entries":[{"key":"k","value":"v"}]}]}"#);
    let base = request(&message).unwrap();
    let judge = |change: &dyn Fn(&mut Request<'_>, usize), most: usize| {
        let mut request = base.clone();
        change(&mut request, most);
        assert_eq!(request.check_bounds(), Ok(()));
        let mut request = base.clone();
        change(&mut request, most + 1);
        request.check_bounds().unwrap_err()
    };
    let many = judge(
        &|request, n| request.descriptors = vec![request.descriptors[0].clone(); n].into(),
        DESCRIPTORS_MAX,
    );
    assert_eq!(many, InvalidRequest::ManyDescriptors { count: 129 });
    let many = judge(
        &|request, n| {
            let descriptor = &mut request.descriptors[0];
            descriptor.entries = vec![descriptor.entries[0]; n].into();
        },
        ENTRIES_MAX,
    );
    let (descriptor, count) = (0, 33);
    assert_eq!(many, InvalidRequest::ManyEntries { descriptor, count });
    let most = usize::try_from(COST_MAX).unwrap();
    let huge = judge(
        &|request, n| request.cost = Cost::Take(u64::try_from(n).unwrap()),
        most,
    );
    let (descriptor, units) = (None, COST_MAX + 1);
    assert_eq!(huge, InvalidRequest::HugeCost { descriptor, units });
}
