//! Leases that are renewed and returned only when a test says so.

use super::{Leased, renew_due};

impl Leased {
    /// Stops the background task: only [`Leased::renew_due`] renews and returns leases from now
    /// on.
    pub(crate) fn stop_keeper(&mut self) {
        let Leased { _keeper, .. } = self;
        _keeper.abort_all();
    }

    /// Renews and returns leases as the background task does, but now.
    pub(crate) async fn renew_due(&self) {
        renew_due(&self.leases, &self.renewer).await;
    }
}
