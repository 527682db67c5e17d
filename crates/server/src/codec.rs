//! The codec of gRPC messages.

use std::marker::PhantomData;

use prost::{DecodeError, Message};
use tonic::Status;
use tonic::codec::{BufferSettings, Codec, DecodeBuf, Decoder, EncodeBuf, Encoder};

/// Protobuf messages. One that cannot be read is `INVALID_ARGUMENT`, the client's error.
#[derive(Debug)]
pub(crate) struct Messages<Out, In>(PhantomData<(Out, In)>);

/// Writes messages.
#[derive(Debug)]
pub(crate) struct Write<Out>(PhantomData<Out>);

/// Reads messages.
#[derive(Debug)]
pub(crate) struct Read<In>(PhantomData<In>);

// === impl Messages ===

impl<Out, In> Default for Messages<Out, In> {
    fn default() -> Self {
        Messages(PhantomData)
    }
}

impl<Out, In> Codec for Messages<Out, In>
where
    Out: Message + 'static,
    In: Message + Default + 'static,
{
    type Encode = Out;
    type Decode = In;
    type Encoder = Write<Out>;
    type Decoder = Read<In>;

    fn encoder(&mut self) -> Write<Out> {
        Write(PhantomData)
    }

    fn decoder(&mut self) -> Read<In> {
        Read(PhantomData)
    }
}

impl<Out: Message> Encoder for Write<Out> {
    type Item = Out;
    type Error = Status;

    fn encode(&mut self, item: Out, buf: &mut EncodeBuf<'_>) -> Result<(), Status> {
        item.encode(buf)
            .map_err(|error| Status::internal(error.to_string()))
    }

    fn buffer_settings(&self) -> BufferSettings {
        encode_buffers()
    }
}

impl<In: Message + Default> Decoder for Read<In> {
    type Item = In;
    type Error = Status;

    fn decode(&mut self, buf: &mut DecodeBuf<'_>) -> Result<Option<In>, Status> {
        In::decode(buf)
            .map(Some)
            .map_err(|error| unreadable(&error))
    }

    fn buffer_settings(&self) -> BufferSettings {
        decode_buffers()
    }
}

/// The status of a call whose message cannot be decoded.
pub(crate) fn unreadable(error: &DecodeError) -> Status {
    Status::invalid_argument(format!("the message cannot be read: {error}"))
}

/// Buffers of responses, which have some tens of bytes per descriptor.
pub(crate) fn encode_buffers() -> BufferSettings {
    BufferSettings::new(1024, 16 * 1024)
}

/// Buffers of requests.
pub(crate) fn decode_buffers() -> BufferSettings {
    BufferSettings::new(4 * 1024, 16 * 1024)
}
