//! What a request has reserved of its limits, until its response says what it costs.
//!
//! A client must not gain from going away, so a reservation has one of two defaults: before the
//! request is sent to an upstream, dropping it releases everything; afterwards, dropping it leaves
//! everything charged. Either way it is settled once, also if the task is cancelled or panics.

use std::fmt;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use http::StatusCode;
use tokio::runtime::Handle;
use tokio::sync::Semaphore;
use tokio::task::JoinHandle;
use tollgate_core::{Answer, Cost, Request};
use tollgate_engine::{Engine, OwnedReservation, ReserveError};
use tollgate_http::Identity;

use crate::metrics::Unsettled;
use crate::pricing::Pricing;

/// The most settlements at once that wait for a shared store.
const SETTLEMENTS_MAX: usize = 4096;

/// Settles reservations.
#[derive(Clone)]
pub(crate) struct Settler {
    engine: Arc<Engine>,
    permits: Arc<Semaphore>,
}

/// The units that an allowed request was charged, of which its response may release some.
pub(crate) struct Reservation(Option<Open>);

struct Open {
    settler: Settler,
    owned: OwnedReservation,
    pricing: Arc<Pricing>,
    unsettled: Unsettled,
    descriptors: Vec<Reserved>,
    is_sent: bool,
}

/// What a descriptor of the request has reserved.
#[derive(Clone, Copy)]
struct Reserved {
    /// The index of its settings.
    index: usize,
    units: u64,
}

// === impl Settler ===

impl Settler {
    pub(crate) fn new(engine: &Arc<Engine>) -> Settler {
        Settler {
            engine: Arc::clone(engine),
            permits: Arc::new(Semaphore::new(SETTLEMENTS_MAX)),
        }
    }

    /// Decides on a request, and returns what it has reserved if it is allowed; nothing if the
    /// store had no answer and the limits allow that.
    ///
    /// # Errors
    ///
    /// [`ReserveError`]; nothing was charged.
    pub(crate) async fn reserve(
        &self,
        request: &Request<'_>,
        identity: &Identity<'_>,
        pricing: &Arc<Pricing>,
        unsettled: Unsettled,
    ) -> Result<(Answer, Option<Reservation>), ReserveError> {
        let (decided, owned) = self.engine.reserve_owned(request).await?;
        let descriptors = identity.descriptors.iter().zip(&request.descriptors);
        let descriptors = descriptors.map(|(described, descriptor)| Reserved {
            index: described.index,
            units: Cost::units(descriptor.cost.unwrap_or(request.cost)),
        });
        let reservation = owned.map(|owned| {
            Reservation(Some(Open {
                settler: self.clone(),
                owned,
                pricing: Arc::clone(pricing),
                unsettled,
                descriptors: descriptors.collect(),
                is_sent: false,
            }))
        });
        Ok((decided.answer, reservation))
    }

    /// Charges each descriptor these units in place of what it has reserved: at once in memory,
    /// over a shared store in a task that nothing cancels. Returns that task.
    fn settle(
        self,
        owned: OwnedReservation,
        units: Vec<u64>,
        unsettled: Unsettled,
    ) -> Option<JoinHandle<()>> {
        // Without a runtime, the process ends, and the units stay charged until they decay.
        let runtime = Handle::try_current().ok()?;
        let Ok(permit) = self.permits.try_acquire_owned() else {
            unsettled.count("busy");
            return None;
        };
        let mut settling = Box::pin(async move {
            let settled = self.engine.settle_owned(owned, |index| units[index]).await;
            if settled.is_err() {
                unsettled.count("store_error");
            }
            drop(permit);
        });
        match settling
            .as_mut()
            .poll(&mut Context::from_waker(Waker::noop()))
        {
            Poll::Ready(()) => None,
            // The task polls it again, with its own waker.
            Poll::Pending => Some(runtime.spawn(settling)),
        }
    }
}

// === impl Reservation ===

impl Reservation {
    /// The request is about to be sent to an upstream.
    pub(crate) fn mark_sent(&mut self) {
        if let Some(open) = &mut self.0 {
            open.is_sent = true;
        }
    }

    /// Charges or releases what a response with this status says. What is released is available
    /// when this returns.
    pub(crate) async fn settle(mut self, status: StatusCode) {
        let Some(open) = self.0.take() else {
            return;
        };
        let pricing = Arc::clone(&open.pricing);
        let price = |reserved: &Reserved| pricing.units(reserved.index, status, reserved.units);
        let releases = open.descriptors.iter().any(|one| price(one) < one.units);
        let task = open.settle(price);
        if let Some(task) = task.filter(|_| releases) {
            // It is not cancelled with this wait. If it panics, the units stay charged.
            let _ = task.await;
        }
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        let Some(open) = self.0.take() else {
            return;
        };
        if open.is_sent {
            open.unsettled.count("no_response");
            // So that a shared store does not keep the reservation until it expires.
            open.settle(|reserved| reserved.units);
        } else {
            open.settle(|_| 0);
        }
    }
}

impl fmt::Debug for Reservation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let owned = self.0.as_ref().map(|open| &open.owned);
        f.debug_tuple("Reservation").field(&owned).finish()
    }
}

// === impl Open ===

impl Open {
    fn settle(self, price: impl Fn(&Reserved) -> u64) -> Option<JoinHandle<()>> {
        let units = self.descriptors.iter().map(price).collect();
        self.settler.settle(self.owned, units, self.unsettled)
    }
}

#[cfg(test)]
mod tests;
