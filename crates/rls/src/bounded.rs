//! Requests of which no more is read than is evaluated.
//!
//! A message is small on the wire where it is large in memory: an empty descriptor or entry has two
//! bytes there, and some tens here. So what is beyond the bounds is not read, but counted.

use std::mem;

use bytes::{Bytes, BytesMut};
use prost::encoding::{self, DecodeContext, WireType};
use prost::{DecodeError, Message};
use tollgate_core::DESCRIPTORS_MAX;

use crate::rate_limit_descriptor::Entry;
use crate::{RateLimitDescriptor, RateLimitRequest};

/// The maximum number of entries of a descriptor that are read one by one. More than the deepest
/// rule has: a descriptor with more meets no rule, only a limit of its own.
pub const ENTRIES_READ_MAX: usize = 128;
/// The key of the entry that stands for all beyond [`ENTRIES_READ_MAX`]. Its value holds them.
const REST_KEY: Bytes = Bytes::from_static(b"(more entries)");
/// No message, and no descriptor, of so few bytes is beyond a bound: what the bounds count has at
/// least two bytes.
const BYTES_ALWAYS_READ: usize = 2 * ENTRIES_READ_MAX;
/// The numbers of the fields with descriptors and with entries.
const DESCRIPTORS: u32 = 2;
const ENTRIES: u32 = 1;

const _: () = assert!(BYTES_ALWAYS_READ <= 2 * DESCRIPTORS_MAX);

/// A request, with the first [`DESCRIPTORS_MAX`] of its descriptors.
///
/// Of a descriptor with more entries than [`ENTRIES_READ_MAX`], the others are one entry: it meets
/// no rule as before, and descriptors that differ still count apart under a limit of their own.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct BoundedRequest {
    /// What is evaluated.
    pub message: RateLimitRequest,
    /// How many more descriptors the request has.
    pub left_out: usize,
}

/// A field of a message.
pub(crate) struct Field<'m> {
    number: u32,
    /// All of it.
    pub(crate) bytes: &'m [u8],
    /// Its value, if that has a length of its own.
    value: Option<&'m [u8]>,
}

// === impl BoundedRequest ===

impl BoundedRequest {
    /// Reads a message, of whose buffer the texts are parts. What is left out is not looked at.
    ///
    /// # Errors
    ///
    /// As the library decodes it.
    pub fn decode(message: Bytes) -> Result<BoundedRequest, DecodeError> {
        let mut request = BoundedRequest::default();
        if message.len() <= BYTES_ALWAYS_READ {
            request.message.merge(message)?;
        } else {
            request.merge(&message)?;
        }
        Ok(request)
    }

    /// Reads more of the same message, from the beginning of a field on.
    pub(crate) fn merge(&mut self, part: &Bytes) -> Result<(), DecodeError> {
        let mut rest = &part[..];
        while let Some(field) = Field::take(&mut rest) {
            match field {
                Field {
                    number: DESCRIPTORS,
                    value: Some(value),
                    bytes,
                } => self.read_descriptor(part, bytes, value)?,
                field => self.message.merge(part.slice_ref(field.bytes))?,
            }
        }
        // What is no field is the library's to reject.
        self.message.merge(part.slice_ref(rest))
    }

    /// Reads a descriptor, from the field of the message that has this value.
    fn read_descriptor(
        &mut self,
        message: &Bytes,
        field: &[u8],
        value: &[u8],
    ) -> Result<(), DecodeError> {
        if self.message.descriptors.len() == DESCRIPTORS_MAX {
            self.left_out += 1;
        } else if value.len() <= BYTES_ALWAYS_READ {
            self.message.merge(message.slice_ref(field))?;
        } else {
            let descriptor = read_descriptor(&message.slice_ref(value))
                .map_err(within("RateLimitRequest", "descriptors"))?;
            self.message.descriptors.push(descriptor);
        }
        Ok(())
    }

    /// Adds a descriptor, or counts it.
    pub(crate) fn push(&mut self, descriptor: RateLimitDescriptor) {
        match self.message.descriptors.len() < DESCRIPTORS_MAX {
            true => self.message.descriptors.push(descriptor),
            false => self.left_out += 1,
        }
    }
}

fn read_descriptor(value: &Bytes) -> Result<RateLimitDescriptor, DecodeError> {
    let mut descriptor = RateLimitDescriptor::default();
    let mut rest = &value[..];
    while let Some(field) = Field::take(&mut rest) {
        match field.value {
            Some(entry) if field.number == ENTRIES => {
                let entry = Entry::decode(value.slice_ref(entry))
                    .map_err(within("RateLimitDescriptor", "entries"))?;
                push_entry(&mut descriptor.entries, entry);
            }
            _ => descriptor.merge(value.slice_ref(field.bytes))?,
        }
    }
    descriptor.merge(value.slice_ref(rest))?;
    Ok(descriptor)
}

/// Says where an error is, as the library does.
fn within(message: &'static str, field: &'static str) -> impl FnOnce(DecodeError) -> DecodeError {
    move |mut error| {
        error.push(message, field);
        error
    }
}

/// Adds an entry: one of its own, or a part of the one that stands for the others.
pub(crate) fn push_entry(entries: &mut Vec<Entry>, entry: Entry) {
    if entries.len() < ENTRIES_READ_MAX {
        return entries.push(entry);
    }
    if entries.len() == ENTRIES_READ_MAX {
        let (key, value) = (REST_KEY, Bytes::new());
        entries.push(Entry { key, value });
    }
    if let Some(Entry { value, .. }) = entries.last_mut() {
        // Nothing else refers to its buffer, so it is not copied, but grows.
        let mut rest = BytesMut::from(mem::take(value));
        // With its lengths, so that no two lists of entries are the same bytes.
        encoding::message::encode(ENTRIES, &entry, &mut rest);
        *value = rest.freeze();
    }
}

// === impl Field ===

impl<'m> Field<'m> {
    /// The first field of a message, which is left without it; `None` if it begins with none.
    pub(crate) fn take(message: &mut &'m [u8]) -> Option<Field<'m>> {
        let mut rest = *message;
        let (number, kind) = encoding::decode_key(&mut rest).ok()?;
        let mut value = rest;
        encoding::skip_field(kind, number, &mut rest, DecodeContext::default()).ok()?;
        let bytes = &message[..message.len() - rest.len()];
        *message = rest;
        let has_length = kind == WireType::LengthDelimited;
        Some(Field {
            number,
            bytes,
            value: has_length.then(|| {
                let length = encoding::decode_varint(&mut value);
                debug_assert!(length.is_ok(), "it was skipped");
                &value[..value.len() - rest.len()]
            }),
        })
    }
}

#[cfg(test)]
mod tests;
