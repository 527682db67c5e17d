//! The bytes of a block under the model checker: plain memory, so that it reports every data race.

use loom::cell::UnsafeCell;

use super::PAYLOAD;

#[derive(Debug)]
pub(super) struct Bytes(UnsafeCell<[u8; PAYLOAD]>);

// SAFETY: the model checker panics, before the access, if two threads are in here at once.
#[expect(unsafe_code, reason = "what the model checker is to prove")]
unsafe impl Sync for Bytes {}

// === impl Bytes ===

impl Default for Bytes {
    fn default() -> Bytes {
        Bytes(UnsafeCell::new([0; PAYLOAD]))
    }
}

#[expect(unsafe_code, reason = "what the model checker is to prove")]
impl Bytes {
    pub(super) fn read_u8(&self, at: usize) -> u8 {
        // SAFETY: as above.
        self.0.with(|bytes| unsafe { (*bytes)[at] })
    }

    pub(super) fn read_u32(&self, at: usize) -> u32 {
        let first = at / 4 * 4;
        u32::from_le_bytes(std::array::from_fn(|offset| self.read_u8(first + offset)))
    }

    pub(super) fn write_u32(&self, at: usize, word: u32) {
        for (offset, byte) in word.to_le_bytes().into_iter().enumerate() {
            self.write_u8(at / 4 * 4 + offset, byte);
        }
    }

    pub(super) fn write_u8(&self, at: usize, byte: u8) {
        // SAFETY: as above.
        self.0.with_mut(|bytes| unsafe { (*bytes)[at] = byte });
    }
}
