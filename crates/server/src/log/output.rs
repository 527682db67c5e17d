//! Standard error as the log's destination: a bounded queue of lines, in front of the thread that
//! writes them. A thread that logs never waits for a reader of the log, nor fails because of one.

use std::collections::VecDeque;
use std::io::{self, Write};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

/// The most lines that wait to be written.
const QUEUE_LINES_MAX: usize = 4_096;
/// The most bytes that they have.
const QUEUE_BYTES_MAX: usize = 4 * 1024 * 1024;
/// How long [`LogGuard::flush`] waits for a reader that is slow.
const FLUSH_WITHIN: Duration = Duration::from_secs(2);

/// Lines that found the queue full.
static DROPPED: AtomicU64 = AtomicU64::new(0);
/// Lines that could not be written.
static FAILED: AtomicU64 = AtomicU64::new(0);

/// Waits until what was logged is written when it is dropped, for at most two seconds.
#[derive(Debug)]
pub struct LogGuard(Arc<Queue>);

/// Takes the lines of one event.
#[derive(Clone, Debug)]
pub(super) struct Lines(Arc<Queue>);

#[derive(Debug, Default)]
struct Queue {
    state: Mutex<State>,
    /// There are lines, or all are written.
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    lines: VecDeque<Vec<u8>>,
    /// Those of `lines`.
    bytes: usize,
    /// The thread writes lines that it has taken.
    is_writing: bool,
}

/// Starts the thread that writes the lines.
///
/// # Errors
///
/// If the system has no thread for it.
pub(super) fn start() -> io::Result<(Lines, LogGuard)> {
    let queue = Arc::<Queue>::default();
    let writer = Arc::clone(&queue);
    let thread = thread::Builder::new().name("log".to_owned());
    thread.spawn(move || writer.write_lines())?;
    Ok((Lines(Arc::clone(&queue)), LogGuard(queue)))
}

/// How many lines of the log were lost, by reason.
pub(crate) fn lost_lines() -> [(&'static str, u64); 2] {
    [
        ("queue_full", DROPPED.load(Ordering::Relaxed)),
        ("write_error", FAILED.load(Ordering::Relaxed)),
    ]
}

// === impl LogGuard ===

impl LogGuard {
    /// Waits until what was logged is written, for at most two seconds.
    pub fn flush(&self) {
        let is_unwritten = |state: &mut State| state.is_writing || !state.lines.is_empty();
        let (queue, state) = (&self.0, self.0.lock());
        let _late = queue
            .changed
            .wait_timeout_while(state, FLUSH_WITHIN, is_unwritten);
    }
}

impl Drop for LogGuard {
    fn drop(&mut self) {
        self.flush();
    }
}

// === impl Queue ===

impl Queue {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn push(&self, line: &[u8]) {
        let mut state = self.lock();
        let bytes = state.bytes + line.len();
        if state.lines.len() == QUEUE_LINES_MAX || bytes > QUEUE_BYTES_MAX {
            DROPPED.fetch_add(1, Ordering::Relaxed);
            return;
        }
        state.lines.push_back(line.to_vec());
        state.bytes = bytes;
        self.changed.notify_all();
    }

    /// Writes lines until the process ends.
    fn write_lines(&self) {
        loop {
            let state = self.lock();
            let lines = self
                .changed
                .wait_while(state, |state| state.lines.is_empty());
            let mut state = lines.unwrap_or_else(PoisonError::into_inner);
            let Some(line) = state.lines.pop_front() else {
                continue;
            };
            state.bytes -= line.len();
            state.is_writing = true;
            drop(state);
            // There is nowhere else to report a failure.
            if io::stderr().write_all(&line).is_err() {
                FAILED.fetch_add(1, Ordering::Relaxed);
            }
            self.lock().is_writing = false;
            self.changed.notify_all();
        }
    }
}

// === impl Lines ===

impl Write for Lines {
    /// Takes the whole line, also if there is no room for it.
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        self.0.push(line);
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
