//! The log of a thread, for tests of what is logged.

use std::io::{self, Write};
use std::sync::{Arc, Mutex, Once, PoisonError};

use tracing::Level;
use tracing::subscriber::{DefaultGuard, set_default, set_global_default};
use tracing_subscriber::fmt::MakeWriter;
use tracing_subscriber::{Layer, Registry, filter::LevelFilter};

/// The lines that this thread logs, without colours, at [`Level::DEBUG`] and above.
///
/// The tasks of a current-thread runtime log in its thread, so they have the lines of a test.
#[derive(Clone, Debug, Default)]
pub struct Journal(Arc<Mutex<Vec<u8>>>);

// === impl Journal ===

impl Journal {
    /// A journal of what this thread logs until the guard is dropped.
    pub fn begin() -> (Journal, DefaultGuard) {
        Journal::keep_enabled();
        let journal = Journal::default();
        let subscriber = tracing_subscriber::fmt()
            .with_max_level(Level::DEBUG)
            .with_ansi(false)
            .with_writer(journal.clone())
            .finish();
        (journal, set_default(subscriber))
    }

    /// Lets no thread turn off a line for all others: `tracing` decides once for each place that
    /// logs whether anybody wants its lines. If only one subscriber exists, it asks only the
    /// thread that comes to the place first, which may have none. A second subscriber, which wants
    /// nothing, makes it ask all of them.
    ///
    /// Tests that start what logs, without a journal, call it too: a place that logs for the first
    /// time while the first subscriber begins may miss it.
    pub fn keep_enabled() {
        static BEGUN: Once = Once::new();
        BEGUN.call_once(|| {
            let nothing = LevelFilter::OFF.with_subscriber(Registry::default());
            set_global_default(nothing).expect("no test sets another one");
        });
    }

    /// What was logged so far.
    pub fn text(&self) -> String {
        let bytes = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        String::from_utf8_lossy(&bytes).into_owned()
    }

    /// How often the words were logged.
    pub fn count(&self, words: &str) -> usize {
        self.text().matches(words).count()
    }

    /// The lines that have the words.
    pub fn lines(&self, words: &str) -> Vec<String> {
        let text = self.text();
        let lines = text.lines().filter(|line| line.contains(words));
        lines.map(str::to_owned).collect()
    }
}

impl Write for Journal {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let mut written = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        written.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl MakeWriter<'_> for Journal {
    type Writer = Journal;

    fn make_writer(&self) -> Journal {
        self.clone()
    }
}

#[cfg(test)]
mod tests {
    use std::thread;

    use super::*;

    #[test]
    fn a_thread_without_a_journal_does_not_turn_off_a_line() {
        let line = || tracing::warn!("a line");
        let (journal, _guard) = Journal::begin();
        thread::spawn(line).join().expect("it only logs");
        line();
        assert_eq!(journal.lines("WARN").len(), 1, "{}", journal.text());
    }
}
