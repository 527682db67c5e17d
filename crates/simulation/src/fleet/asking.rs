//! A client of a fleet: its request, and its retries.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::time::sleep;
use tollgate_replay::FirstAttempt;

use super::Tally;
use crate::instance::Instance;
use crate::rules_file;

/// The instances of a fleet by their places, of which one that has ended is missing.
#[derive(Clone, Default)]
pub(super) struct Places(Arc<Mutex<Vec<Option<Instance>>>>);

/// Has a request decided by the instance at `place`, and again after each denial until the client
/// gives up, each time by the next instance.
pub(super) async fn ask(
    places: Places,
    attempt: FirstAttempt,
    place: usize,
    tally: Arc<Mutex<Tally>>,
) {
    let FirstAttempt {
        client,
        mut retries,
        ..
    } = attempt;
    let tally = || tally.lock().unwrap_or_else(PoisonError::into_inner);
    for place in place.. {
        let Some(instance) = places.up(place) else {
            return tally().fail();
        };
        let request = rules_file::request_of(client.as_bytes());
        let (outcome, _) = instance.decide(&request, None).await;
        let wait = tally().add(&client, &outcome);
        let Some(pause) = wait.and_then(|wait| retries.pause(wait)) else {
            return;
        };
        sleep(pause.to_duration()).await;
    }
}

// === impl Places ===

impl Places {
    pub(super) fn lock(&self) -> MutexGuard<'_, Vec<Option<Instance>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The instance at this place, or the next one that is up, as a load balancer sends requests.
    fn up(&self, place: usize) -> Option<Instance> {
        let instances = self.lock();
        let up = instances
            .iter()
            .cycle()
            .skip(place % instances.len().max(1));
        up.take(instances.len()).flatten().next().cloned()
    }
}
