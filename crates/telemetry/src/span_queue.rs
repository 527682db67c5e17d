//! Spans that wait to be sent.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tokio::sync::mpsc;

use crate::span::FinishedSpan;

/// The most spans that wait to be sent, beside those that are being sent.
pub const QUEUED_SPANS_MAX: usize = 4096;

/// Why a span is not sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Loss {
    /// The queue is full.
    QueueFull,
    /// The collector does not take it, after all retries.
    Failed,
    /// The collector has rejected it.
    Rejected,
    /// The process ends first.
    Shutdown,
}

/// What became of spans, and of exports.
#[derive(Debug, Default)]
pub(crate) struct Counts {
    sent: AtomicU64,
    lost: [AtomicU64; Loss::ALL.len()],
    /// Of traces and of metrics, those that succeeded and those that failed.
    exports: [[AtomicU64; 2]; 2],
}

/// What is exported.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Signal {
    Traces,
    Metrics,
}

/// The end of the queue that spans are added to.
#[derive(Debug)]
pub(crate) struct SpanQueue {
    spans: mpsc::Sender<FinishedSpan>,
    counts: Arc<Counts>,
}

// === impl SpanQueue ===

impl SpanQueue {
    pub(crate) fn new(counts: &Arc<Counts>) -> (SpanQueue, mpsc::Receiver<FinishedSpan>) {
        let (spans, received) = mpsc::channel(QUEUED_SPANS_MAX);
        let counts = Arc::clone(counts);
        (SpanQueue { spans, counts }, received)
    }

    /// Adds a span. If there is no room, it is counted and lost: a decision never waits for one.
    pub(crate) fn push(&self, span: FinishedSpan) {
        match self.spans.try_send(span) {
            Ok(()) => {}
            Err(mpsc::error::TrySendError::Full(_)) => self.counts.add_lost(Loss::QueueFull, 1),
            Err(mpsc::error::TrySendError::Closed(_)) => self.counts.add_lost(Loss::Shutdown, 1),
        }
    }
}

// === impl Loss ===

impl Loss {
    pub(crate) const ALL: [Loss; 4] = [
        Loss::QueueFull,
        Loss::Failed,
        Loss::Rejected,
        Loss::Shutdown,
    ];

    const fn name(self) -> &'static str {
        match self {
            Loss::QueueFull => "queue_full",
            Loss::Failed => "failed",
            Loss::Rejected => "rejected",
            Loss::Shutdown => "shutdown",
        }
    }

    const fn index(self) -> usize {
        match self {
            Loss::QueueFull => 0,
            Loss::Failed => 1,
            Loss::Rejected => 2,
            Loss::Shutdown => 3,
        }
    }
}

// === impl Signal ===

impl Signal {
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Signal::Traces => "traces",
            Signal::Metrics => "metrics",
        }
    }

    const fn index(self) -> usize {
        match self {
            Signal::Traces => 0,
            Signal::Metrics => 1,
        }
    }
}

// === impl Counts ===

impl Counts {
    pub(crate) fn add_lost(&self, reason: Loss, count: u64) {
        self.lost[reason.index()].fetch_add(count, Ordering::Relaxed);
    }

    pub(crate) fn add_sent(&self, count: u64) {
        self.sent.fetch_add(count, Ordering::Relaxed);
    }

    pub(crate) fn add_export(&self, signal: Signal, is_ok: bool) {
        self.exports[signal.index()][usize::from(is_ok)].fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn count_sent(&self) -> u64 {
        self.sent.load(Ordering::Relaxed)
    }

    /// How many spans were dropped, by reason.
    pub(crate) fn count_lost(&self) -> impl Iterator<Item = (&'static str, u64)> {
        let counts = Loss::ALL.into_iter().zip(&self.lost);
        counts.map(|(reason, count)| (reason.name(), count.load(Ordering::Relaxed)))
    }

    /// How many exports there were, by signal and by whether they succeeded.
    pub(crate) fn exports(&self) -> impl Iterator<Item = (&'static str, bool, u64)> {
        let signals = [Signal::Traces, Signal::Metrics];
        let counts = signals.into_iter().zip(&self.exports);
        counts.flat_map(|(signal, [failed, ok])| {
            let both = [(false, failed), (true, ok)];
            both.map(|(is_ok, count)| (signal.name(), is_ok, count.load(Ordering::Relaxed)))
        })
    }
}
