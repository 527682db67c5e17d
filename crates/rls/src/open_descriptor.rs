//! A descriptor of which not all has been read.

use bytes::{Bytes, BytesMut};
use prost::encoding;
use prost::{DecodeError, Message};

use crate::RateLimitDescriptor;
use crate::field::{Field, within};
use crate::rate_limit_descriptor::Entry;

/// The maximum number of entries of a descriptor that are read one by one. More than the deepest
/// rule has: a descriptor with more meets no rule, only a limit of its own.
pub const ENTRIES_READ_MAX: usize = 128;
/// The key of the entry that stands for all beyond [`ENTRIES_READ_MAX`]. Its value holds them.
pub(crate) const REST_KEY: Bytes = Bytes::from_static(b"(more entries)");
/// The number of the field with entries.
const ENTRIES: u32 = 1;

/// A descriptor of which not all has been read.
#[derive(Debug, Default)]
pub(crate) struct OpenDescriptor {
    /// What was read, with the first [`ENTRIES_READ_MAX`] entries.
    descriptor: RateLimitDescriptor,
    /// The other entries, as fields of a message: with their lengths, so that no two lists of
    /// entries are the same bytes.
    rest: BytesMut,
}

// === impl OpenDescriptor ===

impl OpenDescriptor {
    /// Reads fields, of whose buffer the texts are parts.
    ///
    /// # Errors
    ///
    /// As the library decodes the message that the descriptor is in.
    pub(crate) fn merge(&mut self, fields: &Bytes) -> Result<(), DecodeError> {
        self.merge_fields(fields)
            .map_err(within("RateLimitRequest", "descriptors"))
    }

    fn merge_fields(&mut self, fields: &Bytes) -> Result<(), DecodeError> {
        let mut unread = &fields[..];
        while let Some(field) = Field::take(&mut unread) {
            match field.value {
                Some(entry) if field.number == ENTRIES => {
                    let entry = Entry::decode(fields.slice_ref(entry))
                        .map_err(within("RateLimitDescriptor", "entries"))?;
                    self.push(entry);
                }
                _ => self.descriptor.merge(fields.slice_ref(field.bytes))?,
            }
        }
        // What is not a field is the library's to reject.
        self.descriptor.merge(fields.slice_ref(unread))
    }

    /// Adds an entry.
    pub(crate) fn push(&mut self, entry: Entry) {
        match self.descriptor.entries.len() < ENTRIES_READ_MAX {
            true => self.descriptor.entries.push(entry),
            false => encoding::message::encode(ENTRIES, &entry, &mut self.rest),
        }
    }

    /// The entries that were read one by one.
    pub(crate) fn entries_mut(&mut self) -> &mut [Entry] {
        &mut self.descriptor.entries
    }

    /// What the other entries take in memory.
    pub(crate) fn rest_bytes(&self) -> usize {
        self.rest.capacity()
    }

    /// The descriptor, with one entry for all beyond [`ENTRIES_READ_MAX`].
    pub(crate) fn finish(mut self) -> RateLimitDescriptor {
        if !self.rest.is_empty() {
            let (key, value) = (REST_KEY, self.rest.freeze());
            self.descriptor.entries.push(Entry { key, value });
        }
        self.descriptor
    }
}
