#![allow(clippy::unwrap_used)]

use allocation_counter::measure;
use prost::encoding;
use tollgate_core::{Entry as Described, InvalidRequest};

use super::*;
use crate::open_descriptor::REST_KEY;
use crate::rate_limit_descriptor::Entry;

/// The bytes of a large message.
const MESSAGE_BYTES: usize = 2 << 20;
/// The most that is allocated for it beside its values. The library takes 29 MB to 176 MB.
const BYTES_MAX: u64 = 3 << 20;
/// A descriptor that can be decided on: `k: v`.
const GOOD: &[u8] = b"\x12\x08\x0a\x06\x0a\x01k\x12\x01v";
/// An entry of the same.
const ENTRY: &[u8] = b"\x0a\x06\x0a\x01k\x12\x01v";

/// A field with a value of its own length.
fn field(key: u8, value: &[u8]) -> Vec<u8> {
    let mut out = vec![key];
    encoding::encode_varint(u64::try_from(value.len()).unwrap(), &mut out);
    [out, value.to_vec()].concat()
}

/// A request for the domain `d` with these fields.
fn request(fields: &[&[u8]]) -> Vec<u8> {
    [&[&b"\x0a\x01d"[..]], fields].concat().concat()
}

fn entry(number: usize) -> Entry {
    let value = number.to_string().into();
    let key = Bytes::from_static(b"k");
    Entry { key, value }
}

fn with_entries(count: usize) -> RateLimitRequest {
    let descriptor = RateLimitDescriptor {
        entries: (0..count).map(entry).collect(),
        hits_addend: Some(3.into()),
        ..RateLimitDescriptor::default()
    };
    RateLimitRequest {
        domain: Bytes::from_static(b"d"),
        descriptors: vec![descriptor; 2],
        hits_addend: 7,
    }
}

fn read(message: &RateLimitRequest) -> BoundedRequest {
    BoundedRequest::decode(message.encode_to_vec().into()).unwrap()
}

#[test]
fn hollow_messages_take_no_more_than_their_bounds() {
    let descriptors = b"\x12\x00".repeat(MESSAGE_BYTES / 2);
    let entries = field(
        0x12,
        &[ENTRY, &b"\x0a\x00".repeat(MESSAGE_BYTES / 2)].concat(),
    );
    let keyed = field(0x12, &b"\x0a\x03\x0a\x01k".repeat(MESSAGE_BYTES / 5));
    // As many of them as there may be, each as long as fits.
    let each = field(0x12, &b"\x0a\x03\x0a\x01k".repeat(MESSAGE_BYTES / 5 / 128));
    let cases = [
        (
            request(&[&GOOD.repeat(128), &descriptors]),
            128,
            MESSAGE_BYTES / 2,
        ),
        (request(&[&descriptors, b"\x12\x7f"]), 0, 0),
        (request(&[&entries]), 1, 0),
        (request(&[&keyed]), 1, 0),
        (request(&[&each.repeat(128)]), 128, 0),
    ];
    for (number, (message, descriptors, left_out)) in cases.into_iter().enumerate() {
        let mut decoded = None;
        let message = Bytes::from(message);
        let counted = measure(|| decoded = Some(BoundedRequest::decode(message.clone())));
        // The values hold the entries that are not read one by one, in a buffer that grows.
        let most = BYTES_MAX + u64::try_from(message.len() * 3).unwrap();
        assert!(
            counted.bytes_max < most,
            "{number}: {} bytes",
            counted.bytes_max
        );
        match decoded.unwrap() {
            Ok(read) => {
                assert_eq!(read.message.descriptors.len(), descriptors, "{number}");
                assert_eq!(read.left_out, left_out, "{number}");
            }
            Err(_) => assert_eq!(descriptors, 0, "{number}"),
        }
    }
}

#[test]
fn hollow_json_takes_no_more_than_its_bounds() {
    let descriptors = vec!["{}"; 80_000].join(",");
    let entries = vec!["{}"; 80_000].join(",");
    let cases = [
        format!(r#"{{"domain":"d","descriptors":[{descriptors}]}}"#),
        format!(r#"{{"domain":"d","descriptors":[{{"entries":[{entries}]}}]}}"#),
    ];
    for json in cases {
        let counted = measure(|| drop(crate::read(json.as_bytes()).unwrap()));
        assert!(counted.bytes_max < 500_000, "{} bytes", counted.bytes_max);
    }
    let json = format!(r#"{{"domain":"d","descriptors":[{descriptors}]}}"#);
    assert_eq!(crate::read(json.as_bytes()).unwrap().left_out, 80_000 - 128);
    // What is left out is checked.
    let json = json.replace("{}]", r#"{"x":1}]"#);
    assert!(crate::read(json.as_bytes()).is_err());
}

#[test]
fn within_the_bounds_all_is_read() {
    for count in [0, 1, 20, 127, ENTRIES_READ_MAX] {
        let message = with_entries(count);
        let read = read(&message);
        assert_eq!((read.message, read.left_out), (message, 0), "{count}");
    }
    let mut message = with_entries(30);
    message
        .descriptors
        .resize(128, message.descriptors[0].clone());
    assert_eq!(read(&message).message, message);
}

#[test]
fn entries_beyond_the_bound_still_tell_descriptors_apart() {
    let long = with_entries(ENTRIES_READ_MAX + 3);
    let whole = read(&long);
    let entries = &whole.message.descriptors[0].entries;
    assert_eq!(entries.len(), ENTRIES_READ_MAX + 1);
    assert_eq!(
        entries[..ENTRIES_READ_MAX],
        long.descriptors[0].entries[..ENTRIES_READ_MAX]
    );
    assert_eq!(whole.message.descriptors[0].hits_addend, Some(3.into()));
    assert!(crate::request(&whole.message).is_ok());
    // One byte more or less, and a boundary elsewhere.
    let rest = |change: fn(&mut Vec<Entry>)| {
        let mut other = long.clone();
        change(&mut other.descriptors[0].entries);
        read(&other).message.descriptors[0].entries.clone()
    };
    let differ: [fn(&mut Vec<Entry>); 4] = [
        |entries| entries[130].value = b"130x"[..].into(),
        |entries| entries.truncate(130),
        |entries| entries.swap(129, 130),
        |entries| entries[129].key = b"k1"[..].into(),
    ];
    for (number, change) in differ.into_iter().enumerate() {
        assert_ne!(&rest(change), entries, "{number}");
    }
    // The same in JSON.
    let entries: Vec<_> = (0..ENTRIES_READ_MAX + 3)
        .map(|number| format!(r#"{{"key":"k","value":"{number}"}}"#))
        .collect();
    let one = format!(r#"{{"hitsAddend":3,"entries":[{}]}}"#, entries.join(","));
    let json = format!(r#"{{"domain":"d","hitsAddend":7,"descriptors":[{one},{one}]}}"#);
    assert_eq!(crate::read(json.as_bytes()).unwrap(), whole);
}

#[test]
fn fields_in_pieces_and_unknown_fields_are_read_as_the_library_does() {
    let long = b"v".repeat(300);
    let value = field(0x0a, &[field(0x0a, b"k"), field(0x12, &long)].concat());
    let limit = [&b"\x12\x02\x08\x05"[..], &value, b"\x12\x02\x10\x02"].concat();
    let descriptor = field(0x12, &[&limit[..], b"\x20\x01\x1a\x02\x08\x04"].concat());
    let unknown = b"\x28\x01\x32\x02ab\x3b\x08\x01\x3c\x45aaaa\x49aaaaaaaa";
    let message = request(&[
        &descriptor,
        unknown,
        GOOD,
        b"\x18\x05",
        b"\x0a\x01e",
        b"\x18\x06",
    ]);
    let read = BoundedRequest::decode(message.clone().into()).unwrap();
    assert_eq!(Ok(read.message), RateLimitRequest::decode(&message[..]));
    // Whatever byte is cut off or changed.
    for at in 0..message.len() {
        let mut changed = message.clone();
        changed[at] ^= 0x41;
        for message in [&message[..at], &changed[..]] {
            let read = BoundedRequest::decode(message.to_vec().into()).map(|read| read.message);
            assert_eq!(read.ok(), RateLimitRequest::decode(message).ok(), "{at}");
        }
    }
}

#[test]
fn an_entry_without_a_key_is_an_error_within_the_bound() {
    let hollow = request(&[&field(0x12, &[ENTRY, &b"\x0a\x00".repeat(300)].concat())]);
    let read = BoundedRequest::decode(hollow.into()).unwrap();
    let error = crate::request(&read.message).unwrap_err();
    let expected = InvalidRequest::EmptyKey {
        descriptor: 0,
        entry: 1,
    };
    assert_eq!(error, expected);
    // Beyond it, entries are not looked at: the request is decided.
    let hollow = [&ENTRY.repeat(ENTRIES_READ_MAX)[..], b"\x0a\x00"].concat();
    let read = BoundedRequest::decode(request(&[&field(0x12, &hollow)]).into()).unwrap();
    let request = crate::request(&read.message).unwrap();
    let last = request.descriptors[0].entries.last().unwrap();
    let expected = Described {
        key: &REST_KEY,
        value: b"\x0a\x00",
    };
    assert_eq!(*last, expected);
}
