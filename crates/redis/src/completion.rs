//! Calls that end although their caller goes away.

use std::future::poll_fn;
use std::task::Poll;

use tokio::task::JoinError;

/// Makes a call, and leaves it to a task of its own once it waits, so that it is completed even if
/// the caller goes away.
///
/// # Errors
///
/// If the task panics, or is stopped with its runtime.
pub async fn complete<T: Send + 'static>(
    call: impl Future<Output = T> + Send + 'static,
) -> Result<T, JoinError> {
    let mut call = Box::pin(call);
    // It enters its queue here: before whatever this caller begins next.
    let begun = poll_fn(|context| Poll::Ready(call.as_mut().poll(context))).await;
    match begun {
        Poll::Ready(value) => Ok(value),
        Poll::Pending => tokio::spawn(call).await,
    }
}
