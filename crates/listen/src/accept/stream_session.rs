//! Serves a protocol that is not HTTP on a stream.

use std::sync::Arc;

use super::session::{Session, Terms, drive};
use crate::connection::Connection;
use crate::handler::StreamHandler;
use crate::handshake::Stream;
use crate::preface::FirstBytes;
use crate::socket::Socket;

/// A protocol that is not HTTP, with what serves it.
#[derive(Clone, Copy, Debug)]
pub struct Streams<H>(
    /// Serves each connection.
    pub H,
);

// === impl Streams ===

impl<H: StreamHandler> Session for Streams<H> {
    type Counts = H;

    fn counts(&self) -> &H {
        &self.0
    }

    async fn serve(&self, stream: impl Stream, known: &Arc<Connection>, terms: &Terms) {
        let within = terms.limits.write_timeout;
        let first = FirstBytes::default();
        let socket = Socket::new(stream, first, Arc::clone(known), None, within);
        let socket = socket.with_end_on_drain(terms.limits.drain_timeout);
        let mut run = Box::pin(self.0.run(socket, known));
        // Nothing to tell it: its stream ends.
        drive(&mut run, known, |_| ()).await;
    }
}
