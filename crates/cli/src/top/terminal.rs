//! The terminal: drawn when something has changed, and restored however the command ends.

use std::future::poll_fn;
use std::io;
use std::task::Poll;

use crossterm::event::{Event, EventStream};
use futures_util::StreamExt;
use ratatui::DefaultTerminal;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::mpsc::Receiver;

use super::feed::Update;
use super::screen::{Next, Screen};
use crate::admin_client::Failure;

/// Why the screen is not shown any more.
pub(super) enum Stopped {
    /// The terminal cannot be read or written.
    Terminal(io::Error),
    /// The service cannot be followed.
    Service(Failure),
}

/// The signals that end the command. Without a handler, they would leave the terminal as it is.
struct EndSignals([Signal; 3]);

/// Restores the terminal when it is dropped. After a panic, a hook of ratatui does.
struct Restore;

impl Drop for Restore {
    fn drop(&mut self) {
        ratatui::restore();
    }
}

// === impl EndSignals ===

impl EndSignals {
    fn new() -> io::Result<EndSignals> {
        let (terminate, interrupt) = (SignalKind::terminate(), SignalKind::interrupt());
        Ok(EndSignals([
            signal(terminate)?,
            signal(interrupt)?,
            signal(SignalKind::hangup())?,
        ]))
    }

    /// Waits for one of them.
    async fn wait(&mut self) {
        let signals = &mut self.0;
        poll_fn(|context| {
            let mut signals = signals.iter_mut();
            match signals.any(|signal| signal.poll_recv(context).is_ready()) {
                true => Poll::Ready(()),
                false => Poll::Pending,
            }
        })
        .await;
    }
}

/// Shows the screen until a key quits, or the process gets a signal to end.
pub(super) async fn show(mut screen: Screen, updates: Receiver<Update>) -> Result<(), Stopped> {
    let signals = EndSignals::new().map_err(Stopped::Terminal)?;
    let terminal = ratatui::try_init().map_err(Stopped::Terminal)?;
    let restore = Restore;
    let shown = run(terminal, &mut screen, updates, signals).await;
    drop(restore);
    shown
}

/// Draws the screen whenever the service, the keyboard or the size has something new.
async fn run(
    mut terminal: DefaultTerminal,
    screen: &mut Screen,
    mut updates: Receiver<Update>,
    mut signals: EndSignals,
) -> Result<(), Stopped> {
    let mut inputs = EventStream::new();
    loop {
        terminal
            .draw(|frame| screen.draw(frame))
            .map_err(Stopped::Terminal)?;
        let next = tokio::select! {
            Some(update) = updates.recv() => screen.update(update),
            input = inputs.next() => match input {
                Some(Ok(Event::Key(key))) => screen.press(key),
                // A new size is read when the screen is drawn.
                Some(Ok(_)) => Next::Continue,
                Some(Err(error)) => return Err(Stopped::Terminal(error)),
                None => Next::Quit,
            },
            () = signals.wait() => Next::Quit,
        };
        match next {
            Next::Continue => {}
            Next::Quit => return Ok(()),
            Next::Fail(failure) => return Err(Stopped::Service(failure)),
        }
    }
}
