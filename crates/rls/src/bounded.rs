//! Requests of which no more is read than is evaluated.
//!
//! A message is small on the wire where it is large in memory: an empty descriptor or entry has two
//! bytes there, and some tens here. So what is beyond the bounds is not read, but counted.

use bytes::Bytes;
use prost::{DecodeError, Message};
use tollgate_core::DESCRIPTORS_MAX;

use crate::field::Field;
use crate::open_descriptor::{ENTRIES_READ_MAX, OpenDescriptor};
use crate::{RateLimitDescriptor, RateLimitRequest};

/// No message, and no descriptor, of so few bytes is beyond a bound: what the bounds count has at
/// least two bytes.
const BYTES_ALWAYS_READ: usize = 2 * ENTRIES_READ_MAX;
/// The number of the field with descriptors.
pub(crate) const DESCRIPTORS: u32 = 2;

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
        // What is not a field is the library's to reject.
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
            let mut descriptor = OpenDescriptor::default();
            descriptor.merge(&message.slice_ref(value))?;
            self.message.descriptors.push(descriptor.finish());
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

#[cfg(test)]
mod tests;
