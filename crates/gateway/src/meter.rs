//! What a request costs, as far as only the end of its response says it.

use std::fmt;

use bytes::Bytes;
use http::{HeaderMap, HeaderName};
use http_body::Frame;
use tollgate_core::COST_MAX;
use tollgate_http::read_units;

use crate::inspection::{InspectedBytes, Inspection, Reason, Unread};
use crate::pricing::PriceAtHead;
use crate::reservation::Open;

/// Watches the body of a response, and settles what its request has reserved when it ends.
///
/// Dropped before, it leaves everything charged.
pub(crate) struct Meter {
    /// `None` once it is settled.
    open: Option<Box<Open>>,
    dues: Vec<Due>,
    response_bytes: u64,
    inspection: Option<Inspection>,
}

/// What a descriptor is due to be charged.
enum Due {
    Known(u64),
    RequestBytes,
    ResponseBytes,
    /// The number of this index in the body.
    Json(usize),
    Trailer(HeaderName, Result<u64, Reason>),
}

// === impl Meter ===

impl Meter {
    /// For a response with these headers, and what they say of each descriptor.
    pub(crate) fn new(
        open: Box<Open>,
        prices: &[PriceAtHead<'_>],
        headers: &HeaderMap,
        inspected: &InspectedBytes,
    ) -> Meter {
        let mut pointers = Vec::new();
        let due = |(price, units): (&PriceAtHead<'_>, u64)| match price {
            PriceAtHead::Known(units) => Due::Known(*units),
            PriceAtHead::Unknown(_) => Due::Known(units),
            PriceAtHead::RequestBytes => Due::RequestBytes,
            PriceAtHead::ResponseBytes => Due::ResponseBytes,
            PriceAtHead::Json(pointer) => {
                pointers.push((*pointer).clone());
                Due::Json(pointers.len() - 1)
            }
            // A response without a body may have its trailers among its headers, as gRPC does.
            PriceAtHead::Trailer(name) => Due::Trailer((*name).clone(), read(headers, name)),
        };
        let units = open.descriptors.iter().map(|reserved| reserved.units);
        let dues = prices.iter().zip(units).map(due).collect();
        let inspects = !pointers.is_empty();
        Meter {
            open: Some(open),
            dues,
            response_bytes: 0,
            inspection: inspects.then(|| Inspection::new(pointers, headers, inspected)),
        }
    }

    /// A part of the body on its way to the client.
    pub(crate) fn observe(&mut self, frame: &Frame<Bytes>) {
        if let Some(data) = frame.data_ref() {
            let bytes = u64::try_from(data.len()).unwrap_or(u64::MAX);
            self.response_bytes = self.response_bytes.saturating_add(bytes);
            if let Some(inspection) = &mut self.inspection {
                inspection.add(data);
            }
        }
        let Some(trailers) = frame.trailers_ref() else {
            return;
        };
        for due in &mut self.dues {
            if let Due::Trailer(name, found) = due {
                *found = read(trailers, name);
            }
        }
    }

    /// Settles what the head has said, and leaves the rest at its estimate: nothing of the body is
    /// read.
    pub(crate) fn settle_at_head(mut self) {
        let Some(open) = self.open.take() else {
            return;
        };
        let dues = self.dues.iter().zip(&open.descriptors);
        let units = dues.map(|(due, reserved)| match due {
            Due::Known(units) => *units,
            _ => reserved.units,
        });
        let units = units.collect();
        open.settle(units);
    }

    /// Settles. `is_complete` says whether the response came to its end; if not, its bytes so far
    /// count, and of numbers the larger of the estimate and the last one that came.
    pub(crate) fn finish(mut self, is_complete: bool) {
        let Some(open) = self.open.take() else {
            return;
        };
        let numbers = self.inspection.take();
        let numbers = numbers.map(|inspection| inspection.finish(is_complete));
        let numbers = numbers.unwrap_or_default();
        let number = |found: Result<u64, Unread>, estimate: u64| match found {
            Ok(units) if is_complete => units,
            Ok(units) => units.max(estimate),
            Err(Unread { reason, at_least }) => {
                let reason = if is_complete { reason } else { "cut_off" };
                open.unsettled.count(reason);
                at_least.max(estimate)
            }
        };
        // The server may answer before the whole body has come.
        let request_bytes = |estimate: u64| match &open.request_bytes {
            Some(count) if count.is_complete() => count.bytes(),
            Some(count) => {
                open.unsettled.count("cut_off");
                count.bytes().max(estimate)
            }
            None => 0,
        };
        let dues = self.dues.iter().zip(&open.descriptors);
        let units = dues.map(|(due, reserved)| match due {
            Due::Known(units) => *units,
            Due::RequestBytes => request_bytes(reserved.units).min(COST_MAX),
            Due::ResponseBytes => self.response_bytes.min(COST_MAX),
            Due::Json(index) => number(numbers[*index], reserved.units),
            Due::Trailer(_, found) => number(found.map_err(Unread::from), reserved.units),
        });
        let units = units.collect();
        open.settle(units);
    }
}

fn read(headers: &HeaderMap, name: &HeaderName) -> Result<u64, Reason> {
    match read_units(headers, name) {
        Some(units) => Ok(units),
        None if headers.contains_key(name) => Err("malformed"),
        None => Err("missing"),
    }
}

impl Drop for Meter {
    fn drop(&mut self) {
        if let Some(open) = self.open.take() {
            open.keep();
        }
    }
}

impl fmt::Debug for Meter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("Meter");
        shown
            .field("inspection", &self.inspection)
            .finish_non_exhaustive()
    }
}
