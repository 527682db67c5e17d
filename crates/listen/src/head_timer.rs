//! The timer for the heads of HTTP/1 requests: one for each connection, not one for each request.
//!
//! The HTTP library sets a timer before each head and drops it when the head has arrived. A timer
//! of the runtime that is set and dropped costs an allocation and two locks, more than reading a
//! short head. Here, dropping one leaves the runtime's timer as it is, and the next deadline, which
//! is later, is only noted: the timer is set again when it fires too early.

use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant};

use hyper::rt::{Sleep, Timer};
use tokio::time;

/// The timer of one connection. At most one of its deadlines is waited for at a time.
#[derive(Clone, Debug, Default)]
pub(crate) struct HeadTimer(Arc<Mutex<Option<Pin<Box<time::Sleep>>>>>);

/// A deadline that is waited for.
#[derive(Debug)]
struct Deadline {
    at: time::Instant,
    timer: HeadTimer,
}

impl Timer for HeadTimer {
    fn sleep(&self, duration: Duration) -> Pin<Box<dyn Sleep>> {
        self.sleep_until(self.now() + duration)
    }

    fn sleep_until(&self, deadline: Instant) -> Pin<Box<dyn Sleep>> {
        Box::pin(Deadline {
            at: deadline.into(),
            timer: self.clone(),
        })
    }

    fn now(&self) -> Instant {
        time::Instant::now().into()
    }
}

impl Sleep for Deadline {}

impl Future for Deadline {
    type Output = ();

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let mut timer = self.timer.0.lock().unwrap_or_else(PoisonError::into_inner);
        let timer = timer.get_or_insert_with(|| Box::pin(time::sleep_until(self.at)));
        if self.at < timer.deadline() {
            timer.as_mut().reset(self.at);
        }
        ready!(timer.as_mut().poll(cx));
        if timer.deadline() >= self.at {
            return Poll::Ready(());
        }
        timer.as_mut().reset(self.at);
        timer.as_mut().poll(cx)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn in_millis(timer: &HeadTimer, millis: u64) -> Deadline {
        Deadline {
            at: time::Instant::now() + Duration::from_millis(millis),
            timer: timer.clone(),
        }
    }

    async fn elapsed(timer: &HeadTimer, millis: u64) -> Duration {
        let began = time::Instant::now();
        in_millis(timer, millis).await;
        began.elapsed()
    }

    /// Polls a deadline once and drops it, as for a head that arrives.
    async fn begin_and_drop(timer: &HeadTimer, millis: u64) {
        let mut deadline = in_millis(timer, millis);
        let poll = |cx: &mut Context<'_>| Poll::Ready(Pin::new(&mut deadline).poll(cx));
        let polled = std::future::poll_fn(poll).await;
        assert!(polled.is_pending());
    }

    #[tokio::test(start_paused = true)]
    async fn a_deadline_is_kept_whatever_the_timer_was_set_to_before() {
        let timer = HeadTimer::default();
        begin_and_drop(&timer, 1000).await;
        time::advance(Duration::from_millis(600)).await;
        // The timer fires 400 ms from now, and this is later.
        assert_eq!(elapsed(&timer, 1000).await, Duration::from_millis(1000));
        // It has fired.
        assert_eq!(elapsed(&timer, 10).await, Duration::from_millis(10));
        begin_and_drop(&timer, 1000).await;
        // And this is earlier.
        assert_eq!(elapsed(&timer, 50).await, Duration::from_millis(50));
        assert_eq!(elapsed(&timer, 0).await, Duration::ZERO);
    }
}
