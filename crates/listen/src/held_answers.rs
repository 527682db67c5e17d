//! Answers that leave in one write, at the end of the turn in which they are given.
//!
//! The HTTP library writes each answer by itself, and parses the next request of a pipeline once
//! that is flushed. To write is about half of what is done for a short request. So in a turn in
//! which a connection resumes a pipeline, its answers are copied here instead, and the library
//! goes on with the next request.

use std::io::IoSlice;

/// The most bytes that are held: a dozen answers. They are in no budget, as the buffers are not
/// that the HTTP library has for a connection, which are larger.
const HELD_BYTES_MAX: usize = 4 * 1024;

/// Bytes that the HTTP library has written and the stream has not.
#[derive(Debug, Default)]
pub(crate) struct HeldAnswers {
    bytes: Vec<u8>,
    /// How many of them the stream has.
    sent: usize,
    /// The turn in which the first of them was held.
    turn: usize,
}

// === impl HeldAnswers ===

impl HeldAnswers {
    pub(crate) fn is_empty(&self) -> bool {
        self.rest().is_empty()
    }

    /// Whether something is held, and everything since this turn.
    pub(crate) fn is_of(&self, turn: usize) -> bool {
        !self.is_empty() && self.turn == turn
    }

    /// Holds the first bytes of `parts`, in this turn: as many as have room.
    pub(crate) fn hold(&mut self, parts: &[IoSlice<'_>], turn: usize) -> usize {
        let wanted: usize = parts.iter().map(|part| part.len()).sum();
        let count = wanted.min(HELD_BYTES_MAX.saturating_sub(self.bytes.len()));
        if self.bytes.is_empty() {
            self.turn = turn;
        }
        let mut left = count;
        for part in parts {
            let taken = &part[..left.min(part.len())];
            self.bytes.extend_from_slice(taken);
            left -= taken.len();
        }
        count
    }

    /// What the stream does not have yet.
    pub(crate) fn rest(&self) -> &[u8] {
        &self.bytes[self.sent..]
    }

    /// The stream has so many bytes more. With the last, the memory is free again.
    pub(crate) fn record_written(&mut self, count: usize) {
        self.sent += count;
        if self.is_empty() {
            *self = HeldAnswers::default();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_has_room_is_held_in_its_order() {
        let mut held = HeldAnswers::default();
        let parts = [IoSlice::new(b"ab"), IoSlice::new(b""), IoSlice::new(b"cd")];
        assert_eq!(held.hold(&parts, 7), 4);
        assert_eq!(held.hold(&[IoSlice::new(b"e")], 8), 1);
        assert!(held.is_of(7) && !held.is_of(8));
        held.record_written(3);
        assert_eq!(held.rest(), b"de");
        let large = vec![b'x'; HELD_BYTES_MAX];
        assert_eq!(held.hold(&[IoSlice::new(&large)], 8), HELD_BYTES_MAX - 5);
        assert_eq!(held.hold(&parts, 8), 0);
        held.record_written(HELD_BYTES_MAX - 3);
        assert!(held.is_empty() && !held.is_of(7));
        assert_eq!(held.hold(&parts, 9), 4);
        assert!(held.is_of(9));
    }
}
