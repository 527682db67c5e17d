//! Readiness and graceful shutdown, as every part of the service sees them.

use tokio::sync::watch;

/// The state of the service.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum State {
    /// Accepts requests.
    Ready,
    /// Still accepts them, and fails its readiness check.
    Unready,
    /// Accepts no more, and finishes what is in flight.
    Draining,
}

/// Begins the shutdown.
#[derive(Debug)]
pub struct Shutdown(watch::Sender<State>);

/// Waits for the shutdown.
#[derive(Clone, Debug)]
pub struct ShutdownSignal(watch::Receiver<State>);

/// A shutdown and its signal, which can be cloned.
pub fn shutdown_channel() -> (Shutdown, ShutdownSignal) {
    let (sender, receiver) = watch::channel(State::Ready);
    (Shutdown(sender), ShutdownSignal(receiver))
}

// === impl Shutdown ===

impl Shutdown {
    /// Fails readiness checks from now on.
    pub fn fail_readiness(&self) {
        self.0.send_replace(State::Unready);
    }

    /// Closes the listeners and drains connections from now on.
    pub fn begin_drain(&self) {
        self.0.send_replace(State::Draining);
    }
}

// === impl ShutdownSignal ===

impl ShutdownSignal {
    /// Whether readiness checks succeed.
    pub fn is_ready(&self) -> bool {
        *self.0.borrow() == State::Ready
    }

    /// Waits until the drain begins.
    pub async fn wait(&mut self) {
        // An error means that the sender is gone, which is a shutdown as well.
        let _ = self.0.wait_for(|state| *state == State::Draining).await;
    }
}
