//! The codec of the stream, which leaves messages as bytes.

use bytes::{Buf, BufMut, Bytes};
use tonic::Status;
use tonic::codec::{BufferSettings, Codec, DecodeBuf, Decoder, EncodeBuf, Encoder};

use super::wire::RawCheck;
use crate::codec::{decode_buffers, encode_buffers, unreadable};

/// Requests as they arrive, and answers as they are sent.
#[derive(Debug, Default)]
pub(crate) struct RawMessages;

// === impl RawMessages ===

impl Codec for RawMessages {
    type Encode = Bytes;
    type Decode = RawCheck;
    type Encoder = RawMessages;
    type Decoder = RawMessages;

    fn encoder(&mut self) -> RawMessages {
        RawMessages
    }

    fn decoder(&mut self) -> RawMessages {
        RawMessages
    }
}

impl Encoder for RawMessages {
    type Item = Bytes;
    type Error = Status;

    fn encode(&mut self, item: Bytes, buf: &mut EncodeBuf<'_>) -> Result<(), Status> {
        buf.put_slice(&item);
        Ok(())
    }

    fn buffer_settings(&self) -> BufferSettings {
        encode_buffers()
    }
}

impl Decoder for RawMessages {
    type Item = RawCheck;
    type Error = Status;

    fn decode(&mut self, buf: &mut DecodeBuf<'_>) -> Result<Option<RawCheck>, Status> {
        let message = buf.copy_to_bytes(buf.remaining());
        RawCheck::new(message)
            .map(Some)
            .map_err(|error| unreadable(&error))
    }

    fn buffer_settings(&self) -> BufferSettings {
        decode_buffers()
    }
}
