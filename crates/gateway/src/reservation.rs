//! What a request has reserved of its limits, until its response says what it costs.
//!
//! A client must not gain from going away, so a reservation has one of two defaults: until a
//! connection to an upstream is made for the request, dropping it releases everything; afterwards,
//! dropping it leaves everything charged. Either way it is settled once, also if the task is
//! cancelled or panics.
//!
//! A request whose cost is known reserves it too if there is no connection for it yet: if none can
//! be made, everything is released, exactly as far as it still counts.

use std::fmt;
use std::sync::Arc;

use http::header::{ACCEPT_ENCODING, RANGE};
use http::request::Parts;
use http::{HeaderMap, HeaderValue, StatusCode};
use tokio::task::JoinHandle;
use tollgate_core::{COST_MAX, Cost, Request};
use tollgate_engine::{Decided, Engine, OwnedReservation, ReserveError};
use tollgate_http::Identity;

use crate::background::Background;
use crate::forwarding::request_trailers;
use crate::inspection::InspectedBytes;
use crate::meter::Meter;
use crate::metrics::Unsettled;
use crate::pricing::{PriceAtHead, Pricing};
use crate::request_body::{ByteCount, RequestBody};

/// The most settlements at once that wait for a shared store.
const SETTLEMENTS_MAX: usize = 4096;

/// Settles reservations.
#[derive(Clone)]
pub(crate) struct Settler {
    engine: Arc<Engine>,
    background: Background,
    inspected: InspectedBytes,
}

/// The units that an allowed request was charged, of which its response may release some. In a box,
/// because all requests have room for one, and most reserve nothing.
pub(crate) struct Reservation(Option<Box<Open>>);

/// A reservation that is not settled.
pub(crate) struct Open {
    settler: Settler,
    owned: OwnedReservation,
    /// What the response may release. `None`: nothing.
    pricing: Option<Arc<Pricing>>,
    pub(crate) unsettled: Unsettled,
    pub(crate) descriptors: Vec<Reserved>,
    /// The bytes of the request's body, if a cost is made of them.
    pub(crate) request_bytes: Option<Arc<ByteCount>>,
    progress: Progress,
}

/// How far a request has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Progress {
    /// It is held until its turn.
    Held,
    /// A connection is being made for it.
    Connecting,
    /// It is on its way to an upstream.
    Sent,
}

/// What a descriptor of the request has reserved.
#[derive(Clone, Copy)]
pub(crate) struct Reserved {
    /// The index of its settings.
    index: usize,
    pub(crate) units: u64,
}

// === impl Settler ===

impl Settler {
    pub(crate) fn new(engine: &Arc<Engine>) -> Settler {
        Settler {
            engine: Arc::clone(engine),
            background: Background::new(SETTLEMENTS_MAX),
            inspected: InspectedBytes::default(),
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
        pricing: Option<&Arc<Pricing>>,
        unsettled: Unsettled,
    ) -> Result<(Decided, Option<Reservation>), ReserveError> {
        let (decided, owned) = self.engine.reserve_owned(request).await?;
        let descriptors = identity.descriptors.iter().zip(&request.descriptors);
        let descriptors = descriptors.map(|(described, descriptor)| Reserved {
            index: described.index,
            units: Cost::units(descriptor.cost.unwrap_or(request.cost)),
        });
        let reservation = owned.map(|owned| {
            Reservation(Some(Box::new(Open {
                settler: self.clone(),
                owned,
                pricing: pricing.cloned(),
                unsettled,
                descriptors: descriptors.collect(),
                request_bytes: None,
                progress: Progress::Held,
            })))
        });
        Ok((decided, reservation))
    }

    /// Charges each descriptor these units in place of what it has reserved: at once in memory,
    /// over a shared store in a task that nothing cancels. Returns that task.
    fn settle(
        self,
        owned: OwnedReservation,
        units: Vec<u64>,
        unsettled: Unsettled,
    ) -> Option<JoinHandle<()>> {
        let Some(slot) = self.background.try_acquire(!owned.is_in_memory()) else {
            unsettled.count("busy");
            return None;
        };
        slot.run(async move {
            let settled = self.engine.settle_owned(owned, |index| units[index]).await;
            if settled.is_err() {
                unsettled.count("store_error");
            }
        })
    }
}

// === impl Reservation ===

impl Reservation {
    /// A connection is about to be made for the request. If its client goes away meanwhile, it
    /// stays charged: streams that are reset at once would cost nothing, and the upstream a
    /// connection each.
    pub(crate) fn connect(&mut self) {
        if let Some(open) = &mut self.0 {
            open.progress = Progress::Connecting;
        }
    }

    /// Nothing reaches an upstream: releases everything.
    pub(crate) fn release(&mut self) {
        if let Some(open) = self.0.take() {
            open.release();
        }
    }

    /// The request is about to be sent to an upstream: unless it turns out that nothing of it was,
    /// it stays charged. A response whose body has a cost must come without compression, and as a
    /// whole; many servers send a trailer only if it is requested.
    pub(crate) fn send(&mut self, head: &mut Parts, body: &mut RequestBody) {
        let Some(open) = &mut self.0 else {
            return;
        };
        open.progress = Progress::Sent;
        let Some(pricing) = open.pricing.clone() else {
            return;
        };
        let mut descriptors = open.descriptors.iter();
        if descriptors.any(|reserved| pricing.reads_body(reserved.index)) {
            head.headers
                .insert(ACCEPT_ENCODING, HeaderValue::from_static("identity"));
            head.headers.remove(RANGE);
        }
        let mut descriptors = open.descriptors.iter();
        if descriptors.any(|reserved| pricing.reads_trailer(reserved.index)) {
            request_trailers(head);
        }
        let mut descriptors = open.descriptors.iter();
        if descriptors.any(|reserved| pricing.counts_request(reserved.index)) {
            let counter = Arc::<ByteCount>::default();
            body.count_into(Arc::clone(&counter));
            open.request_bytes = Some(counter);
        }
    }

    /// Charges or releases what the head of a response says; what is released is available when
    /// this returns. If something is known only at the end of the response, all of it is settled
    /// then, by the meter.
    pub(crate) async fn settle(
        mut self,
        status: StatusCode,
        headers: &HeaderMap,
    ) -> Option<Box<Meter>> {
        let open = self.0.take()?;
        let Some(pricing) = open.pricing.clone() else {
            // It costs what it has reserved.
            open.keep();
            return None;
        };
        let price =
            |reserved: &Reserved| pricing.at_head(reserved.index, reserved.units, status, headers);
        let prices: Vec<PriceAtHead<'_>> = open.descriptors.iter().map(price).collect();
        let known = prices.iter().zip(&open.descriptors);
        let known = known.map(|(price, reserved)| match price {
            PriceAtHead::Known(units) => Some(*units),
            PriceAtHead::Unknown(reason) => {
                open.unsettled.count(reason);
                Some(reserved.units)
            }
            _ => None,
        });
        let Some(units) = known.collect::<Option<Vec<u64>>>() else {
            let inspected = open.settler.inspected.clone();
            return Some(Box::new(Meter::new(open, &prices, headers, &inspected)));
        };
        drop(prices);
        let reserved = open.descriptors.iter().zip(&units);
        let releases = reserved
            .into_iter()
            .any(|(reserved, units)| *units < reserved.units);
        let task = open.settle(units);
        if let Some(task) = task.filter(|_| releases) {
            // It is not cancelled with this wait. If it panics, the units stay charged.
            let _ = task.await;
        }
        None
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        let Some(open) = self.0.take() else {
            return;
        };
        match open.progress {
            Progress::Held => open.release(),
            Progress::Connecting | Progress::Sent => {
                // Otherwise what it costs is known.
                if open.pricing.is_some() {
                    open.unsettled.count("no_response");
                }
                open.keep();
            }
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
    /// Charges each descriptor these units.
    pub(crate) fn settle(self, units: Vec<u64>) -> Option<JoinHandle<()>> {
        self.settler.settle(self.owned, units, self.unsettled)
    }

    /// Charges nothing.
    fn release(self) {
        let nothing = vec![0; self.descriptors.len()];
        self.settle(nothing);
    }

    /// Leaves everything charged, so that a shared store does not keep the reservation until it
    /// expires. A body that costs its length costs at least what has passed of it: an upload that
    /// is broken off is no cheaper.
    pub(crate) fn keep(self) {
        let pricing = self.pricing.as_deref();
        let counts_request = |index| pricing.is_some_and(|pricing| pricing.counts_request(index));
        let units = self.descriptors.iter().map(|reserved| {
            let passed = match &self.request_bytes {
                Some(count) if counts_request(reserved.index) => count.bytes(),
                _ => 0,
            };
            passed.min(COST_MAX).max(reserved.units)
        });
        let units = units.collect();
        self.settle(units);
    }
}

#[cfg(test)]
mod tests;
