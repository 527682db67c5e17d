//! The bytes of a block.

use std::sync::atomic::{AtomicU8, Ordering};

use super::PAYLOAD;

#[derive(Debug)]
pub(super) struct Bytes([AtomicU8; PAYLOAD]);

// === impl Bytes ===

impl Bytes {
    #[inline]
    pub(super) fn get(&self, at: usize) -> u8 {
        self.0[at].load(Ordering::Relaxed)
    }

    #[inline]
    pub(super) fn set(&self, at: usize, byte: u8) {
        self.0[at].store(byte, Ordering::Relaxed);
    }
}
