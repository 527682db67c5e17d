//! Sends queued spans in batches, with retries, until the process ends.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use tokio::sync::{mpsc, watch};
use tokio::time::sleep;
use tracing::{info, warn};

use crate::client::{Client, Encoding, ExportError, Taken};
use crate::message::Resource;
use crate::span::FinishedSpan;
use crate::span_message::trace_request;
use crate::span_queue::{Counts, Loss, Signal};

/// The most spans in one export.
pub(crate) const BATCH_SPANS_MAX: usize = 512;
/// How often an export is tried.
const ATTEMPTS_MAX: u32 = 5;
/// How long to wait before the second attempt; twice as long before each further one.
const BACKOFF: Duration = Duration::from_secs(1);

/// Sends spans.
pub(crate) struct SpanExporter {
    pub(crate) spans: mpsc::Receiver<FinishedSpan>,
    pub(crate) sending: Sending,
    pub(crate) resource: Resource,
    pub(crate) interval: Duration,
}

/// Sends the exports of one signal.
pub(crate) struct Sending {
    client: Client,
    signal: Signal,
    counts: Arc<Counts>,
    closing: watch::Receiver<bool>,
    /// Whether the last export failed.
    is_failing: bool,
}

// === impl SpanExporter ===

impl SpanExporter {
    /// Sends spans until the process ends, and then those that are left.
    pub(crate) async fn run(mut self) {
        let mut batch = Vec::with_capacity(BATCH_SPANS_MAX);
        let mut spans: u64 = 0;
        loop {
            self.fill(&mut batch).await;
            let is_closing = self.sending.is_closing();
            if !batch.is_empty() {
                let lost = self.export(&mut batch).await;
                // Later, nobody can read the metric of them any more.
                spans += if self.sending.is_closing() { lost } else { 0 };
            } else if is_closing {
                break;
            }
        }
        if spans > 0 {
            warn!(
                spans,
                "the last spans are lost: the collector does not take them"
            );
        }
    }

    /// Waits for a full batch, until the interval has passed, or until the process ends.
    async fn fill(&mut self, batch: &mut Vec<FinishedSpan>) {
        let closed = self.sending.wait_until_closing();
        tokio::pin!(closed);
        let due = sleep(self.interval);
        tokio::pin!(due);
        while batch.len() < BATCH_SPANS_MAX {
            let room = BATCH_SPANS_MAX - batch.len();
            tokio::select! {
                biased;
                count = self.spans.recv_many(batch, room) => if count == 0 { return },
                () = &mut closed => return,
                () = &mut due => return,
            }
        }
    }

    /// Sends a batch, and counts what becomes of it. Returns how many spans are lost because the
    /// export has failed.
    async fn export(&mut self, batch: &mut Vec<FinishedSpan>) -> u64 {
        let encoding = self.sending.export_format();
        let body = encoding.encode(&trace_request(&self.resource, batch));
        let count = u64::try_from(batch.len()).unwrap_or(u64::MAX);
        batch.clear();
        let counts = Arc::clone(&self.sending.counts);
        match self.sending.send(body, ATTEMPTS_MAX).await {
            Some(taken) => {
                let rejected = taken.rejected.min(count);
                counts.add_sent(count - rejected);
                counts.add_lost(Loss::Rejected, rejected);
                self.sending.warn_of_rejected(&taken);
                0
            }
            None => {
                counts.add_lost(Loss::Failed, count);
                count
            }
        }
    }
}

// === impl Sending ===

impl Sending {
    pub(crate) const fn new(
        client: Client,
        signal: Signal,
        counts: Arc<Counts>,
        closing: watch::Receiver<bool>,
    ) -> Sending {
        Sending {
            client,
            signal,
            counts,
            closing,
            is_failing: false,
        }
    }

    pub(crate) fn is_closing(&self) -> bool {
        *self.closing.borrow()
    }

    /// How exports are encoded.
    pub(crate) const fn export_format(&self) -> Encoding {
        self.client.export_format()
    }

    /// Logs what a collector has rejected, if it has.
    pub(crate) fn warn_of_rejected(&self, taken: &Taken) {
        let Taken { rejected, reason } = taken;
        if *rejected > 0 {
            let signal = self.signal.name();
            warn!(
                signal,
                rejected, reason, "the collector rejects a part of an export"
            );
        }
    }

    /// Waits for the end of the process.
    pub(crate) async fn wait_until_closing(&mut self) {
        // The sender is dropped only with everything.
        drop(self.closing.wait_for(|is_closing| *is_closing).await);
    }

    /// Sends an export, and again if it fails and may succeed later. `None` if it has failed for
    /// good. When the process ends, there is one more attempt at once.
    pub(crate) async fn send(&mut self, body: Bytes, attempts: u32) -> Option<Taken> {
        let mut backoff = BACKOFF;
        for attempt in 1.. {
            let was_closing = self.is_closing();
            let error = match self.client.send(body.clone()).await {
                Ok(taken) => {
                    self.succeed();
                    return Some(taken);
                }
                Err(error) => error,
            };
            let is_last = !error.can_retry || attempt >= attempts || was_closing;
            self.fail(&error);
            if is_last {
                return None;
            }
            let wait = error.retry_after.unwrap_or(backoff);
            backoff *= 2;
            tokio::select! {
                () = sleep(wait) => {}
                () = self.wait_until_closing() => {}
            }
        }
        None
    }

    fn succeed(&mut self) {
        self.counts.add_export(self.signal, true);
        if std::mem::take(&mut self.is_failing) {
            let signal = self.signal.name();
            info!(signal, endpoint = %self.client.endpoint(), "the collector takes exports again");
        }
    }

    /// Counts a failed attempt, and logs the first of a series.
    fn fail(&mut self, error: &ExportError) {
        self.counts.add_export(self.signal, false);
        if !std::mem::replace(&mut self.is_failing, true) {
            let (signal, problem) = (self.signal.name(), &error.problem);
            warn!(signal, endpoint = %self.client.endpoint(), problem, "an export has failed");
        }
    }
}
