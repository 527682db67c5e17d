//! Serves a protocol that is not HTTP on a stream.

use std::sync::Arc;

use super::session::{Session, drive};
use crate::connection::Connection;
use crate::handler::StreamHandler;
use crate::handshake::Stream;
use crate::limits::Limits;
use crate::preface::FirstBytes;
use crate::socket::Socket;

/// Serves whatever its handler speaks.
#[derive(Clone)]
pub(crate) struct StreamSession<H> {
    pub(crate) handler: H,
    pub(crate) limits: Limits,
}

// === impl StreamSession ===

impl<H: StreamHandler> Session for StreamSession<H> {
    type Counts = H;

    fn counts(&self) -> &H {
        &self.handler
    }

    async fn serve(&self, stream: impl Stream, known: &Arc<Connection>) {
        let within = self.limits.write_timeout;
        let first = FirstBytes::default();
        let socket = Socket::new(stream, first, Arc::clone(known), None, within);
        let socket = socket.with_end_on_drain(self.limits.drain_timeout);
        let mut run = Box::pin(self.handler.run(socket, known));
        // Nothing to tell it: its stream ends.
        drive(&mut run, known, |_| ()).await;
    }
}
