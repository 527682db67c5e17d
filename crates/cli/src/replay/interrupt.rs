//! Ctrl-C.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

use indicatif::{HumanBytes, ProgressBar};

use crate::complaint::complain_of;

/// The exit status of a process that SIGINT ended, as shells have it.
pub(super) const EXIT: u8 = 130;

/// What Ctrl-C does: nothing has begun.
const READING: u8 = 0;
/// Decisions are made, which look for it themselves.
const DECIDING: u8 = 1;
/// Decisions are to stop; once more ends the process at once.
const WANTED: u8 = 2;

/// Whether somebody wants the replay to stop.
pub(super) struct Interrupt {
    state: Arc<AtomicU8>,
    bar: Arc<Mutex<Option<ProgressBar>>>,
}

// === impl Interrupt ===

impl Interrupt {
    /// Listens from now on, in a thread of its own. If that is not possible, Ctrl-C ends the
    /// process as it would without.
    /// An interrupt before the first decision removes `partial`, which is empty then.
    pub(super) fn listen(partial: Option<PathBuf>) -> Interrupt {
        let interrupt = Interrupt {
            state: Arc::default(),
            bar: Arc::default(),
        };
        let (state, bar) = (Arc::clone(&interrupt.state), Arc::clone(&interrupt.bar));
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build();
        if let Ok(runtime) = runtime {
            thread::spawn(move || {
                runtime.block_on(async {
                    while tokio::signal::ctrl_c().await.is_ok() {
                        pressed(&state, &bar, partial.as_deref());
                    }
                });
            });
        }
        interrupt
    }

    /// Inputs are read, as far as this bar shows.
    pub(super) fn read(&self, bar: &ProgressBar) {
        *self.bar.lock().unwrap_or_else(PoisonError::into_inner) = Some(bar.clone());
    }

    /// Decisions are made from now on, by somebody who looks at [`Interrupt::is_wanted`].
    pub(super) fn decide(&self) {
        self.state.store(DECIDING, Ordering::Relaxed);
    }

    pub(super) fn is_wanted(&self) -> bool {
        self.state.load(Ordering::Relaxed) == WANTED
    }
}

/// Somebody pressed Ctrl-C. An input may keep whoever reads it for ever, so that ends here.
fn pressed(state: &AtomicU8, bar: &Mutex<Option<ProgressBar>>, partial: Option<&Path>) {
    match state.load(Ordering::Relaxed) {
        DECIDING => state.store(WANTED, Ordering::Relaxed),
        READING => {
            let bar = bar.lock().unwrap_or_else(PoisonError::into_inner);
            let read = bar.as_ref().map_or(0, ProgressBar::position);
            let of = bar.as_ref().and_then(ProgressBar::length);
            let of = of
                .map(|of| format!(" of {}", HumanBytes(of)))
                .unwrap_or_default();
            let read = HumanBytes(read);
            if let Some(partial) = partial {
                // What cannot be removed is seen by whoever looks for it.
                let _ = std::fs::remove_file(partial);
            }
            complain_of(&format!(
                "interrupted after reading {read}{of}; nothing was decided, nothing written"
            ));
            std::process::exit(EXIT.into());
        }
        _ => std::process::exit(EXIT.into()),
    }
}
