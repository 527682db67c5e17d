//! The message of a call, until it has arrived completely.

use bytes::Bytes;
use http_body_util::BodyExt;
use tollgate_rls::{BoundedRequest, IncomingRequest};
use tonic::Status;

use crate::body::{BoxError, RequestBody, no_room, whole};
use crate::codec::unreadable;
use crate::grpc::FRAME_HEAD_BYTES;

/// A longer message is read as it arrives. Reading it at once is faster.
const READ_AT_ONCE_MAX: usize = 64 * 1024;

/// The message of a call.
pub(super) enum Message {
    /// As it arrived, or the beginning of one that is too large.
    Whole(Bytes),
    /// A request for a decision, read already.
    Request(Box<BoundedRequest>),
    /// One that cannot be answered.
    Invalid(Status),
}

/// Which messages are read.
#[derive(Clone, Copy, Debug)]
pub(super) struct Terms {
    /// The largest one.
    pub(super) bytes_max: usize,
    /// Whether a long one is read as it arrives: it is a request for a decision, not compressed.
    pub(super) is_request: bool,
}

// === impl Message ===

impl Message {
    /// Waits for the message, of which only what is needed stays in memory and reserved.
    pub(super) async fn read(body: &mut RequestBody, terms: Terms) -> Result<Message, BoxError> {
        let is_enough = |bytes: &[u8]| is_too_large(bytes, terms.bytes_max) || is_long(bytes);
        let is_too_large = |bytes: &[u8]| is_too_large(bytes, terms.bytes_max);
        if !terms.is_request {
            return whole(body, is_too_large).await.map(Message::Whole);
        }
        let beginning = whole(&mut *body, is_enough).await?;
        match length(&beginning) {
            Some(length) if is_long(&beginning) && !is_too_large(&beginning) => {
                read_as_it_arrives(body, &beginning[FRAME_HEAD_BYTES..], length).await
            }
            _ => Ok(Message::Whole(beginning)),
        }
    }
}

/// Reads a request of `length` bytes, of which the first have arrived.
async fn read_as_it_arrives(
    body: &mut RequestBody,
    beginning: &[u8],
    length: usize,
) -> Result<Message, BoxError> {
    let mut request = IncomingRequest::default();
    let mut arrived = 0;
    let mut part = Bytes::copy_from_slice(beginning);
    loop {
        arrived += part.len();
        if arrived > length {
            return Ok(Message::Invalid(not_one_message()));
        }
        if let Err(error) = request.push(&part) {
            return Ok(Message::Invalid(unreadable(&error)));
        }
        if !body.keep(request.kept_bytes()) {
            return Err(no_room().into());
        }
        part = match body.frame().await {
            Some(frame) => frame?.into_data().unwrap_or_default(),
            None => break,
        };
    }
    if arrived < length {
        let text = format!("the message ends after {arrived} of its {length} bytes");
        return Ok(Message::Invalid(Status::invalid_argument(text)));
    }
    Ok(match request.finish() {
        Ok(request) => Message::Request(Box::new(request)),
        Err(error) => Message::Invalid(unreadable(&error)),
    })
}

/// The status of a call that has no message, or several.
pub(super) fn not_one_message() -> Status {
    Status::unimplemented("this method takes exactly one message")
}

/// Whether the length of a message exceeds the largest size: then it is rejected without waiting
/// for the rest.
pub(super) fn is_too_large(beginning: &[u8], bytes_max: usize) -> bool {
    length(beginning).is_some_and(|length| length > bytes_max)
}

/// Whether a message is read as it arrives.
fn is_long(beginning: &[u8]) -> bool {
    beginning.first() == Some(&0)
        && length(beginning).is_some_and(|length| length > READ_AT_ONCE_MAX)
}

/// Whether there is one message, or the beginning of one, which the routes reject.
///
/// The routes alone would ignore every message but the first, and report an internal error if there
/// is none.
pub(super) fn is_one_message(body: &[u8]) -> bool {
    let bytes = body.len().saturating_sub(FRAME_HEAD_BYTES);
    !body.is_empty() && length(body).is_none_or(|length| bytes <= length)
}

/// The length of a message by the bytes before it, once they have arrived.
fn length(beginning: &[u8]) -> Option<usize> {
    let [_, a, b, c, d, ..] = *beginning else {
        return None;
    };
    let length = u32::from_be_bytes([a, b, c, d]);
    Some(usize::try_from(length).unwrap_or(usize::MAX))
}
