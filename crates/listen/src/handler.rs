//! What a listener needs from the service behind it.

use std::convert::Infallible;
use std::error::Error;
use std::sync::Arc;

use hyper::body::{Body, Bytes, Incoming};
use hyper::service::Service;
use hyper::{Request, Response};

use crate::connection::Connection;
use crate::handshake::Stream;

/// Counts what happens to the connections of one listener.
pub trait ConnectionCounts: Clone + Send + Sync + 'static {
    /// A connection was opened.
    fn count_open(&self);

    /// A connection has ended.
    fn count_end(&self);

    /// The listener closed a connection, for this reason: a label of a metric.
    fn count_close(&self, reason: &'static str);

    /// A response over HTTP/2 was reset, because its peer did not take it.
    fn count_reset(&self);

    /// A request got an error before the service saw it, of this kind: a label of a metric.
    fn count_error(&self, kind: &'static str);
}

/// Serves the connections of one listener that speaks HTTP.
pub trait Handler: ConnectionCounts {
    /// The body of a response.
    type Body: Body<Data = Bytes, Error: Into<Box<dyn Error + Send + Sync>>> + Send + 'static;
    /// Answers the requests of one connection.
    type Service: Service<
            Request<Incoming>,
            Response = Response<Self::Body>,
            Error = Infallible,
            Future: Send + 'static,
        > + Send
        + 'static;

    /// The service for a connection that was just accepted.
    fn service(&self, connection: &Arc<Connection>) -> Self::Service;
}

/// Serves the connections of one listener that speaks a protocol of its own.
pub trait StreamHandler: ConnectionCounts {
    /// Serves a connection that was just accepted, until it ends, and shuts the stream down.
    ///
    /// The stream closes if the peer does not read for [`crate::Limits::write_timeout`], and pauses
    /// reading at the end of the connection's quantum. When the connection is drained, a reader
    /// sees the end once everything that the peer has sent was read and nothing has arrived for a
    /// quarter of a second, or at half of [`crate::Limits::drain_timeout`], although more may
    /// arrive: the handler has the other half to answer what it has read. Reading has no timeout:
    /// the handler says how long a request may take to arrive, and whether a connection may be
    /// idle; an idle one makes room for a new one when the listener is full.
    fn run(
        &self,
        stream: &mut impl Stream,
        connection: &Arc<Connection>,
    ) -> impl Future<Output = ()> + Send;
}
