//! The instances of a fleet by their places.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::instance::Instance;

/// The instances by their places, of which one that has ended is missing.
#[derive(Clone, Default)]
pub(super) struct Places(Arc<Mutex<Vec<Option<Instance>>>>);

// === impl Places ===

impl Places {
    pub(super) fn lock(&self) -> MutexGuard<'_, Vec<Option<Instance>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The instance at this place, or the next one that is up, as a load balancer sends requests.
    pub(super) fn up(&self, place: usize) -> Option<Instance> {
        let instances = self.lock();
        let count = instances.len();
        let from_place = instances.iter().cycle().skip(place % count.max(1));
        from_place.take(count).flatten().next().cloned()
    }
}
