//! The codec of the messages of Envoy's service.

use std::fmt;

use bytes::Buf;
use prost::Message;
use tollgate_rls::{BoundedRequest, RateLimitResponse};
use tonic::Status;
use tonic::codec::{BufferSettings, Codec, DecodeBuf, Decoder, EncodeBuf, Encoder};

/// Requests, of which no more is read than is evaluated, and responses. A request that cannot be
/// read is `INVALID_ARGUMENT`, the client's error.
#[derive(Debug, Default)]
pub(crate) struct Messages;

// === impl Messages ===

impl Codec for Messages {
    type Encode = RateLimitResponse;
    type Decode = BoundedRequest;
    type Encoder = Messages;
    type Decoder = Messages;

    fn encoder(&mut self) -> Messages {
        Messages
    }

    fn decoder(&mut self) -> Messages {
        Messages
    }
}

impl Encoder for Messages {
    type Item = RateLimitResponse;
    type Error = Status;

    fn encode(&mut self, item: RateLimitResponse, buf: &mut EncodeBuf<'_>) -> Result<(), Status> {
        item.encode(buf)
            .map_err(|error| Status::internal(error.to_string()))
    }

    fn buffer_settings(&self) -> BufferSettings {
        encode_buffers()
    }
}

impl Decoder for Messages {
    type Item = BoundedRequest;
    type Error = Status;

    fn decode(&mut self, buf: &mut DecodeBuf<'_>) -> Result<Option<BoundedRequest>, Status> {
        let message = buf.copy_to_bytes(buf.remaining());
        BoundedRequest::decode(message)
            .map(Some)
            .map_err(|error| unreadable(&error))
    }

    fn buffer_settings(&self) -> BufferSettings {
        decode_buffers()
    }
}

/// The status of a call whose message cannot be decoded.
pub(crate) fn unreadable(error: &impl fmt::Display) -> Status {
    Status::invalid_argument(format!("the message cannot be read: {error}"))
}

/// Buffers of responses, which have some tens of bytes per descriptor.
fn encode_buffers() -> BufferSettings {
    BufferSettings::new(1024, 16 * 1024)
}

/// Buffers of requests.
fn decode_buffers() -> BufferSettings {
    BufferSettings::new(4 * 1024, 16 * 1024)
}
