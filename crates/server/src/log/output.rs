//! Standard error as the log's destination: a bounded queue of lines, in front of the thread that
//! writes them. A thread that logs never waits for a reader of the log, nor fails because of one.

use std::io::{self, Write};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::sync_channel;
use std::thread;
use std::time::Duration;

use tracing_appender::non_blocking::{ErrorCounter, NonBlocking, NonBlockingBuilder, WorkerGuard};

/// The most lines that wait to be written.
const QUEUE_LINES_MAX: usize = 4_096;
/// How long [`LogGuard`] waits for a reader that is slow.
const FLUSH_WITHIN: Duration = Duration::from_secs(2);

/// Lines that found the queue full.
static DROPPED: OnceLock<ErrorCounter> = OnceLock::new();
/// Lines that could not be written.
static FAILED: AtomicU64 = AtomicU64::new(0);

/// Writes what is queued when it is dropped, for at most two seconds. What is logged later is lost.
#[derive(Debug)]
pub struct LogGuard(Option<WorkerGuard>);

/// Standard error, whose failures are counted.
struct Stderr;

/// Starts the thread that writes the lines.
pub(super) fn start() -> (NonBlocking, LogGuard) {
    let builder = NonBlockingBuilder::default();
    let builder = builder.buffered_lines_limit(QUEUE_LINES_MAX);
    let (writer, guard) = builder.thread_name("log").finish(Stderr);
    // A second log of a process is not in use.
    let _ = DROPPED.set(writer.error_counter());
    (writer, LogGuard(Some(guard)))
}

/// How many lines of the log were lost, by reason.
pub(crate) fn lost_lines() -> [(&'static str, u64); 2] {
    let dropped = DROPPED.get().map_or(0, ErrorCounter::dropped_lines);
    let dropped = u64::try_from(dropped).unwrap_or(u64::MAX);
    [
        ("queue_full", dropped),
        ("write_error", FAILED.load(Ordering::Relaxed)),
    ]
}

// === impl LogGuard ===

impl Drop for LogGuard {
    fn drop(&mut self) {
        let guard = self.0.take();
        // A thread of its own: if the queue is full, the guard prints that, which fails without a
        // reader of standard output, or waits for it.
        let (ended, end) = sync_channel(1);
        let flushing = thread::Builder::new().spawn(move || {
            drop(guard);
            let _ = ended.send(());
        });
        if flushing.is_ok() {
            let _ = end.recv_timeout(FLUSH_WITHIN);
        }
    }
}

// === impl Stderr ===

impl Write for Stderr {
    /// Takes a whole line, also if it cannot be written: there is nowhere else to report that.
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        if io::stderr().write_all(line).is_err() {
            FAILED.fetch_add(1, Ordering::Relaxed);
        }
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
