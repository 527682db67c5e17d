#![allow(clippy::unwrap_used)]

use allocation_counter::measure;
use prost::Message;
use tollgate_behaviour::{Random, check};
use tollgate_core::DESCRIPTORS_MAX;

use super::*;
use crate::RateLimitRequest;

/// The longest header that Envoy accepts, nearly.
const HEADER_BYTES: usize = 60_000;
/// The largest frame of HTTP/2 that the service accepts.
const FRAME_BYTES: usize = 16 * 1024;

fn entry(key: &str, value: &[u8]) -> Entry {
    Entry {
        key: key.to_owned().into(),
        value: Bytes::copy_from_slice(value),
    }
}

fn request(descriptors: Vec<RateLimitDescriptor>) -> RateLimitRequest {
    RateLimitRequest {
        domain: b"shop"[..].into(),
        descriptors,
        hits_addend: 3,
    }
}

fn descriptor(entries: Vec<Entry>) -> RateLimitDescriptor {
    RateLimitDescriptor {
        entries,
        ..RateLimitDescriptor::default()
    }
}

/// As many descriptors as are evaluated, each with the same long header.
fn wide() -> Vec<u8> {
    let header = vec![b'h'; HEADER_BYTES];
    let one = |number: usize| {
        let number = number.to_string();
        descriptor(vec![
            entry("copy", number.as_bytes()),
            entry("header", &header),
        ])
    };
    request((0..DESCRIPTORS_MAX).map(one).collect()).encode_to_vec()
}

/// Reads a message in parts of these lengths, and the rest at once.
fn read(
    mut message: &[u8],
    parts: impl Iterator<Item = usize>,
) -> Result<BoundedRequest, UnreadableMessage> {
    let mut incoming = IncomingRequest::default();
    for part in parts {
        let (part, rest) = message.split_at(part.min(message.len()));
        incoming.push(part)?;
        message = rest;
    }
    incoming.push(message)?;
    incoming.finish()
}

fn any_descriptor(random: &mut Random) -> RateLimitDescriptor {
    let texts: [&[u8]; 5] = [b"", b"k", &[b'a'; 300], &[b'b'; 300], &[b'a'; 301]];
    let entries = (0..random.between(0, 140)).map(|_| Entry {
        key: Bytes::copy_from_slice(random.pick(&texts)),
        value: Bytes::copy_from_slice(random.pick(&texts)),
    });
    RateLimitDescriptor {
        entries: entries.collect(),
        hits_addend: random.chance(50).then(|| random.between(0, 9).into()),
        ..RateLimitDescriptor::default()
    }
}

/// Lengths of parts, which may have more bytes together than there are.
fn any_parts(random: &mut Random, bytes: usize) -> Vec<usize> {
    let most = u64::try_from(bytes).unwrap();
    let part = |_| usize::try_from(random.any_size(most)).unwrap();
    (0..9).map(part).collect()
}

#[test]
fn a_message_in_parts_is_read_as_a_whole_one() {
    check("incoming", 300, |random| {
        let descriptors = (0..random.between(0, 5)).map(|_| any_descriptor(random));
        let message = request(descriptors.collect()).encode_to_vec();
        let parts = any_parts(random, message.len());
        let read = read(&message, parts.into_iter());
        assert_eq!(read.ok(), BoundedRequest::decode(message.into()).ok());
    });
}

#[test]
fn a_message_that_cannot_be_read_is_an_error_in_parts_as_well() {
    check("incoming, broken", 2000, |random| {
        let entries = vec![entry("k", b"v"), entry("long", &[b'v'; 300])];
        let mut message = request(vec![descriptor(entries); 2]).encode_to_vec();
        // A field that the protocol does not have.
        message.extend_from_slice(b"\x3a\x02\x08\x01\x18\x05");
        let at = usize::try_from(random.between(0, 630)).unwrap() % message.len();
        match random.chance(50) {
            true => message[at] ^= random.pick(&[1, 2, 4, 0x41, 0x80]),
            false => message.truncate(at),
        }
        let parts = any_parts(random, message.len());
        let read = read(&message, parts.into_iter());
        if read == Err(UnreadableMessage::Group) {
            return;
        }
        assert_eq!(read.ok(), BoundedRequest::decode(message.into()).ok());
    });
}

#[test]
fn a_group_is_an_error_as_soon_as_it_begins() {
    const GROUP: &[u8] = b"\x3b\x08\x01\x3c";
    let one = descriptor(vec![entry("k", b"v")]).encode_to_vec();
    let mut within = vec![0x12, 100];
    within.extend_from_slice(&one);
    let after = request(vec![descriptor(vec![entry("k", b"v")])]).encode_to_vec();
    for mut message in [Vec::new(), within, after] {
        message.extend_from_slice(&GROUP[..1]);
        let read = read(&message, std::iter::repeat_n(1, message.len()));
        assert_eq!(read, Err(UnreadableMessage::Group), "{message:?}");
    }
}

/// A message of one long descriptor is decided on when its last byte arrives, so most of it must
/// have been read before: each part takes the same work.
#[test]
fn a_long_descriptor_is_read_as_it_arrives() {
    let entries = vec![entry("k", b"v"); 100_000];
    let message = request(vec![descriptor(entries)]).encode_to_vec();
    let mut incoming = IncomingRequest::default();
    for part in message.chunks(FRAME_BYTES) {
        incoming.push(part).unwrap();
        assert!(incoming.pending.len() < 16, "{}", incoming.pending.len());
    }
    let read = incoming.finish().unwrap();
    assert_eq!(Ok(read), BoundedRequest::decode(message.into()));
}

#[test]
fn a_message_that_ends_within_a_descriptor_is_an_error() {
    let one = descriptor(vec![entry("k", b"v"); 200]);
    let message = request(vec![one]).encode_to_vec();
    for length in 0..message.len() {
        let parts = std::iter::repeat_n(100, length / 100);
        let read = read(&message[..length], parts).map_err(|error| error.to_string());
        let whole = BoundedRequest::decode(Bytes::copy_from_slice(&message[..length]));
        assert_eq!(read.is_ok(), whole.is_ok(), "{length}: {read:?}");
    }
}

#[test]
fn more_descriptors_than_are_evaluated_are_counted_in_parts_as_well() {
    let one = descriptor(vec![entry("k", b"v")]);
    let message = request(vec![one; DESCRIPTORS_MAX + 5]).encode_to_vec();
    let read = read(&message, std::iter::repeat_n(7, message.len() / 7)).unwrap();
    assert_eq!(
        (read.message.descriptors.len(), read.left_out),
        (DESCRIPTORS_MAX, 5)
    );
}

#[test]
fn a_header_in_every_descriptor_is_kept_once() {
    let message = wide();
    assert!(message.len() > 100 * HEADER_BYTES);
    let mut incoming = IncomingRequest::default();
    for part in message.chunks(FRAME_BYTES) {
        incoming.push(part).unwrap();
        assert!(incoming.kept_bytes() < 4 * HEADER_BYTES);
    }
    let read = incoming.finish().unwrap();
    assert_eq!(Ok(read), BoundedRequest::decode(message.into()));
}

/// A length-delimited field, and the first byte of the next one.
fn field(number: u32, length: usize) -> Vec<u8> {
    let mut field = BytesMut::new();
    encoding::encode_key(number, WireType::LengthDelimited, &mut field);
    encoding::encode_varint(u64::try_from(length).unwrap(), &mut field);
    field.extend_from_slice(&vec![b'f'; length]);
    field.extend_from_slice(b"\x12");
    field.to_vec()
}

#[test]
fn a_domain_is_counted_once_however_often_it_is_sent() {
    let mut incoming = IncomingRequest::default();
    incoming.push(&field(1, 1_000_000)).unwrap();
    assert!(incoming.kept_bytes() > 1_000_000);
    // The first byte of the next field completes a descriptor, an empty one.
    incoming.push(&[&[0], &field(1, 3)[..]].concat()).unwrap();
    assert!(incoming.kept_bytes() < 1000, "{}", incoming.kept_bytes());
}

#[test]
fn no_more_memory_is_taken_than_is_said() {
    let header = |number: usize| vec![u8::try_from(number).unwrap(); 2000];
    let apart = (0..DESCRIPTORS_MAX).map(|number| descriptor(vec![entry("h", &header(number))]));
    let hollow = vec![descriptor(vec![entry("k", b""); 129]); DESCRIPTORS_MAX];
    for message in [
        wide(),
        request(apart.collect()).encode_to_vec(),
        request(hollow).encode_to_vec(),
        request(vec![descriptor(vec![entry("k", b""); 400_000])]).encode_to_vec(),
        // The domain.
        field(1, 1_000_000),
        // A field that the protocol does not have, in the message and in a descriptor.
        field(99, 1_000_000),
        [b"\x12\xff\xff\xff\x02", &field(99, 1_000_000)[..]].concat(),
    ] {
        let mut incoming = IncomingRequest::default();
        let taken = measure(|| {
            message
                .chunks(FRAME_BYTES)
                .for_each(|part| incoming.push(part).unwrap());
        });
        let taken = usize::try_from(taken.bytes_current).unwrap();
        let most = incoming.kept_bytes() * 5 / 4 + 1000;
        assert!(
            taken < most,
            "{taken} bytes, of {} said",
            incoming.kept_bytes()
        );
    }
}
