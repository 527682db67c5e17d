//! Futures that their callers drop.

use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::task::yield_now;
use tokio::time::{Duration, sleep};

use crate::plan::Cancel;

type Timer = Pin<Box<dyn Future<Output = ()> + Send>>;

/// A future that its caller drops before its end.
pub(crate) struct UntilCancelled<F> {
    future: Pin<Box<F>>,
    polls_left: Option<u32>,
    /// Ends when the caller drops it.
    timer: Option<Timer>,
}

// === impl UntilCancelled ===

impl<F> UntilCancelled<F> {
    pub(crate) fn new(future: F, cancel: Option<Cancel>) -> UntilCancelled<F> {
        let timer = match cancel {
            Some(Cancel::Time { millis, yields }) => {
                let timer: Timer = Box::pin(wait(millis, yields));
                Some(timer)
            }
            _ => None,
        };
        UntilCancelled {
            future: Box::pin(future),
            polls_left: cancel.and_then(Cancel::polls),
            timer,
        }
    }
}

impl<F: Future> Future for UntilCancelled<F> {
    type Output = Option<F::Output>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<F::Output>> {
        if self.polls_left == Some(0) {
            return Poll::Ready(None);
        }
        self.polls_left = self.polls_left.map(|polls| polls - 1);
        if let Poll::Ready(output) = self.future.as_mut().poll(context) {
            return Poll::Ready(Some(output));
        }
        let timer = self.timer.as_mut();
        let is_time = timer.is_some_and(|timer| timer.as_mut().poll(context).is_ready());
        match is_time || self.polls_left == Some(0) {
            true => Poll::Ready(None),
            false => Poll::Pending,
        }
    }
}

/// Waits for so long, and then until other tasks have run so often.
async fn wait(millis: u64, yields: u32) {
    if millis > 0 {
        sleep(Duration::from_millis(millis)).await;
    }
    for _ in 0..yields {
        yield_now().await;
    }
}
