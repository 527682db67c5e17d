//! Requests that arrive in parts, and of which a long value is kept once.
//!
//! Envoy copies a header into every descriptor whose actions name it, so a client that sends one of
//! 60 KiB causes a message of several MiB. Many of them at once are more than a connection may
//! buffer, and Envoy allows a request whose call fails for it. Read as they arrive, they take no
//! more than their different values.

use std::collections::HashSet;
use std::fmt;

use bytes::{Bytes, BytesMut};
use prost::DecodeError;
use prost::encoding::{self, WireType};
use tollgate_core::DESCRIPTORS_MAX;

use crate::bounded::DESCRIPTORS;
use crate::field::Field;
use crate::open_descriptor::OpenDescriptor;
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
    /// The descriptor that `pending` continues.
    open: Option<Incomplete>,
    request: BoundedRequest,
    long_texts: HashSet<Bytes>,
    /// The size of the domain in `request`.
    domain_bytes: usize,
    /// That of the rest of `request`, and of the entries of `open`, without what their texts share.
    request_bytes: usize,
}

/// Why a message that arrives in parts cannot be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum UnreadableMessage {
    /// It is not encoded as the protocol is.
    Encoding(DecodeError),
    /// It has a group, an encoding of messages that proto3 does not have. The end of one is found
    /// only by reading all of it, which would be done again for each part that arrives.
    Group,
}

/// A descriptor that has not arrived completely.
#[derive(Debug)]
struct Incomplete {
    descriptor: OpenDescriptor,
    /// How many of its bytes have not been read.
    missing: usize,
}

// === impl IncomingRequest ===

impl IncomingRequest {
    /// Reads what has arrived of the message since the last call. What is left of `part` is copied.
    ///
    /// # Errors
    ///
    /// As [`BoundedRequest::decode`] for the message, and for groups: what follows cannot change
    /// that.
    pub fn push(&mut self, part: &[u8]) -> Result<(), UnreadableMessage> {
        self.pending.extend_from_slice(part);
        let unread = self.pending.len();
        while self.read_pending()? {}
        if self.pending.len() < unread {
            // The rest would keep the memory of what was read.
            self.pending = BytesMut::from(&self.pending[..]);
        }
        Ok(())
    }

    /// The bytes of memory that it takes, approximately.
    pub fn kept_bytes(&self) -> usize {
        let rest = self.open.as_ref();
        let rest = rest.map_or(0, |open| open.descriptor.rest_bytes());
        self.pending.capacity() + self.domain_bytes + self.request_bytes + rest
    }

    /// The request, once the message has arrived completely.
    ///
    /// # Errors
    ///
    /// As [`BoundedRequest::decode`] for the message.
    pub fn finish(mut self) -> Result<BoundedRequest, UnreadableMessage> {
        let mut rest = self.pending.split();
        if let Some(open) = self.open.take() {
            // The message ends within it, which is the library's to reject.
            rest = open.missing_field();
        }
        self.read(&rest.freeze())?;
        Ok(self.request)
    }

    /// Reads the complete fields of what is pending; whether there may be more to read.
    fn read_pending(&mut self) -> Result<bool, UnreadableMessage> {
        if let Some(open) = self.open.take() {
            return self.continue_descriptor(open);
        }
        let complete = complete_fields(&self.pending)?;
        if complete > 0 {
            let fields = self.pending.split_to(complete).freeze();
            self.read(&fields)?;
        }
        self.open = self.open_descriptor();
        Ok(self.open.is_some())
    }

    /// The descriptor that begins what is pending, if one does and not all of it has arrived.
    fn open_descriptor(&mut self) -> Option<Incomplete> {
        if self.request.message.descriptors.len() == DESCRIPTORS_MAX {
            return None;
        }
        let mut rest = &self.pending[..];
        let key = encoding::decode_key(&mut rest).ok()?;
        if key != (DESCRIPTORS, WireType::LengthDelimited) {
            return None;
        }
        let missing = usize::try_from(encoding::decode_varint(&mut rest).ok()?).ok()?;
        let head = self.pending.len() - rest.len();
        let _head = self.pending.split_to(head);
        Some(Incomplete {
            descriptor: OpenDescriptor::default(),
            missing,
        })
    }

    /// Reads what has arrived of a descriptor; whether there may be more to read.
    fn continue_descriptor(&mut self, mut open: Incomplete) -> Result<bool, UnreadableMessage> {
        let arrived = open.missing.min(self.pending.len());
        let mut readable = complete_fields(&self.pending[..arrived])?;
        if arrived == open.missing {
            // What is not a field is the library's to reject.
            readable = arrived;
        }
        let fields = self.pending.split_to(readable).freeze();
        let known = open.descriptor.entries_mut().len();
        open.descriptor.merge(&fields)?;
        let entries = &mut open.descriptor.entries_mut()[known..];
        self.request_bytes += own(&mut self.long_texts, entries);
        open.missing -= readable;
        let is_complete = open.missing == 0;
        if is_complete {
            self.request_bytes += size_of::<RateLimitDescriptor>() + open.descriptor.rest_bytes();
            self.request.push(open.descriptor.finish());
        } else {
            self.open = Some(open);
        }
        Ok(is_complete)
    }

    /// Reads fields, of whose buffer nothing is kept.
    fn read(&mut self, fields: &Bytes) -> Result<(), DecodeError> {
        let known = self.request.message.descriptors.len();
        self.request.merge(fields)?;
        let message = &mut self.request.message;
        // Only if it was among these fields: there may be any number, of any length.
        if fields.as_ptr_range().contains(&message.domain.as_ptr()) {
            message.domain = Bytes::copy_from_slice(&message.domain);
            self.domain_bytes = message.domain.len() + TEXT_BYTES;
        }
        for descriptor in &mut message.descriptors[known..] {
            self.request_bytes += size_of::<RateLimitDescriptor>();
            self.request_bytes += own(&mut self.long_texts, &mut descriptor.entries);
        }
        Ok(())
    }
}

// === impl Incomplete ===

impl Incomplete {
    /// The field of the message that it is, without any of what is missing.
    fn missing_field(&self) -> BytesMut {
        let mut field = BytesMut::new();
        encoding::encode_key(DESCRIPTORS, WireType::LengthDelimited, &mut field);
        encoding::encode_varint(u64::try_from(self.missing).unwrap_or(u64::MAX), &mut field);
        field
    }
}

// === impl UnreadableMessage ===

impl From<DecodeError> for UnreadableMessage {
    fn from(error: DecodeError) -> UnreadableMessage {
        UnreadableMessage::Encoding(error)
    }
}

impl fmt::Display for UnreadableMessage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            UnreadableMessage::Encoding(error) => error.fmt(f),
            UnreadableMessage::Group => f.write_str("it has a group, which proto3 does not have"),
        }
    }
}

impl std::error::Error for UnreadableMessage {}

/// Makes the texts of `entries` independent of the buffer in which they arrived; how many bytes all
/// of it takes.
fn own(long_texts: &mut HashSet<Bytes>, entries: &mut [Entry]) -> usize {
    let mut added = size_of_val(entries);
    for Entry { key, value } in entries {
        for text in [key, value] {
            added += own_text(long_texts, text);
        }
    }
    added
}

/// Makes `text` independent of the buffer in which it arrived; how many bytes that takes.
fn own_text(long_texts: &mut HashSet<Bytes>, text: &mut Bytes) -> usize {
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
fn complete_fields(bytes: &[u8]) -> Result<usize, UnreadableMessage> {
    let mut rest = bytes;
    loop {
        if begins_with_group(rest) {
            return Err(UnreadableMessage::Group);
        }
        if Field::take(&mut rest).is_none() {
            return Ok(bytes.len() - rest.len());
        }
    }
}

/// Whether a group is next.
fn begins_with_group(mut rest: &[u8]) -> bool {
    let key = encoding::decode_key(&mut rest);
    key.is_ok_and(|(_, kind)| matches!(kind, WireType::StartGroup | WireType::EndGroup))
}

#[cfg(test)]
mod tests;
