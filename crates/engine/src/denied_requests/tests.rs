#![allow(clippy::unwrap_used)]

use tollgate_core::{Answer, ChargeDenied, Cost, DenialReason, Descriptor, Entry, RequestDenial};

use super::*;

fn answer() -> Answer {
    Answer {
        statuses: Vec::new().into(),
        denial: Some(RequestDenial {
            by: 0,
            wait: Wait::For(Span::SECOND),
            reason: DenialReason::Exceeded,
        }),
        delay: Span::ZERO,
    }
}

fn request(value: &[u8]) -> Request<'_> {
    let entry = Entry { key: b"k", value };
    Request {
        domain: b"d",
        descriptors: vec![Descriptor {
            entries: vec![entry].into(),
            is_unordered: true,
            ..Descriptor::default()
        }]
        .into(),
        cost: Cost::Take(3),
        charge_denied: ChargeDenied::Excess,
    }
}

/// So many seconds after the start.
fn at(seconds: u64) -> Moment {
    Moment::ZERO + Span::from_secs(seconds)
}

#[test]
fn a_denied_request_is_found_by_the_id_of_its_answer() {
    let kept = DeniedRequests::new(8);
    let own = kept
        .keep(None, &request(b"\xff"), &answer(), || true, at(1))
        .unwrap();
    let other = kept
        .keep(None, &request(b"b"), &answer(), || true, at(1))
        .unwrap();
    assert_ne!(own, other);
    let theirs = kept
        .keep(Some(b"a-1/b"), &request(b"c"), &answer(), || true, at(2))
        .unwrap();
    assert_eq!(&*theirs, "a-1/b");
    let found = kept.find(&own, at(3));
    assert_eq!(found.len(), 1);
    assert_eq!(found[0].request(), request(b"\xff"));
    assert_eq!(kept.find("a-1/b", at(3))[0].request(), request(b"c"));
    assert!(kept.find("a-1", at(3)).is_empty());
}

#[test]
fn an_id_that_is_not_plain_is_replaced() {
    let kept = DeniedRequests::new(64);
    let long = [b'x'; REQUEST_ID_BYTES_MAX + 1];
    for id in [
        &b""[..],
        b"a b",
        b"a\nb",
        b"\x1b[2J",
        b"\xff",
        b"a\"b",
        b"a,b",
        &long,
    ] {
        let given = kept
            .keep(Some(id), &request(b"v"), &answer(), || true, at(1))
            .unwrap();
        assert_eq!(given.len(), 32, "{id:?}");
        assert!(given.bytes().all(|byte| byte.is_ascii_hexdigit()));
    }
    let longest = &long[1..];
    let given = kept
        .keep(Some(longest), &request(b"v"), &answer(), || true, at(1))
        .unwrap();
    assert_eq!(given.as_bytes(), longest);
}

#[test]
fn there_are_bounds_in_number_size_and_time() {
    let kept = DeniedRequests::new(16);
    for index in 0..1_000 {
        let id = format!("id{index}");
        let given = kept.keep(
            Some(id.as_bytes()),
            &request(b"v"),
            &answer(),
            || true,
            at(1),
        );
        assert_eq!(given.as_deref(), Some(&*id));
    }
    let held: usize = kept
        .shards
        .iter()
        .map(|shard| shard.lock().unwrap().len())
        .sum();
    assert_eq!(held, 16);
    assert!(kept.find("id0", at(1)).is_empty());
    let end = at(1) + DENIED_REQUEST_KEPT;
    assert_eq!(kept.find("id999", end).len(), 1);
    assert!(kept.find("id999", end + Span::from_nanos(1)).is_empty());
    let overhead = ENTRY_BYTES + DESCRIPTOR_BYTES;
    let large = vec![b'x'; DENIED_REQUEST_BYTES_MAX - overhead - 1];
    assert!(
        kept.keep(None, &request(&large), &answer(), || true, at(1))
            .is_none()
    );
    assert!(
        kept.keep(None, &request(&large[1..]), &answer(), || true, at(1))
            .is_some()
    );
    // Little text, and much memory.
    let mut hollow = request(b"");
    let descriptor = hollow.descriptors[0].clone();
    hollow.descriptors = vec![descriptor; DENIED_REQUEST_BYTES_MAX / overhead + 1].into();
    assert!(
        kept.keep(None, &hollow, &answer(), || true, at(1))
            .is_none()
    );
    for _ in 0..100 {
        kept.keep(Some(b"same"), &request(b"v"), &answer(), || true, at(9));
    }
    assert_eq!(kept.find("same", at(9)).len(), DENIALS_BY_ID_MAX);
    let allowed = Answer {
        denial: None,
        ..answer()
    };
    assert!(
        kept.keep(None, &request(b"v"), &allowed, || true, at(9))
            .is_none()
    );
    let off = DeniedRequests::new(0);
    assert!(
        off.keep(None, &request(b"v"), &answer(), || true, at(1))
            .is_none()
    );
}

#[test]
fn a_thread_does_not_wait_for_a_look_up() {
    let kept = DeniedRequests::new(16);
    let held: Vec<_> = kept
        .shards
        .iter()
        .map(|shard| shard.lock().unwrap())
        .collect();
    assert!(
        kept.keep(None, &request(b"v"), &answer(), || true, at(1))
            .is_none()
    );
    drop(held);
    assert!(
        kept.keep(None, &request(b"v"), &answer(), || true, at(1))
            .is_some()
    );
}

#[test]
fn what_is_kept_is_not_shown_in_a_log() {
    let kept = DeniedRequests::new(16);
    kept.keep(None, &request(b"secret"), &answer(), || true, at(1))
        .unwrap();
    assert!(!format!("{kept:?}").contains("secret"));
}
