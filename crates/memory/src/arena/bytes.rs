//! The bytes of a block, four to a word.

use std::sync::atomic::{AtomicU32, Ordering};

use super::PAYLOAD;

const WORD_BYTES: usize = size_of::<u32>();

#[derive(Debug)]
pub(super) struct Bytes([AtomicU32; PAYLOAD / WORD_BYTES]);

// === impl Bytes ===

impl Bytes {
    #[inline]
    pub(super) fn read_u8(&self, at: usize) -> u8 {
        self.read_u32(at).to_le_bytes()[at % WORD_BYTES]
    }

    /// Writes one byte and the three beside it: the owner of a block is alone.
    #[inline]
    pub(super) fn write_u8(&self, at: usize, byte: u8) {
        let mut bytes = self.read_u32(at).to_le_bytes();
        bytes[at % WORD_BYTES] = byte;
        self.write_u32(at, u32::from_le_bytes(bytes));
    }

    /// The word that the byte at `at` is in.
    #[inline]
    pub(super) fn read_u32(&self, at: usize) -> u32 {
        self.0[at / WORD_BYTES].load(Ordering::Relaxed)
    }

    #[inline]
    pub(super) fn write_u32(&self, at: usize, word: u32) {
        self.0[at / WORD_BYTES].store(word, Ordering::Relaxed);
    }
}
