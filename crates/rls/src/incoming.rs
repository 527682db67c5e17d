//! Requests that arrive in parts, and of which a long value is kept once.
//!
//! Envoy copies a header into every descriptor whose actions name it, so a client that sends one of
//! 60 KiB causes a message of several MiB. Many of them at once are more than a connection may
//! buffer, and Envoy allows a request whose call fails for it. Read as they arrive, they take no
//! more than their different values.

use std::collections::HashSet;

use bytes::{Bytes, BytesMut};
use prost::DecodeError;
use prost::encoding::{self, WireType};

use crate::bounded::Field;
use crate::rate_limit_descriptor::Entry;
use crate::{BoundedRequest, RateLimitDescriptor};

/// From so many bytes on, a value is kept once.
const LONG_BYTES: usize = 256;
/// What a text takes beside its bytes: an allocation.
const TEXT_BYTES: usize = 32;
/// What a long one takes in addition: a count of what refers to it, and a place in a table.
const LONG_TEXT_BYTES: usize = 96;

/// A [`BoundedRequest`] whose message has not arrived completely.
#[derive(Debug, Default)]
pub struct IncomingRequest {
    /// The beginning of a field.
    pending: BytesMut,
    request: BoundedRequest,
    long_texts: HashSet<Bytes>,
    /// The size of `request`, without what its texts share.
    request_bytes: usize,
}

// === impl IncomingRequest ===

impl IncomingRequest {
    /// Reads what has arrived of the message since the last call. What is left of `part` is copied.
    ///
    /// # Errors
    ///
    /// As [`BoundedRequest::decode`] for the message: what follows cannot change that.
    pub fn push(&mut self, part: &[u8]) -> Result<(), DecodeError> {
        self.pending.extend_from_slice(part);
        let complete = complete_fields(&self.pending);
        if complete == 0 {
            return Ok(());
        }
        let fields = self.pending.split_to(complete).freeze();
        self.read(&fields)
    }

    /// The bytes of memory that it takes, approximately.
    pub fn kept_bytes(&self) -> usize {
        self.pending.len() + self.request_bytes
    }

    /// The request, once the message has arrived completely.
    ///
    /// # Errors
    ///
    /// As [`BoundedRequest::decode`] for the message.
    pub fn finish(mut self) -> Result<BoundedRequest, DecodeError> {
        let rest = self.pending.split().freeze();
        self.read(&rest)?;
        Ok(self.request)
    }

    /// Reads fields, of whose buffer nothing is kept.
    fn read(&mut self, fields: &Bytes) -> Result<(), DecodeError> {
        let known = self.request.message.descriptors.len();
        self.request.merge(fields)?;
        let message = &mut self.request.message;
        // Only if it was among these fields: there may be any number, of any length.
        if fields.as_ptr_range().contains(&message.domain.as_ptr()) {
            message.domain = Bytes::copy_from_slice(&message.domain);
        }
        let mut added = 0;
        for descriptor in &mut message.descriptors[known..] {
            added += size_of::<RateLimitDescriptor>();
            for Entry { key, value } in &mut descriptor.entries {
                added += size_of::<Entry>();
                for text in [key, value] {
                    added += own(&mut self.long_texts, text);
                }
            }
        }
        self.request_bytes += added;
        Ok(())
    }
}

/// Makes `text` independent of the buffer in which it arrived; how many bytes that takes.
fn own(long_texts: &mut HashSet<Bytes>, text: &mut Bytes) -> usize {
    let is_long = text.len() >= LONG_BYTES;
    if is_long && let Some(known) = long_texts.get(&text[..]) {
        *text = known.clone();
        return 0;
    }
    *text = Bytes::copy_from_slice(text);
    if !is_long {
        return text.len() + TEXT_BYTES;
    }
    long_texts.insert(text.clone());
    text.len() + TEXT_BYTES + LONG_TEXT_BYTES
}

/// The length of the fields that have arrived completely.
fn complete_fields(bytes: &[u8]) -> usize {
    let mut rest = bytes;
    while !begins_with_group(rest) && Field::take(&mut rest).is_some() {}
    bytes.len() - rest.len()
}

/// Whether a group is next. No message of the protocol has one, and the end of one is found only by
/// reading all of it, which would be done again for each part that arrives.
fn begins_with_group(mut rest: &[u8]) -> bool {
    let key = encoding::decode_key(&mut rest);
    key.is_ok_and(|(_, kind)| matches!(kind, WireType::StartGroup | WireType::EndGroup))
}

#[cfg(test)]
mod tests;
