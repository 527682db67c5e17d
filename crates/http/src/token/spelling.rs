//! The one spelling of a token (RFC 7515, section 7.1): segments in base64url without padding, with
//! dots between them. Lenient servers also read others, whose claims would not be found here: by
//! them, a client could choose not to be limited by its claims.

use super::SCHEME;

/// The segments of a signed token.
const SEGMENTS: usize = 3;
/// The characters of three bytes, in which the `{` of a token's header is looked for.
const LEADING: usize = 4;
/// The bits of a character.
const CHARACTER_BITS: u32 = 6;

/// Whether the value of `Authorization` begins with the scheme, but not with a space after it. Some
/// servers take any white space there, also that of Unicode, and remove it at the beginning. With
/// more characters of a name, it is another scheme.
pub(super) fn is_scheme_misspelled(value: &[u8]) -> bool {
    let start = value.iter().take_while(|byte| !byte.is_ascii()).count();
    let Some((scheme, rest)) = value[start..].split_at_checked(SCHEME.len()) else {
        return false;
    };
    let is_separate = rest
        .first()
        .is_some_and(|byte| !byte.is_ascii_alphanumeric() && !b"-_".contains(byte));
    let is_ours = start == 0 && rest.starts_with(b" ");
    scheme.eq_ignore_ascii_case(SCHEME) && is_separate && !is_ours
}

/// Whether a value has a token that lenient servers may read, but not in its one spelling. A value
/// without the header of a token, such as a key of another kind, is none.
pub(super) fn is_misspelled(value: &[u8]) -> bool {
    let segments = value.split(|byte| *byte == b'.');
    segments.count() >= SEGMENTS && !is_canonical(value) && has_token_header(value)
}

/// Whether all segments are canonical. A dot after the last one is not: some servers ignore it.
fn is_canonical(value: &[u8]) -> bool {
    let mut segments = value.split(|byte| *byte == b'.');
    let ends_with_more = segments.clone().count() > SEGMENTS && value.ends_with(b".");
    !ends_with_more && segments.all(is_segment_canonical)
}

/// Whether a segment has only characters of base64url, as many as bytes need, and no unused bit
/// that is set.
fn is_segment_canonical(segment: &[u8]) -> bool {
    let is_base64url = |byte: &u8| *byte != b'+' && *byte != b'/' && bits_of(*byte).is_some();
    let last = segment.last().and_then(|byte| bits_of(*byte));
    let unused = match (segment.len() % 4, last) {
        (1, _) => return false,
        (2, Some(last)) => last & 0b1111,
        (3, Some(last)) => last & 0b11,
        _ => 0,
    };
    unused == 0 && segment.iter().all(is_base64url)
}

/// Whether the value, or a word of it, begins with a JSON object in base64, as tokens do.
/// Characters outside base64 are skipped, as lenient servers do; they also end words.
fn has_token_header(value: &[u8]) -> bool {
    let is_of_word = |byte: &u8| *byte == b'.' || bits_of(*byte).is_some();
    let mut starts = (0..value.len()).filter(|&at| {
        let follows = at > 0 && is_of_word(&value[at - 1]);
        is_of_word(&value[at]) && !follows
    });
    starts.any(|at| begins_with_object(&value[at..]))
}

fn begins_with_object(text: &[u8]) -> bool {
    let segment = text.iter().take_while(|byte| **byte != b'.');
    let characters = segment.filter_map(|byte| bits_of(*byte)).take(LEADING);
    let (bits, count) = characters.fold((0, 0), |(bits, count), character| {
        (bits << CHARACTER_BITS | u32::from(character), count + 1)
    });
    let unused = u32::BITS - CHARACTER_BITS * count;
    let bytes = bits.checked_shl(unused).unwrap_or(0).to_be_bytes();
    bytes.trim_ascii_start().starts_with(b"{")
}

/// The six bits of a character of base64 or base64url.
fn bits_of(byte: u8) -> Option<u8> {
    match byte {
        b'A'..=b'Z' => Some(byte - b'A'),
        b'a'..=b'z' => Some(byte - b'a' + 26),
        b'0'..=b'9' => Some(byte - b'0' + 52),
        b'-' | b'+' => Some(62),
        b'_' | b'/' => Some(63),
        _ => None,
    }
}
