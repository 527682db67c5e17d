//! Bytes of an answer, which count as the connection's until they have been sent.

use std::sync::Arc;

use bytes::Bytes;
use tollgate_listen::Connection;

/// Answers of so many bytes are part of what a request takes anyway. More is reserved.
pub(crate) const ANSWER_BYTES_FREE: usize = 2 * 1024;

/// An answer, or the part of one, for which so many bytes are reserved.
struct HeldBytes {
    bytes: Bytes,
    reserved: usize,
    connection: Arc<Connection>,
}

/// The same bytes, for which so many were reserved: these are released when the last copy is
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
