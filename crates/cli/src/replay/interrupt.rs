//! Ctrl-C during a replay.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

use indicatif::{HumanBytes, ProgressBar};
use tokio::runtime::Runtime;
use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::message::print_error;

/// The exit status that shells report for a process ended by SIGINT.
pub(crate) const EXIT: u8 = 130;

/// Inputs are being read: Ctrl-C ends the process.
const READING: u8 = 0;
/// Decisions are being made: Ctrl-C sets [`WANTED`], which the replay checks.
const DECIDING: u8 = 1;
/// The replay is to stop; another Ctrl-C ends the process at once.
const WANTED: u8 = 2;

/// Whether the replay is to stop because of Ctrl-C.
pub(crate) struct Interrupt {
    state: Arc<AtomicU8>,
    bar: Arc<Mutex<Option<ProgressBar>>>,
}

// === impl Interrupt ===

impl Interrupt {
    /// Starts a thread that listens for Ctrl-C. If that is not possible, Ctrl-C ends the process as
    /// usual.
    ///
    /// An interrupt before the first decision removes `partial`, which is then empty.
    pub(crate) fn listen(partial: Option<PathBuf>) -> Interrupt {
        let interrupt = Interrupt {
            state: Arc::default(),
            bar: Arc::default(),
        };
        let (state, bar) = (Arc::clone(&interrupt.state), Arc::clone(&interrupt.bar));
        // Registered here: Ctrl-C must not find a thread that has not started yet.
        if let Ok((runtime, mut signal)) = register() {
            thread::spawn(move || {
                runtime.block_on(async {
                    while signal.recv().await.is_some() {
                        handle_ctrl_c(&state, &bar, partial.as_deref());
                    }
                });
            });
        }
        interrupt
    }

    /// Sets the progress bar of the inputs, from which a message says how much was read.
    pub(crate) fn read(&self, bar: &ProgressBar) {
        *self.bar.lock().unwrap_or_else(PoisonError::into_inner) = Some(bar.clone());
    }

    /// From now on Ctrl-C only sets [`Interrupt::is_wanted`], which the caller must check.
    pub(crate) fn decide(&self) {
        self.state.store(DECIDING, Ordering::Relaxed);
    }

    pub(crate) fn is_wanted(&self) -> bool {
        self.state.load(Ordering::Relaxed) == WANTED
    }
}

/// A runtime that gets SIGINT, which from now on does not end the process any more.
fn register() -> io::Result<(Runtime, Signal)> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let entered = runtime.enter();
    let signal = signal(SignalKind::interrupt())?;
    drop(entered);
    Ok((runtime, signal))
}

/// Handles Ctrl-C. While inputs are read, it exits here: a read can block for ever.
#[expect(
    clippy::disallowed_methods,
    reason = "a read can block for ever, so `main` may never return"
)]
fn handle_ctrl_c(state: &AtomicU8, bar: &Mutex<Option<ProgressBar>>, partial: Option<&Path>) {
    match state.load(Ordering::Relaxed) {
        DECIDING => state.store(WANTED, Ordering::Relaxed),
        READING => {
            let bar = bar.lock().unwrap_or_else(PoisonError::into_inner);
            let read = bar.as_ref().map_or(0, ProgressBar::position);
            let of = bar.as_ref().and_then(ProgressBar::length);
            let of = of
                .map(|of| format!(" of {}", HumanBytes(of)))
                .unwrap_or_default();
            // A simulation reads nothing.
            let after = match read {
                0 => "before anything was read".to_owned(),
                _ => format!("after reading {}{of}", HumanBytes(read)),
            };
            if let Some(partial) = partial {
                // If it cannot be removed, an empty file does no harm.
                let _ = std::fs::remove_file(partial);
            }
            print_error(&format!(
                "interrupted {after}; nothing was decided, nothing written"
            ));
            std::process::exit(EXIT.into());
        }
        _ => std::process::exit(EXIT.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whether the process has a handler for SIGINT, number 2.
    fn has_handler() -> bool {
        let status = std::fs::read_to_string("/proc/self/status").expect("Linux has it");
        let caught = status
            .lines()
            .find_map(|line| line.strip_prefix("SigCgt:"))
            .and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok())
            .expect("a mask in hexadecimal digits");
        caught & (1 << (2 - 1)) != 0
    }

    /// Once `listen` has returned, no SIGINT ends the process without a message.
    #[test]
    fn ctrl_c_is_handled_before_the_thread_runs() {
        assert!(!has_handler());
        let _interrupt = Interrupt::listen(None);
        assert!(has_handler());
    }
}
