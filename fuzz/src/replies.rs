//! Replies of a Redis server, of arbitrary bytes.

use bytes::BytesMut;
use tollgate_core::{Algorithm, Anchor, InvalidLimit, Limit, Span};
use tollgate_redis::fuzzed;

/// Slots of a Redis Cluster.
const SLOTS: usize = 16_384;
/// The longest input that is also parsed in pieces. In a longer one, whether a line is too long may
/// depend on how much of it has arrived.
const CUT_BYTES_MAX: usize = 32 * 1024;

/// Parses the input as replies, at once and in pieces; as the topology of a Cluster; and as an
/// error.
///
/// # Panics
///
/// If parsing panics, if the result depends on the pieces, or if a range of slots is invalid.
pub fn replies(input: &[u8]) {
    let whole = read(&[input]);
    if let ([cut, rest @ ..], ..=CUT_BYTES_MAX) = (input, input.len()) {
        let at = usize::from(*cut) % (rest.len() + 1);
        let (first, second) = input.split_at(at + 1);
        assert_eq!(read(&[first, second]), whole, "cut at {}", at + 1);
        let single: Vec<&[u8]> = input.chunks(1).collect();
        assert_eq!(read(&single), whole, "byte by byte");
    }
    let map = fuzzed::slot_map(input);
    assert!(map.len() <= SLOTS);
    for (slots, address) in &map {
        assert!(!slots.is_empty() && *slots.end() < SLOTS, "{slots:?}");
        assert!(address.contains(':'), "{address}");
    }
    let _both_answers_are_right = fuzzed::is_retried(input);
}

/// Parses the input as the reply of a script, for limits of every algorithm.
///
/// # Panics
///
/// If parsing or deciding panics, or if more remains than the limit's capacity.
pub fn answers(input: &[u8]) {
    for limit in limits() {
        if let Some(decision) = fuzzed::decision(input, &limit) {
            assert!(
                decision.remaining() <= limit.capacity(),
                "{limit}: {decision:?}"
            );
        }
    }
}

fn limits() -> [Limit; 7] {
    let from_first = Algorithm::FixedWindow(Anchor::FirstRequest);
    let valid = |limit: Result<Limit, InvalidLimit>| limit.expect("these are limits");
    [
        valid(Limit::fixed_window(100, Span::MINUTE)),
        valid(Limit::new(from_first, 5, Span::DAY)),
        valid(Limit::sliding_window(100, Span::MINUTE, 1)),
        valid(Limit::sliding_window(7, Span::DAY, 60)),
        valid(Limit::sliding_log(100, Span::HOUR)),
        valid(Limit::token_bucket(100, Span::MINUTE)),
        valid(Limit::leaky_bucket(3, Span::DAY)),
    ]
}

/// Every reply in the pieces that arrive, as text, and the error that ends them.
fn read(pieces: &[&[u8]]) -> Vec<String> {
    let (mut input, mut replies) = (BytesMut::new(), Vec::new());
    for piece in pieces {
        input.extend_from_slice(piece);
        loop {
            let before = input.len();
            match fuzzed::reply(&mut input) {
                Ok(Some(reply)) => {
                    assert!(input.len() < before, "a reply of no bytes");
                    replies.push(format!("{reply:?}"));
                }
                Ok(None) => break,
                Err(malformed) => {
                    assert!(!malformed.to_string().is_empty());
                    replies.push(malformed.to_string());
                    return replies;
                }
            }
        }
    }
    replies
}
