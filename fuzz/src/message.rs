//! Messages of gRPC of arbitrary bytes, which are read by hand where the library would copy them.

use bytes::Bytes;
use prost::Message;
use tollgate_core::DESCRIPTORS_MAX;
use tollgate_rls::decisions::CheckRequest;
use tollgate_rls::{
    BoundedRequest, ENTRIES_READ_MAX, IncomingRequest, RateLimitRequest, UnreadableMessage,
};

/// Reads the input as a request, all at once and in pieces as long as its first byte says.
///
/// # Panics
///
/// If reading panics, if the two differ but for groups, or if they differ from what the library
/// decodes, up to the bounds.
pub fn message(input: &[u8]) {
    let Some((length, message)) = input.split_first() else {
        return;
    };
    let whole = BoundedRequest::decode(Bytes::copy_from_slice(message));
    let mut incoming = IncomingRequest::default();
    let mut pieces = message.chunks(usize::from(*length).max(1));
    let arrived = pieces
        .try_for_each(|piece| incoming.push(piece))
        .and_then(|()| incoming.finish());
    match (&arrived, &whole) {
        (Ok(arrived), Ok(whole)) => assert_eq!(arrived, whole),
        (Err(UnreadableMessage::Group), _) | (Err(_), Err(_)) => {}
        (arrived, whole) => panic!("{arrived:?} is not {whole:?}"),
    }
    let decoded = RateLimitRequest::decode(message);
    match (whole, decoded) {
        (Ok(whole), Ok(mut decoded)) => {
            let count = decoded.descriptors.len();
            decoded.descriptors.truncate(DESCRIPTORS_MAX);
            assert_eq!(whole.left_out, count - decoded.descriptors.len());
            let is_short = |request: &RateLimitRequest| {
                let mut all = request.descriptors.iter();
                all.all(|descriptor| descriptor.entries.len() <= ENTRIES_READ_MAX)
            };
            if is_short(&decoded) {
                assert_eq!(whole.message, decoded);
            }
        }
        // What is left out is not looked at.
        (Ok(whole), Err(error)) => assert!(whole.left_out > 0, "{error}"),
        (Err(error), Ok(_)) => panic!("only the library reads it: {error}"),
        (Err(_), Err(_)) => {}
    }
}

/// Reads the input as a message of the stream of decisions.
///
/// # Panics
///
/// If reading panics, or if it differs from what the library decodes.
pub fn decision(input: &[u8]) {
    let read = tollgate_server::fuzzed::decision(Bytes::copy_from_slice(input));
    match (read, CheckRequest::decode(input)) {
        (Ok(read), Ok(decoded)) => assert_eq!(read, decoded),
        (Err(_), Err(_)) => {}
        (read, decoded) => panic!("{read:?} is not {decoded:?}"),
    }
}
