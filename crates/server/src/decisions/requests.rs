//! The requests of one call, as they arrive.

use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::{Buf, Bytes};
use hyper::body::Body as _;
use tokio::time::{Sleep, sleep};
use tonic::Status;

use super::wire::RawCheck;
use crate::body::{BoxError, RequestBody, is_no_room, no_room};
use crate::codec::unreadable;
use crate::grpc::{FRAME_HEAD_BYTES, late, message_length};

/// The largest message.
const MESSAGE_BYTES_MAX: usize = 16 * 1024;

/// The requests of a call.
///
/// What has arrived of a message stays in memory and reserved. A call that waits for the beginning
/// of a message holds no buffer, and the rest of one must arrive within `body_timeout`.
pub(super) struct Requests {
    body: RequestBody,
    /// Whole messages, and what follows them.
    arrived: Bytes,
    /// The beginning of a message whose end has not arrived.
    beginning: Vec<u8>,
    body_timeout: Duration,
    /// Ends the wait for the rest of the message.
    deadline: Option<Pin<Box<Sleep>>>,
}

// === impl Requests ===

impl Requests {
    pub(super) const fn new(body: RequestBody, body_timeout: Duration) -> Requests {
        Requests {
            body,
            arrived: Bytes::new(),
            beginning: Vec::new(),
            body_timeout,
            deadline: None,
        }
    }

    /// The next request, or the status with which the call ends; `None` at its regular end.
    pub(super) fn poll_next(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<RawCheck, Status>>> {
        loop {
            match self.take_message() {
                Ok(None) => {}
                Ok(Some(message)) => {
                    let request = RawCheck::new(message).map_err(|error| unreadable(&error));
                    return Poll::Ready(Some(request));
                }
                Err(status) => return Poll::Ready(Some(Err(status))),
            }
            let Poll::Ready(frame) = Pin::new(&mut self.body).poll_frame(cx) else {
                return self.poll_late(cx).map(|status| Some(Err(status)));
            };
            let added = match frame {
                None => return Poll::Ready(self.end_status().map(Err)),
                Some(Ok(frame)) => frame.into_data().map_or(Ok(()), |data| self.add(&data)),
                Some(Err(error)) => Err(body_status(&error)),
            };
            if let Err(status) = added {
                return Poll::Ready(Some(Err(status)));
            }
        }
    }

    /// The next message that has arrived completely.
    fn take_message(&mut self) -> Result<Option<Bytes>, Status> {
        if let Some(length) = whole_message(&self.arrived)? {
            self.arrived.advance(FRAME_HEAD_BYTES);
            return Ok(Some(self.arrived.split_to(length)));
        }
        if !self.arrived.is_empty() {
            // Copied: it would keep the messages before it in memory.
            self.beginning = self.arrived.to_vec();
            self.arrived = Bytes::new();
        }
        self.hold().map(|()| None)
    }

    /// Adds bytes that have arrived.
    fn add(&mut self, data: &[u8]) -> Result<(), Status> {
        self.beginning.extend_from_slice(data);
        self.hold()?;
        if whole_message(&self.beginning)?.is_some() {
            self.arrived = std::mem::take(&mut self.beginning).into();
            self.deadline = None;
            self.body.record_request();
        }
        Ok(())
    }

    /// Reserves what has arrived of a message, and nothing else.
    fn hold(&mut self) -> Result<(), Status> {
        match self.body.keep(self.beginning.capacity()) {
            true => Ok(()),
            false => Err(no_room()),
        }
    }

    /// The status of a call whose message has begun and does not arrive in time.
    fn poll_late(&mut self, cx: &mut Context<'_>) -> Poll<Status> {
        if self.beginning.is_empty() {
            return Poll::Pending;
        }
        let begin = || Box::pin(sleep(self.body_timeout));
        let deadline = self.deadline.get_or_insert_with(begin);
        ready!(deadline.as_mut().poll(cx));
        Poll::Ready(late(self.body_timeout))
    }

    /// The status of a call that ends within a message.
    fn end_status(&self) -> Option<Status> {
        let arrived = self.beginning.len();
        (arrived > 0).then(|| {
            let text = format!("the call ends within a message, of which {arrived} bytes arrived");
            Status::invalid_argument(text)
        })
    }
}

/// The length of the message at the beginning of `bytes`, if it has arrived completely.
fn whole_message(bytes: &[u8]) -> Result<Option<usize>, Status> {
    let Some(length) = message_length(bytes) else {
        return Ok(None);
    };
    if bytes[0] != 0 {
        // The status is that of gRPC's specification "Compression".
        let text = format!(
            "a message is marked as compressed ({}), and the call is not",
            bytes[0]
        );
        return Err(Status::internal(text));
    }
    if length > MESSAGE_BYTES_MAX {
        let text = format!("a message has {length} bytes; the most are {MESSAGE_BYTES_MAX}");
        return Err(Status::out_of_range(text));
    }
    Ok((bytes.len() - FRAME_HEAD_BYTES >= length).then_some(length))
}

/// The status of a call whose body broke off.
fn body_status(error: &BoxError) -> Status {
    match is_no_room(&**error) {
        true => no_room(),
        false => Status::cancelled(format!("the call broke off: {error}")),
    }
}
