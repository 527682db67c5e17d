//! Leases that are renewed and returned when a test says so.

use super::{Leased, look_after};

impl Leased {
    /// From now on leases are looked after by [`Leased::look_after`] alone.
    pub(crate) fn stop_keeper(&mut self) {
        let Leased { _keeper, .. } = self;
        _keeper.abort_all();
    }

    /// Looks after the leases as the keeper does, but now.
    pub(crate) async fn look_after(&self) {
        look_after(self.leases.due(), &self.router, &self.stats).await;
    }
}
