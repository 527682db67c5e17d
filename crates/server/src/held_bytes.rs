//! Bytes of an answer, which count as the connection's until they have been sent.

use std::sync::Arc;

use bytes::Bytes;
use tollgate_listen::Connection;

/// The longest answer for which no bytes are reserved: what is counted for every request covers it.
/// All bytes of a longer answer are reserved.
pub(crate) const ANSWER_BYTES_FREE: usize = 2 * 1024;

/// An answer, or a part of one, and how many bytes are reserved for it.
struct HeldBytes {
    bytes: Bytes,
    reserved: usize,
    connection: Arc<Connection>,
}

/// Returns the same bytes, and takes over their reservation: it is released when their last copy is
/// dropped.
pub(crate) fn hold(bytes: Bytes, reserved: usize, connection: Arc<Connection>) -> Bytes {
    Bytes::from_owner(HeldBytes {
        bytes,
        reserved,
        connection,
    })
}

// === impl HeldBytes ===

impl AsRef<[u8]> for HeldBytes {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

impl Drop for HeldBytes {
    fn drop(&mut self) {
        self.connection.release(self.reserved);
    }
}
