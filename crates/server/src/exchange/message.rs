//! The message of a call, until it has arrived completely.

use bytes::{Buf, Bytes};
use http_body_util::BodyExt;
use tollgate_rls::{BoundedRequest, IncomingRequest};
use tonic::Status;

use crate::body::{BoxError, RequestBody, no_room, whole};
use crate::codec::unreadable;
use crate::grpc::{Calls, FRAME_HEAD_BYTES, message_length};

/// A longer message is read as it arrives. Reading it at once is faster.
const READ_AT_ONCE_MAX: usize = 64 * 1024;

/// The message of a call.
pub(super) enum Message<'c> {
    /// One, as it arrived, or the beginning of one, which the routes reject.
    Whole(Bytes),
    /// The beginning of one that is too large, which the routes reject.
    TooLarge(Bytes),
    /// A request for a decision, read already, and what answers it.
    Request(&'c Calls, Box<BoundedRequest>),
    /// One that cannot be answered.
    Invalid(Status),
}

/// Which messages are read.
#[derive(Clone, Copy)]
pub(super) struct Terms<'c> {
    /// The largest one.
    pub(super) bytes_max: usize,
    /// What answers requests for decisions, if the message is one and not compressed: a long one is
    /// read as it arrives.
    pub(super) calls: Option<&'c Calls>,
}

// === impl Message ===

impl<'c> Message<'c> {
    /// Waits for the message, of which only what is needed stays in memory and reserved. One that
    /// is too large is rejected without waiting for the rest.
    pub(super) async fn read(
        body: &mut RequestBody,
        terms: Terms<'c>,
    ) -> Result<Message<'c>, BoxError> {
        let is_too_large =
            |bytes: &[u8]| message_length(bytes).is_some_and(|length| length > terms.bytes_max);
        let long = |bytes: &[u8]| terms.calls.zip(long_length(bytes));
        let is_enough = |bytes: &[u8]| is_too_large(bytes) || long(bytes).is_some();
        let message = whole(&mut *body, is_enough).await?;
        if is_too_large(&message) {
            return Ok(Message::TooLarge(message));
        }
        match long(&message) {
            Some((calls, length)) => {
                let mut beginning = message;
                beginning.advance(FRAME_HEAD_BYTES);
                let read = read_as_it_arrives(body, beginning, length).await?;
                Ok(read.map_or_else(Message::Invalid, |request| Message::Request(calls, request)))
            }
            None if is_one_message(&message) => Ok(Message::Whole(message)),
            None => Ok(Message::Invalid(not_one_message())),
        }
    }
}

/// Reads a request of `length` bytes, of which the first have arrived. The inner error is the
/// status of a message that cannot be answered.
async fn read_as_it_arrives(
    body: &mut RequestBody,
    mut part: Bytes,
    length: usize,
) -> Result<Result<Box<BoundedRequest>, Status>, BoxError> {
    let mut request = IncomingRequest::default();
    let mut arrived = 0;
    loop {
        arrived += part.len();
        if arrived > length {
            return Ok(Err(not_one_message()));
        }
        if let Err(error) = request.push(&part) {
            return Ok(Err(unreadable(&error)));
        }
        if !body.keep(request.kept_bytes()) {
            return Err(no_room().into());
        }
        // Its buffer is no longer reserved.
        drop(part);
        part = match body.frame().await {
            Some(frame) => frame?.into_data().unwrap_or_default(),
            None => break,
        };
    }
    if arrived < length {
        let text = format!("the message ends after {arrived} of its {length} bytes");
        return Ok(Err(Status::invalid_argument(text)));
    }
    let read = request.finish().map(Box::new);
    Ok(read.map_err(|error| unreadable(&error)))
}

/// The status of a call that has no message, or several.
fn not_one_message() -> Status {
    Status::unimplemented("this method takes exactly one message")
}

/// The length of a message that is read as it arrives, once it is known.
fn long_length(beginning: &[u8]) -> Option<usize> {
    let length = message_length(beginning)?;
    (beginning[0] == 0 && length > READ_AT_ONCE_MAX).then_some(length)
}

/// Whether there is one message, or the beginning of one, which the routes reject.
///
/// The routes alone would ignore every message but the first, and report an internal error if there
/// is none.
fn is_one_message(body: &[u8]) -> bool {
    let bytes = body.len().saturating_sub(FRAME_HEAD_BYTES);
    !body.is_empty() && message_length(body).is_none_or(|length| bytes <= length)
}
