//! Serves a protocol that is not HTTP on a stream.

use std::sync::Arc;

use super::session::{Session, Terms, drive};
use crate::connection::Connection;
use crate::handler::StreamHandler;
use crate::handshake::Stream;
use crate::linger::linger_in_drain;
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
        let (within, drain_timeout) = (terms.limits.write_timeout, terms.limits.drain_timeout);
        let first = FirstBytes::default();
        let socket = Socket::new(stream, first, Arc::clone(known), None, within);
        let mut socket = socket.with_end_on_drain(drain_timeout);
        let mut run = Box::pin(async move {
            self.0.run(&mut socket, known).await;
            // In a box of its own: most connections never need its memory.
            if socket.forget_drain() {
                Box::pin(linger_in_drain(&mut socket, known, drain_timeout)).await;
            }
        });
        // Nothing to tell it: its stream ends.
        drive(&mut run, known, |_| ()).await;
    }
}
