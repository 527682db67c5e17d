//! When this side ends a call that may never end by itself.

use std::pin::Pin;
use std::sync::Arc;

use tollgate_listen::{Connection, ShutdownSignal};
use tonic::Status;

/// Ready with the status with which a call has to end.
pub(crate) type CallEnd = Pin<Box<dyn Future<Output = Status> + Send>>;

/// The end of a call on `connection`: on shutdown, or once the connection drains, which it could
/// not do with the call.
pub(crate) fn call_end(connection: &Arc<Connection>, mut shutdown: ShutdownSignal) -> CallEnd {
    let connection = Arc::clone(connection);
    Box::pin(async move {
        let text = tokio::select! {
            // On shutdown, connections drain as well.
            biased;
            () = shutdown.wait() => "the service is stopping; retry with another instance",
            () = connection.wait_until_drain() => "the connection is closing; retry on a new one",
        };
        Status::unavailable(text)
    })
}
