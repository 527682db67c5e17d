//! What a listener needs from the service behind it.

use std::convert::Infallible;
use std::error::Error;
use std::sync::Arc;

use hyper::body::{Body, Incoming};
use hyper::service::Service;
use hyper::{Request, Response};

use crate::connection::Connection;

/// Serves the connections of one listener, and counts what happens to them.
pub trait Handler: Clone + Send + Sync + 'static {
    /// The body of a response.
    type Body: Body<Data: Send, Error: Into<Box<dyn Error + Send + Sync>>> + Send + 'static;
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

    /// A connection was opened.
    fn count_open(&self);

    /// A connection has ended.
    fn count_end(&self);

    /// The listener closed a connection, for this reason: a label of a metric.
    fn count_close(&self, reason: &'static str);

    /// A request got an error before the service saw it, of this kind: a label of a metric.
    fn count_error(&self, kind: &'static str);
}
