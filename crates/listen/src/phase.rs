//! Whether the service takes requests: what readiness tells, and what ends it.

use tokio::sync::watch;

/// Where the service is in its life.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Phase {
    /// Takes requests.
    Ready,
    /// Still takes them, and says that it soon will not.
    Unready,
    /// Takes no more, and finishes what is in flight.
    Stopping,
}

/// Tells everybody.
#[derive(Debug)]
pub struct Stop(watch::Sender<Phase>);

/// Hears it.
#[derive(Clone, Debug)]
pub struct Stopping(watch::Receiver<Phase>);

/// A pair of one that tells and one that hears; clone the latter.
pub fn phase() -> (Stop, Stopping) {
    let (stop, stopping) = watch::channel(Phase::Ready);
    (Stop(stop), Stopping(stopping))
}

// === impl Stop ===

impl Stop {
    /// From now on the service says that it is not ready.
    pub fn unready(&self) {
        self.0.send_replace(Phase::Unready);
    }

    /// From now on the service takes no more connections.
    pub fn stop(&self) {
        self.0.send_replace(Phase::Stopping);
    }
}

// === impl Stopping ===

impl Stopping {
    /// Whether the service is to be asked.
    pub fn is_ready(&self) -> bool {
        *self.0.borrow() == Phase::Ready
    }

    /// Returns once it is time to stop.
    pub async fn wait(&mut self) {
        // An error means that nobody is left to tell, which is an end as well.
        let _ = self.0.wait_for(|phase| *phase == Phase::Stopping).await;
    }
}
