//! The one spelling of a token (RFC 7515, section 7.1): segments in base64url without padding, with
//! dots between them. Lenient servers also read others, whose claims would not be found here: by
//! them, a client could choose not to be limited by its claims.

use base64::Engine as _;
use base64::alphabet::URL_SAFE;
use base64::engine::general_purpose::{GeneralPurpose, NO_PAD, URL_SAFE_NO_PAD};

use super::SCHEME;

/// The segments of a signed token.
const SEGMENTS: usize = 3;
/// The characters of three bytes, in which the `{` of a token's header is looked for.
const LEADING: usize = 4;
/// Reads what a header begins with, wherever it is cut off.
const LENIENT: GeneralPurpose =
    GeneralPurpose::new(&URL_SAFE, NO_PAD.with_decode_allow_trailing_bits(true));

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

/// Whether a value in its one spelling is a signed token, as far as its beginning tells.
pub(super) fn is_signed(value: &[u8]) -> bool {
    let segments = value.split(|byte| *byte == b'.');
    segments.count() == SEGMENTS && has_token_header(value)
}

/// Whether all segments are base64url without padding and unused bits that are set. A dot after the
/// last one is not canonical: some servers ignore it.
fn is_canonical(value: &[u8]) -> bool {
    let mut segments = value.split(|byte| *byte == b'.');
    let ends_with_more = segments.clone().count() > SEGMENTS && value.ends_with(b".");
    !ends_with_more && segments.all(|segment| URL_SAFE_NO_PAD.decode(segment).is_ok())
}

/// Whether the value, or a word of it, begins with a JSON object in base64, as tokens do.
/// Characters outside base64 are skipped, as lenient servers do; they also end words.
fn has_token_header(value: &[u8]) -> bool {
    let is_of_word = |byte: &u8| *byte == b'.' || is_base64(byte);
    let mut starts = (0..value.len()).filter(|&at| {
        let follows = at > 0 && is_of_word(&value[at - 1]);
        is_of_word(&value[at]) && !follows
    });
    starts.any(|at| begins_with_object(&value[at..]))
}

fn begins_with_object(text: &[u8]) -> bool {
    let segment = text.iter().take_while(|byte| **byte != b'.');
    let characters = segment.filter(|byte| is_base64(byte)).take(LEADING);
    let characters: Vec<u8> = characters.map(|byte| url_safe(*byte)).collect();
    let begin = LENIENT.decode(characters).unwrap_or_default();
    begin.trim_ascii_start().starts_with(b"{")
}

/// Whether it is a character of base64 or base64url.
fn is_base64(byte: &u8) -> bool {
    byte.is_ascii_alphanumeric() || b"+-/_".contains(byte)
}

/// The character of base64url for one of base64.
const fn url_safe(byte: u8) -> u8 {
    match byte {
        b'+' => b'-',
        b'/' => b'_',
        _ => byte,
    }
}
