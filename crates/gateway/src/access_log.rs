//! The access log: a bounded queue of lines, in front of the thread that writes them.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{SyncSender, sync_channel};
use std::thread;
use std::time::Duration;

use prometheus_client::metrics::counter::Counter;
use tokio::time::timeout;
use tollgate_http::InvalidSetting;
use tollgate_listen::Throttle;
use tracing::warn;

use crate::log_writer::{LogWriter, Order, Shared};
use crate::metrics::Metrics;
use crate::settings::{AccessLogFormat, AccessLogSettings};

/// The most lines that wait to be written.
const QUEUE_LINES_MAX: usize = 16_384;
/// The most bytes that they have.
const QUEUE_BYTES_MAX: usize = 8 * 1024 * 1024;
/// How long [`AccessLog::flush`] waits for a disk that is slow.
const FLUSH_WITHIN: Duration = Duration::from_secs(2);

/// Takes lines. It never waits for the disk: what finds the queue full is dropped and counted.
#[derive(Debug)]
pub(crate) struct AccessLog {
    format: AccessLogFormat,
    orders: SyncSender<Order>,
    shared: Arc<Shared>,
    accepted: AtomicU64,
    dropped: Counter,
    drops: Throttle,
}

// === impl AccessLog ===

impl AccessLog {
    /// Opens the file, and starts the thread.
    ///
    /// # Errors
    ///
    /// [`InvalidSetting`] if the file cannot be opened.
    pub(crate) fn open(
        settings: &AccessLogSettings,
        metrics: &Metrics,
    ) -> Result<AccessLog, InvalidSetting> {
        let unusable = |error: io::Error| InvalidSetting {
            at: "access_log.path".to_owned(),
            problem: format!("{} cannot be opened: {error}", settings.path.display()),
            instead: "name a file in a directory that exists and that this user may write to, \
                      or '-' for standard output"
                .to_owned(),
        };
        let shared = Arc::<Shared>::default();
        let failed = metrics.dropped_lines("write_error");
        let writer = LogWriter::open(settings, Arc::clone(&shared), failed);
        let writer = writer.map_err(unusable)?;
        let (orders, received) = sync_channel(QUEUE_LINES_MAX);
        let thread = thread::Builder::new().name("access-log".to_owned());
        let started = thread.spawn(move || writer.run(&received));
        started.map_err(unusable)?;
        Ok(AccessLog {
            format: settings.format,
            orders,
            shared,
            accepted: AtomicU64::new(0),
            dropped: metrics.dropped_lines("queue_full"),
            drops: Throttle::default(),
        })
    }

    pub(crate) const fn format(&self) -> AccessLogFormat {
        self.format
    }

    /// Queues a line for the disk.
    pub(crate) fn push(&self, line: String) {
        let bytes = line.len();
        // Relaxed: a bound, which requests at the same time may miss by a line each.
        let queued = self.shared.queued.fetch_add(bytes, Ordering::Relaxed);
        if queued + bytes <= QUEUE_BYTES_MAX && self.orders.try_send(Order::Line(line)).is_ok() {
            self.accepted.fetch_add(1, Ordering::Relaxed);
            return;
        }
        self.shared.queued.fetch_sub(bytes, Ordering::Relaxed);
        self.dropped.inc();
        if let Some(withheld) = self.drops.allow() {
            warn!(
                withheld,
                "the access log is written too slowly, and lines are dropped: give \
                 `gateway.access_log.path` a faster disk"
            );
        }
    }

    /// Opens the file again, once the lines that are being written are written.
    pub(crate) fn reopen(&self) {
        self.shared.reopen.store(true, Ordering::Relaxed);
        // If the queue is full, the writer is awake, and sees the order after its batch.
        let _ = self.orders.try_send(Order::Wake);
    }

    /// Waits until the lines so far are written, for at most [`FLUSH_WITHIN`].
    pub(crate) async fn flush(&self) {
        let accepted = self.accepted.load(Ordering::Relaxed);
        let mut done = self.shared.done.subscribe();
        let written = done.wait_for(|done| *done >= accepted);
        if timeout(FLUSH_WITHIN, written).await.is_err() {
            warn!("the last lines of the access log could not be written in time");
        }
    }
}
