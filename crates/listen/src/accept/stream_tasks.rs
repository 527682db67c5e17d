//! The streams of a connection of HTTP/2, each in a task of its own, and what becomes of those
//! whose peer does not take their response.
//!
//! A peer holds back a single response if it opens no window for it, such as for a video that is
//! paused, and all of them if it opens none for the connection, or does not read. The HTTP library
//! does not say which it is, so what the others do meanwhile decides it. Their bytes leave in turn,
//! so that on a slow line a response may have to wait for longer than `write_timeout` until those
//! of many others have left.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use hyper::rt::Executor;
use pin_project_lite::pin_project;
use tokio::time::Sleep;

use super::warnings::Warnings;
use crate::backlog::Backlog;
use crate::connection::{Close, Connection};
use crate::drain_end::poll_timer;
use crate::handler::ConnectionCounts;
use crate::outflow::{Open, Outflow, Waiting};

/// The fewest bytes of a response that must leave within `write_timeout`, if there are so many. A
/// peer that opens the window by one byte at a time would keep its stream for ever.
const BYTES_MIN: u64 = 1024;
/// So many bytes of a connection for each response that waits, and each of them has had its turns.
/// In a turn, a part of a response leaves, of which the largest have some 64 KiB. It follows one in
/// which a byte may leave, with which the HTTP library claims the window for the others.
const TURN_BYTES: u64 = 256 * 1024;

/// Runs the streams of one connection.
pub(super) struct StreamTasks<C>(Arc<Shared<C>>);

/// What the streams of a connection share.
struct Shared<C> {
    counts: C,
    connection: Arc<Connection>,
    outflow: Arc<Outflow>,
    write_timeout: Duration,
    warnings: Arc<Warnings>,
}

pin_project! {
    /// A stream, until it has ended or is reset: the HTTP library resets one that is dropped.
    struct StreamTask<F, C> {
        #[pin]
        stream: F,
        watch: Watch<C>,
    }
}

/// Watches whether the response of a stream leaves.
struct Watch<C> {
    backlog: Arc<Backlog>,
    tasks: StreamTasks<C>,
    period: Option<Period>,
    timer: Option<Pin<Box<Sleep>>>,
    _open: Open,
}

/// A period of `write_timeout`, which begins while part of the response waits.
struct Period {
    /// How much of the response must have left at its end.
    due: u64,
    /// How much of the connection's responses had left when it began.
    connection_sent: u64,
    /// The same when the first period began since which too little of this one leaves.
    sent_before: u64,
    _waiting: Waiting,
}

// === impl StreamTasks ===

impl<C> StreamTasks<C> {
    /// For a connection.
    pub(super) fn new(
        counts: C,
        connection: &Arc<Connection>,
        write_timeout: Duration,
        warnings: &Arc<Warnings>,
    ) -> StreamTasks<C> {
        StreamTasks(Arc::new(Shared {
            counts,
            connection: Arc::clone(connection),
            outflow: Arc::default(),
            write_timeout,
            warnings: Arc::clone(warnings),
        }))
    }
}

impl<C> Clone for StreamTasks<C> {
    fn clone(&self) -> StreamTasks<C> {
        StreamTasks(Arc::clone(&self.0))
    }
}

impl<F, C> Executor<F> for StreamTasks<C>
where
    F: Future<Output: Send> + Send + 'static,
    C: ConnectionCounts,
{
    fn execute(&self, stream: F) {
        let backlog = Backlog::new(Arc::clone(&self.0.outflow));
        let watch = Watch {
            backlog: Arc::clone(&backlog),
            tasks: self.clone(),
            period: None,
            timer: None,
            _open: Open::new(Arc::clone(&self.0.outflow)),
        };
        tokio::spawn(backlog.scope(StreamTask { stream, watch }));
    }
}

// === impl StreamTask ===

impl<F: Future, C: ConnectionCounts> Future for StreamTask<F, C> {
    type Output = ();

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let this = self.project();
        match this.stream.poll(cx) {
            Poll::Ready(_) => {
                this.watch.backlog.record_end();
                Poll::Ready(())
            }
            Poll::Pending => this.watch.poll_end(cx),
        }
    }
}

// === impl Watch ===

impl<C: ConnectionCounts> Watch<C> {
    /// Ready once the stream has to end, because its peer does not take the response.
    fn poll_end(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        loop {
            if self.period.is_none() && !self.backlog.waits() {
                return Poll::Pending;
            }
            let outflow = &self.tasks.0.outflow;
            self.period
                .get_or_insert_with(|| Period::new(&self.backlog, outflow));
            ready!(poll_timer(&mut self.timer, self.tasks.0.write_timeout, cx));
            self.timer = None;
            let late = self.period.take().filter(|period| self.is_late(period));
            if let Some(period) = late {
                let Some(next) = self.tasks.0.wait_for_turn(period) else {
                    return Poll::Ready(());
                };
                self.period = Some(next);
            }
        }
    }

    /// Whether too little has left by the end of a period.
    fn is_late(&self, period: &Period) -> bool {
        self.backlog.sent_bytes() < period.due
    }
}

// === impl Period ===

impl Period {
    fn new(backlog: &Backlog, outflow: &Arc<Outflow>) -> Period {
        let connection_sent = outflow.sent_bytes();
        Period {
            due: backlog.given_bytes().min(backlog.sent_bytes() + BYTES_MIN),
            connection_sent,
            sent_before: connection_sent,
            _waiting: Waiting::new(Arc::clone(outflow)),
        }
    }
}

// === impl Shared ===

impl<C: ConnectionCounts> Shared<C> {
    /// What becomes of a response of which too little has left in this period: another period, if
    /// the peer takes others, so slowly that it may not have been the turn of this one. Otherwise
    /// its stream ends, or, if the peer has taken nothing at all, the connection.
    fn wait_for_turn(&self, period: Period) -> Option<Period> {
        let (sent, waiting) = (self.outflow.sent_bytes(), self.outflow.waiting_count());
        let in_period = sent - period.connection_sent;
        if in_period == 0 && self.outflow.only_waits() {
            self.connection.close(Close::UnreadAnswers);
            return None;
        }
        let is_steady = in_period >= waiting * BYTES_MIN;
        if is_steady && sent - period.sent_before < waiting * TURN_BYTES {
            return Some(Period {
                connection_sent: sent,
                ..period
            });
        }
        self.counts.count_reset();
        self.warnings.log_reset(self.connection.peer());
        None
    }
}
