use tollgate_behaviour::Random;
use tollgate_rls::decisions;

use super::*;

fn message(random: &mut Random) -> CheckRequest {
    let text = |random: &mut Random| {
        let length = random.between(0, 3) * random.between(0, 70);
        (0..length)
            .map(|_| u8::try_from(random.between(0, 255)).expect("a byte"))
            .collect::<Vec<u8>>()
    };
    let descriptors = (0..random.between(0, 4)).map(|_| decisions::Descriptor {
        entries: (0..random.between(0, 4))
            .map(|_| decisions::Entry {
                key: text(random).into(),
                value: text(random).into(),
            })
            .collect(),
        any_order: random.chance(50),
    });
    let descriptors = descriptors.collect();
    CheckRequest {
        id: random.between(0, 3) * random.between(0, u64::MAX / 3),
        domain: text(random).into(),
        descriptors,
        cost: random
            .chance(50)
            .then(|| random.pick(&[0, 1, -1, 63, -64, 300, i64::MAX, i64::MIN])),
        peek: random.chance(50),
    }
}

fn read(bytes: &[u8]) -> Option<Check<'_>> {
    let mut check = Check::default();
    check.read(bytes).map(|()| check)
}

fn check_of(message: &CheckRequest) -> Check<'_> {
    let descriptors = message.descriptors.iter().map(|descriptor| Descriptor {
        entries: descriptor
            .entries
            .iter()
            .map(|entry| Entry {
                key: &entry.key,
                value: &entry.value,
            })
            .collect(),
        is_unordered: descriptor.any_order,
        ..Descriptor::default()
    });
    Check {
        id: message.id,
        domain: &message.domain,
        descriptors: descriptors.collect(),
        cost: message.cost,
        peek: message.peek,
    }
}

/// Changes a message as a broken or a newer client might.
fn mutate(bytes: &mut Vec<u8>, random: &mut Random) {
    let at = |random: &mut Random, most: usize| {
        usize::try_from(random.between(0, u64::try_from(most).expect("small"))).expect("small")
    };
    match random.between(0, 4) {
        0 => bytes.truncate(at(random, bytes.len())),
        1 => bytes.insert(at(random, bytes.len()), 0x80),
        2 if !bytes.is_empty() => {
            let index = at(random, bytes.len() - 1);
            bytes[index] ^= 1 << random.between(0, 7);
        }
        // The fields come twice: the last of each counts, and descriptors add up.
        3 => bytes.extend(message(random).encode_to_vec()),
        // A field of a newer version of the protocol.
        _ => bytes.extend([0x98, 0x06, 0x05]),
    }
}

#[test]
fn what_the_library_writes_is_read_in_place() {
    tollgate_behaviour::check("plain messages", 2_000, |random| {
        let message = message(random);
        let bytes = message.encode_to_vec();
        assert_eq!(read(&bytes), Some(check_of(&message)));
    });
}

#[test]
fn any_bytes_mean_what_the_library_decodes() {
    let (mut decoded, mut rejected, mut unusual) = (0, 0, 0);
    tollgate_behaviour::check("changed messages", 20_000, |random| {
        let mut bytes = message(random).encode_to_vec();
        for _ in 0..random.between(1, 3) {
            mutate(&mut bytes, random);
        }
        unusual += u32::from(read(&bytes).is_none());
        let bytes = Bytes::from(bytes);
        match (RawCheck::new(bytes.clone()), CheckRequest::decode(bytes)) {
            (Ok(raw), Ok(message)) => {
                decoded += 1;
                let check = check_of(&message);
                assert_eq!(raw.check(), check);
                assert_eq!(raw.descriptors, message.descriptors.len());
            }
            (Err(own), Err(other)) => {
                rejected += 1;
                assert_eq!(own.to_string(), other.to_string());
            }
            (own, other) => panic!("{own:?}, in place of {other:?}"),
        }
    });
    assert!(decoded > 0 && rejected > 0 && unusual > rejected);
}
