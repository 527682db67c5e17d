//! The thread that writes the access log, so that a slow disk delays no request.

use std::fs::{File, OpenOptions};
use std::io::{self, ErrorKind, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::Receiver;

use prometheus_client::metrics::counter::Counter;
use tokio::sync::watch;
use tollgate_listen::Throttle;
use tracing::{error, warn};

use crate::settings::AccessLogSettings;

/// About how many bytes are written at once.
const BATCH_BYTES: usize = 64 * 1024;
/// Who may read a new file: lines have what clients send.
const FILE_MODE: u32 = 0o640;

/// What the writer is sent.
#[derive(Debug)]
pub(crate) enum Order {
    /// A line, with its end.
    Line(String),
    /// Look at [`Shared`].
    Wake,
}

/// What the writer and those who send lines share.
#[derive(Debug, Default)]
pub(crate) struct Shared {
    /// Bytes of lines that wait.
    pub(crate) queued: AtomicUsize,
    /// The file should be opened again.
    pub(crate) reopen: AtomicBool,
    /// How many lines were written or given up.
    pub(crate) done: watch::Sender<u64>,
}

/// Writes lines in batches.
#[derive(Debug)]
pub(crate) struct LogWriter {
    sink: Sink,
    shared: Arc<Shared>,
    failed: Counter,
    failures: Throttle,
    batch: Vec<u8>,
    /// Lines in the batch, and their bytes.
    lines: u64,
    bytes: usize,
    /// The last write failed, maybe in the middle of a line.
    is_torn: bool,
}

/// Where lines go.
#[derive(Debug)]
enum Sink {
    Stdout,
    File { path: PathBuf, file: File },
}

// === impl LogWriter ===

impl LogWriter {
    /// `failed` counts lines that cannot be written.
    ///
    /// # Errors
    ///
    /// If the file cannot be opened.
    pub(crate) fn open(
        settings: &AccessLogSettings,
        shared: Arc<Shared>,
        failed: Counter,
    ) -> io::Result<LogWriter> {
        let sink = match settings.is_stdout() {
            true => Sink::Stdout,
            false => Sink::open(&settings.path)?,
        };
        Ok(LogWriter {
            sink,
            shared,
            failed,
            failures: Throttle::default(),
            batch: Vec::with_capacity(BATCH_BYTES),
            lines: 0,
            bytes: 0,
            is_torn: false,
        })
    }

    /// Writes until nobody can send lines any more.
    pub(crate) fn run(mut self, orders: &Receiver<Order>) {
        while let Ok(first) = orders.recv() {
            self.take(first);
            while self.batch.len() < BATCH_BYTES
                && let Ok(order) = orders.try_recv()
            {
                self.take(order);
            }
            self.write();
            self.reopen_if_ordered();
        }
    }

    fn take(&mut self, order: Order) {
        let Order::Line(line) = order else {
            // Only the lines before the order belong to the former file.
            self.write();
            return self.reopen_if_ordered();
        };
        if self.is_torn {
            self.batch.push(b'\n');
            self.is_torn = false;
        }
        self.batch.extend_from_slice(line.as_bytes());
        self.lines += 1;
        self.bytes += line.len();
    }

    /// Writes the batch, or gives its lines up.
    fn write(&mut self) {
        if self.lines == 0 {
            return;
        }
        let mut written = 0;
        if let Err(error) = self.sink.write(&self.batch, &mut written) {
            self.failed.inc_by(self.lines);
            self.is_torn = ends_in_line(&self.batch, written);
            if let Some(withheld) = self.failures.allow() {
                let lines = self.lines;
                warn!(
                    %error, lines, withheld,
                    "the access log cannot be written, and its lines are dropped: make room for \
                     it, or change `gateway.access_log.path`"
                );
            }
        }
        self.batch.clear();
        self.shared.queued.fetch_sub(self.bytes, Ordering::Relaxed);
        self.shared.done.send_modify(|done| *done += self.lines);
        (self.lines, self.bytes) = (0, 0);
    }

    fn reopen_if_ordered(&mut self) {
        if self.shared.reopen.swap(false, Ordering::Relaxed) {
            self.reopen();
        }
    }

    /// Opens the file again, which may have been renamed.
    fn reopen(&mut self) {
        let Sink::File { path, .. } = &self.sink else {
            return;
        };
        match Sink::open(path) {
            Ok(sink) => (self.sink, self.is_torn) = (sink, false),
            Err(error) => error!(
                %error, path = %path.display(),
                "the access log cannot be opened again, so the old file is still written: make \
                 its directory writable, and send SIGUSR1"
            ),
        }
    }
}

// === impl Sink ===

impl Sink {
    fn open(path: &Path) -> io::Result<Sink> {
        let mut options = OpenOptions::new();
        let options = options.append(true).create(true).mode(FILE_MODE);
        let (path, file) = (path.to_owned(), options.open(path)?);
        Ok(Sink::File { path, file })
    }

    /// Writes the batch. After an error, `written` is how much of it was written.
    fn write(&mut self, batch: &[u8], written: &mut usize) -> io::Result<()> {
        match self {
            Sink::File { file, .. } => write_counted(file, batch, written),
            Sink::Stdout => {
                let mut stdout = io::stdout().lock();
                write_counted(&mut stdout, batch, written)?;
                stdout.flush()
            }
        }
    }
}

fn write_counted(to: &mut impl Write, batch: &[u8], written: &mut usize) -> io::Result<()> {
    while *written < batch.len() {
        match to.write(&batch[*written..]) {
            Ok(0) => return Err(ErrorKind::WriteZero.into()),
            Ok(bytes) => *written += bytes,
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// Whether a file ends within a line once so many bytes of a batch are written. A batch begins with
/// a line end if the file did so before.
fn ends_in_line(batch: &[u8], written: usize) -> bool {
    match written.checked_sub(1) {
        Some(last) => batch[last] != b'\n',
        None => batch.first() == Some(&b'\n'),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;
    use crate::settings::AccessLogFormat;

    /// Takes so many bytes, a few at a time, as a disk that becomes full.
    struct Disk(usize);

    impl Write for Disk {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            let taken = bytes.len().min(self.0).min(3);
            self.0 -= taken;
            match taken {
                0 => Err(ErrorKind::StorageFull.into()),
                _ => Ok(taken),
            }
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn a_line_after_the_order_to_reopen_is_in_the_new_file() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("access.log");
        let settings = AccessLogSettings {
            path: path.clone(),
            format: AccessLogFormat::default(),
        };
        let shared = Arc::<Shared>::default();
        let writer = LogWriter::open(&settings, Arc::clone(&shared), Counter::default()).unwrap();
        let old = path.with_extension("1");
        std::fs::rename(&path, &old).unwrap();
        let (orders, received) = std::sync::mpsc::sync_channel(3);
        shared.reopen.store(true, Ordering::Relaxed);
        let line = |text: &str| Order::Line(text.to_owned());
        // All are there when the writer looks.
        for order in [line("before\n"), Order::Wake, line("after\n")] {
            orders.send(order).unwrap();
        }
        drop(orders);
        writer.run(&received);
        let read = |path| std::fs::read_to_string(path).unwrap();
        assert_eq!(
            (read(&old), read(&path)),
            ("before\n".to_owned(), "after\n".to_owned())
        );
    }

    #[test]
    fn a_line_end_follows_only_what_is_half_a_line() {
        for (batch, room, expected) in [
            (&b"one\ntwo\n"[..], 0, false),
            (b"one\ntwo\n", 2, true),
            (b"one\ntwo\n", 4, false),
            (b"one\ntwo\n", 7, true),
            (b"\none\ntwo\n", 0, true),
            (b"\none\ntwo\n", 1, false),
        ] {
            let mut written = 0;
            let error = write_counted(&mut Disk(room), batch, &mut written);
            assert!(error.is_err() && written == room, "{room}");
            assert_eq!(ends_in_line(batch, written), expected, "{room}");
        }
        let mut written = 0;
        assert!(write_counted(&mut Disk(9), b"one\n", &mut written).is_ok());
        assert_eq!(written, 4);
    }
}
