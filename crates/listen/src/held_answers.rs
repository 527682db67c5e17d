//! Answers that leave in one write, at the end of the turn in which they are given.
//!
//! The HTTP library writes each answer by itself, and parses the next request of a pipeline once
//! that is flushed. To write is about half of what is done for a short request. So in a turn in
//! which a connection resumes a pipeline, its answers are copied here instead, and the library
//! goes on with the next request.

use std::io::IoSlice;
use std::sync::Arc;

use crate::connection::Connection;

/// The most bytes that are held: some fifty answers.
const HELD_BYTES_MAX: usize = 16 * 1024;

/// Bytes that the HTTP library has written and the stream has not. They are reserved in the
/// connection's budget.
#[derive(Debug)]
pub(crate) struct HeldAnswers {
    connection: Arc<Connection>,
    bytes: Vec<u8>,
    /// How many of them the stream has.
    sent: usize,
    /// The turn in which the first of them was held.
    turn: usize,
}

// === impl HeldAnswers ===

impl HeldAnswers {
    pub(crate) const fn new(connection: Arc<Connection>) -> HeldAnswers {
        HeldAnswers {
            connection,
            bytes: Vec::new(),
            sent: 0,
            turn: 0,
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.rest().is_empty()
    }

    /// Whether something is held, and everything since this turn.
    pub(crate) fn is_of(&self, turn: usize) -> bool {
        !self.is_empty() && self.turn == turn
    }

    /// Holds the first bytes of `parts`, in this turn: as many as there is room for, here and in
    /// the budget.
    pub(crate) fn hold(&mut self, parts: &[IoSlice<'_>], turn: usize) -> usize {
        let wanted: usize = parts.iter().map(|part| part.len()).sum();
        let count = wanted.min(HELD_BYTES_MAX.saturating_sub(self.bytes.len()));
        if count == 0 || !self.connection.reserve(count) {
            return 0;
        }
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
            self.free();
        }
    }

    fn free(&mut self) {
        self.connection.release(self.bytes.len());
        self.bytes = Vec::new();
        self.sent = 0;
    }
}

impl Drop for HeldAnswers {
    fn drop(&mut self) {
        self.free();
    }
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use super::*;
    use crate::address::PeerAddress;
    use crate::budget::Budget;
    use crate::limits::Limits;

    const ROOM: usize = 2 * HELD_BYTES_MAX;

    /// A connection with room for so many bytes.
    fn connection(buffer_per_connection: usize) -> Arc<Connection> {
        let limits = Limits {
            buffer_per_connection,
            ..Limits::default()
        };
        let budget = Arc::new(Budget::new(&limits));
        let (peer, now) = (PeerAddress::Unix, Instant::now());
        Arc::new(Connection::new(peer, false, 1000, budget, now))
    }

    /// How many more bytes have room.
    fn room(connection: &Connection) -> usize {
        let fits = |bytes: &usize| {
            let fits = connection.reserve(*bytes);
            if fits {
                connection.release(*bytes);
            }
            fits
        };
        (0..=ROOM).rev().find(fits).unwrap_or_default()
    }

    #[test]
    fn what_has_room_is_held_in_its_order() {
        let connection = connection(ROOM);
        let mut held = HeldAnswers::new(Arc::clone(&connection));
        let parts = [IoSlice::new(b"ab"), IoSlice::new(b""), IoSlice::new(b"cd")];
        assert_eq!(held.hold(&parts, 7), 4);
        assert_eq!(held.hold(&[IoSlice::new(b"e")], 7), 1);
        assert!(held.is_of(7) && !held.is_of(8));
        held.record_written(3);
        assert_eq!(held.rest(), b"de");
        let large = vec![b'x'; HELD_BYTES_MAX];
        assert_eq!(held.hold(&[IoSlice::new(&large)], 7), HELD_BYTES_MAX - 5);
        assert_eq!(held.hold(&parts, 7), 0);
        assert_eq!(room(&connection), ROOM - HELD_BYTES_MAX);
        held.record_written(HELD_BYTES_MAX - 3);
        assert_eq!((held.is_empty(), room(&connection)), (true, ROOM));
        assert_eq!(held.hold(&parts, 7), 4);
        drop(held);
        assert_eq!(room(&connection), ROOM);
    }

    #[test]
    fn without_room_in_the_budget_nothing_is_held() {
        let connection = connection(HELD_BYTES_MAX);
        assert!(connection.reserve(HELD_BYTES_MAX - 3));
        let mut held = HeldAnswers::new(Arc::clone(&connection));
        assert_eq!(held.hold(&[IoSlice::new(b"abcd")], 7), 0);
        assert!(held.is_empty());
        assert_eq!(held.hold(&[IoSlice::new(b"abc")], 7), 3);
    }
}
