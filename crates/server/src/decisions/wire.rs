//! Requests and answers of the stream as bytes.
//!
//! The library for messages copies each of them into a value of its own, text by text. Here a
//! request is read where it is, and an answer is written where it is sent from. Only the messages
//! that every client sends are read so: anything else, such as an unknown field, is left to the
//! library, so that there is one place that decides what is valid.

use bytes::Bytes;
use prost::{DecodeError, Message};
use tollgate_core::{Descriptor, Entry, PerDescriptor};
use tollgate_rls::decisions::CheckRequest;

/// A request as it arrived, which [`Check::read`] reads once, when it is decided on.
#[derive(Clone, Debug)]
pub(crate) struct RawCheck {
    message: Bytes,
    /// How many descriptors it has.
    pub(super) descriptors: usize,
}

/// The fields of a request.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Check<'m> {
    pub(crate) id: u64,
    pub(crate) domain: &'m [u8],
    pub(crate) descriptors: PerDescriptor<Descriptor<'m>>,
    pub(crate) cost: Option<i64>,
    pub(crate) peek: bool,
}

/// Fields as they begin on the wire: the number of each, and how its value is written.
mod key {
    const fn varint(number: u64) -> u64 {
        number << 3
    }

    const fn bytes(number: u64) -> u64 {
        (number << 3) | 2
    }

    pub(super) const ID: u64 = varint(1);
    pub(super) const DOMAIN: u64 = bytes(2);
    pub(super) const DESCRIPTOR: u64 = bytes(3);
    pub(super) const COST: u64 = varint(4);
    pub(super) const PEEK: u64 = varint(5);
    pub(super) const ENTRY: u64 = bytes(1);
    pub(super) const ANY_ORDER: u64 = varint(2);
    pub(super) const ENTRY_KEY: u64 = bytes(1);
    pub(super) const ENTRY_VALUE: u64 = bytes(2);
}

// === impl RawCheck ===

impl RawCheck {
    /// A message in the form that [`RawCheck::check`] reads.
    ///
    /// # Errors
    ///
    /// As the library decodes it.
    pub(crate) fn new(message: Bytes) -> Result<RawCheck, DecodeError> {
        let Some(descriptors) = count_descriptors(&message) else {
            let decoded = CheckRequest::decode(message)?;
            return RawCheck::new(decoded.encode_to_vec().into());
        };
        Ok(RawCheck {
            message,
            descriptors,
        })
    }

    /// How many bytes it has.
    pub(super) const fn len(&self) -> usize {
        self.message.len()
    }

    pub(crate) fn check(&self) -> Check<'_> {
        let mut check = Check::default();
        // It has been checked for that.
        let _is_read = check.read(&self.message);
        check
    }
}

// === impl Check ===

impl<'m> Check<'m> {
    /// Reads a message, if it has no other fields than those of [`CheckRequest`], each written as
    /// its type is. Where it is: a check takes hundreds of bytes, which are better not moved.
    pub(super) fn read(&mut self, mut rest: &'m [u8]) -> Option<()> {
        while !rest.is_empty() {
            match read_varint(&mut rest)? {
                key::ID => self.id = read_varint(&mut rest)?,
                key::DOMAIN => self.domain = read_bytes(&mut rest)?,
                key::DESCRIPTOR => {
                    let descriptor = read_descriptor(read_bytes(&mut rest)?)?;
                    self.descriptors.push(descriptor);
                }
                key::COST => self.cost = Some(unfold(read_varint(&mut rest)?)),
                key::PEEK => self.peek = read_varint(&mut rest)? != 0,
                _ => return None,
            }
        }
        Some(())
    }
}

fn read_descriptor(mut rest: &[u8]) -> Option<Descriptor<'_>> {
    let mut descriptor = Descriptor::default();
    while !rest.is_empty() {
        match read_varint(&mut rest)? {
            key::ENTRY => descriptor.entries.push(read_entry(read_bytes(&mut rest)?)?),
            key::ANY_ORDER => descriptor.is_unordered = read_varint(&mut rest)? != 0,
            _ => return None,
        }
    }
    Some(descriptor)
}

fn read_entry(mut rest: &[u8]) -> Option<Entry<'_>> {
    let mut entry = Entry {
        key: b"",
        value: b"",
    };
    while !rest.is_empty() {
        match read_varint(&mut rest)? {
            key::ENTRY_KEY => entry.key = read_bytes(&mut rest)?,
            key::ENTRY_VALUE => entry.value = read_bytes(&mut rest)?,
            _ => return None,
        }
    }
    Some(entry)
}

/// How many descriptors a message has. `None` if [`Check::read`] does not read it: the fields are
/// the same, and nothing is made of them.
fn count_descriptors(mut rest: &[u8]) -> Option<usize> {
    let mut count = 0;
    while !rest.is_empty() {
        match read_varint(&mut rest)? {
            key::ID | key::COST | key::PEEK => {
                read_varint(&mut rest)?;
            }
            key::DOMAIN => {
                read_bytes(&mut rest)?;
            }
            key::DESCRIPTOR => {
                skip_descriptor(read_bytes(&mut rest)?)?;
                count += 1;
            }
            _ => return None,
        }
    }
    Some(count)
}

fn skip_descriptor(mut rest: &[u8]) -> Option<()> {
    while !rest.is_empty() {
        match read_varint(&mut rest)? {
            key::ENTRY => skip_entry(read_bytes(&mut rest)?)?,
            key::ANY_ORDER => {
                read_varint(&mut rest)?;
            }
            _ => return None,
        }
    }
    Some(())
}

fn skip_entry(mut rest: &[u8]) -> Option<()> {
    while !rest.is_empty() {
        match read_varint(&mut rest)? {
            key::ENTRY_KEY | key::ENTRY_VALUE => {
                read_bytes(&mut rest)?;
            }
            _ => return None,
        }
    }
    Some(())
}

#[inline]
fn read_bytes<'m>(rest: &mut &'m [u8]) -> Option<&'m [u8]> {
    let length = usize::try_from(read_varint(rest)?).ok()?;
    let (bytes, after) = rest.split_at_checked(length)?;
    *rest = after;
    Some(bytes)
}

#[inline]
fn read_varint(rest: &mut &[u8]) -> Option<u64> {
    // Nearly all numbers are smaller than 128.
    if let [byte @ 0..=0x7f, after @ ..] = *rest {
        *rest = after;
        return Some(u64::from(*byte));
    }
    prost::encoding::decode_varint(rest).ok()
}

/// A signed number, from its form in which small ones are short whatever their sign.
const fn unfold(folded: u64) -> i64 {
    (folded >> 1).cast_signed() ^ -(folded & 1).cast_signed()
}

#[cfg(test)]
mod tests;
