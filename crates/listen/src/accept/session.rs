//! What happens on a connection after its handshake.

use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use tokio::time::sleep;

use super::warnings::Warnings;
use crate::budget::Budget;
use crate::connection::{Connection, Order};
use crate::handler::ConnectionCounts;
use crate::handshake::Stream;
use crate::limits::Limits;
use crate::protocol::Protocol;

/// How long a connection with a reserved permit may take to send its health check.
const RESERVED_TIMEOUT: Duration = Duration::from_secs(1);

/// Serves the connections of a listener, each from the end of its handshake on: [`crate::Http`] or
/// [`crate::Streams`]. Other crates cannot implement it, because they cannot name `Terms`.
pub trait Session: Clone + Send + Sync + 'static {
    /// Counts what happens to them.
    type Counts: ConnectionCounts;

    /// What counts.
    fn counts(&self) -> &Self::Counts;

    /// Serves requests on any stream until it ends.
    fn serve(
        &self,
        stream: impl Stream,
        known: &Arc<Connection>,
        terms: &Terms,
    ) -> impl Future<Output = ()> + Send;
}

/// What holds for every connection of a listener, whatever is served on it.
#[derive(Clone, Debug)]
pub struct Terms {
    pub(super) protocol: Protocol,
    pub(super) half_close: bool,
    pub(super) limits: Limits,
    pub(super) budget: Arc<Budget>,
    pub(super) warnings: Arc<Warnings>,
}

/// How long a connection may take to send the head of a request.
pub(super) fn header_timeout(limits: &Limits, connection: &Connection) -> Duration {
    let limit = limits.header_timeout;
    if connection.is_reserved() {
        return limit.min(RESERVED_TIMEOUT);
    }
    limit
}

/// Awaits what comes before the first request of a connection: `None` if the connection has to end
/// instead.
///
/// A drain leaves it so much time, up to half of `drain_timeout`, so that it ends before the drain
/// does: the request may have been sent already, and closing the socket would lose it.
pub(super) async fn before_request<S: Future>(
    stage: S,
    known: &Connection,
    in_drain: Duration,
    limits: &Limits,
) -> Option<S::Output> {
    let mut stage = pin!(stage);
    let mut stage = poll_fn(|cx| {
        known.quantum().begin_early(cx);
        stage.as_mut().poll(cx)
    });
    let order = tokio::select! {
        // What is there is read before an order is obeyed.
        biased;
        ended = &mut stage => return Some(ended),
        order = known.next_order() => order,
    };
    if order == Order::Close {
        return None;
    }
    let ended = tokio::select! {
        biased;
        ended = &mut stage => ended,
        _close = known.next_order() => return None,
        () = sleep(in_drain.min(limits.drain_timeout / 2)) => return None,
    };
    known.repeat_order();
    Some(ended)
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
