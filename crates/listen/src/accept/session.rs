//! What happens on a connection after its handshake.

use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use crate::connection::{Connection, Order};
use crate::handler::ConnectionCounts;
use crate::handshake::Stream;
use crate::limits::Limits;

/// How long a connection with a reserved permit may take to send its health check.
const RESERVED_TIMEOUT: Duration = Duration::from_secs(1);

/// Serves the connections of a listener, each from the end of its handshake on.
pub(crate) trait Session: Clone + Send + Sync + 'static {
    /// Counts what happens to them.
    type Counts: ConnectionCounts;

    fn counts(&self) -> &Self::Counts;

    /// Serves requests on any stream until it ends.
    fn serve(
        &self,
        stream: impl Stream,
        known: &Arc<Connection>,
    ) -> impl Future<Output = ()> + Send;
}

/// How long a connection may take to send the head of a request.
pub(super) fn header_timeout(limits: &Limits, connection: &Connection) -> Duration {
    let limit = limits.header_timeout;
    if connection.is_reserved() {
        return limit.min(RESERVED_TIMEOUT);
    }
    limit
}

/// Drives a connection to its end: `None` if this side closed it. Each poll is a new quantum.
pub(super) async fn drive<C: Future + Unpin>(
    connection: &mut C,
    known: &Connection,
    shut_down: fn(Pin<&mut C>),
) -> Option<C::Output> {
    loop {
        let polled = poll_fn(|cx| {
            known.quantum().begin(cx);
            Pin::new(&mut *connection).poll(cx)
        });
        let order = tokio::select! {
            biased;
            ended = polled => return Some(ended),
            order = known.next_order() => order,
        };
        shut_down(Pin::new(connection));
        if order == Order::Close {
            // Sends what the shutdown has queued, as far as that needs no waiting.
            poll_fn(|cx| Poll::Ready(Pin::new(&mut *connection).poll(cx).is_ready())).await;
            return None;
        }
    }
}
