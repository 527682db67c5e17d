//! The interface between the engine and a store that several instances share.

use std::future::Future;
use std::time::Duration;

use crate::charge::Charge;
use crate::kept_reservation::{
    KeptReservation, NewReservation, ReserveVerdict, Settled, SettledCharge,
};
use crate::key::Key;
use crate::store::{Store, StoreError};

/// How long a store may take to close: a graceful shutdown waits for no longer, and a store that
/// does not get through to its servers gives up by then.
pub const CLOSE_WITHIN: Duration = Duration::from_secs(2);

/// A store that several instances share, usually over a network.
///
/// Besides decisions, it reports its health, metrics and events. Whatever is specific to one
/// backend goes through [`SharedStore::metrics`] and [`SharedStore::take_events`], so a new backend
/// needs no change in the engine or the server.
pub trait SharedStore: Store {
    /// Registers this instance with the store, until [`SharedStore::close`].
    fn join(&self);

    /// The number of instances that share the store, including this one: at least 1.
    fn instances(&self) -> u32;

    /// Whether the store answers. A store that was never connected does not.
    fn is_up(&self) -> bool;

    /// Why the store does not answer, if that is known. By itself, it is not.
    fn trouble(&self) -> Option<String> {
        None
    }

    /// The events since the last call, for the log. The store bounds their number. By itself, it
    /// has none.
    fn take_events(&self) -> Vec<StoreEvent> {
        Vec::new()
    }

    /// The store's metrics. By itself, it has none.
    fn metrics(&self) -> Vec<StoreMetric> {
        Vec::new()
    }

    /// Decides as [`Store::decide`]; if the request is allowed, keeps a reservation where any
    /// instance finds it. A store need not keep reservations.
    ///
    /// No charge may be a refund: a request that waits for units may be sent again, and a refund
    /// happens each time.
    ///
    /// # Errors
    ///
    /// [`StoreError::Unfit`] if the store cannot keep a reservation for this request, with the
    /// reason as its source, or if a charge is a refund: nothing was charged.
    fn reserve(
        &self,
        charges: &[Charge<'_>],
        new: &NewReservation<'_>,
    ) -> impl Future<Output = Result<ReserveVerdict, StoreError>> + Send {
        let _ = (charges, new);
        async {
            Err(StoreError::Unfit {
                source: "this kind of store keeps no reservations".into(),
            })
        }
    }

    /// The reservation; `None` if there is none, or it is settled or has expired.
    ///
    /// # Errors
    ///
    /// [`StoreError`] if the store has no answer.
    fn find_reservation(
        &self,
        reservation: Key,
    ) -> impl Future<Output = Result<Option<KeptReservation>, StoreError>> + Send {
        let _ = reservation;
        async { Ok(None) }
    }

    /// Charges each line of a reservation its actual units in place of the reserved ones, as
    /// [`Account::settle_reserved`](crate::Account::settle_reserved) does, and removes the
    /// reservation, for all instances.
    ///
    /// # Errors
    ///
    /// [`StoreError`] if the store has no answer. After [`StoreError::TimedOut`] it may be settled.
    fn settle_reservation(
        &self,
        reservation: Key,
        settled: &[SettledCharge<'_>],
    ) -> impl Future<Output = Result<Settled, StoreError>> + Send {
        let _ = (reservation, settled);
        async { Ok(None) }
    }

    /// Returns this instance's leased units and flushes its local counts, within [`CLOSE_WITHIN`].
    /// The store must not be asked for a decision afterwards.
    fn close(&self) -> impl Future<Output = ()> + Send;
}

/// Something that happened to a shared store and belongs in the log.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum StoreEvent {
    /// A node of the store replies with errors.
    ErrorReplies {
        /// The node: `host:port`.
        node: String,
        /// The kind of error, from a fixed list.
        code: &'static str,
        /// The text of the last error.
        text: String,
        /// The number of errors since the last such event.
        count: u64,
    },
    /// The primary has changed.
    PrimaryChanged {
        /// The former primary: `host:port`.
        from: String,
        /// The new primary: `host:port`.
        to: String,
    },
}

/// One metric of a shared store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoreMetric {
    /// Its name, without the common prefix of store metrics.
    pub name: &'static str,
    /// What it counts.
    pub help: &'static str,
    /// Its value.
    pub value: StoreMetricValue,
}

/// The value of a [`StoreMetric`].
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum StoreMetricValue {
    /// A value that can go up and down.
    Gauge(u64),
    /// A value that only increases.
    Counter(u64),
    /// One counter for each combination of labels.
    Counters(Vec<(Vec<(&'static str, String)>, u64)>),
    /// A cumulative histogram.
    Histogram {
        /// The unit of the bounds and the sum.
        unit: StoreMetricUnit,
        /// For each upper bound, the number of observations that do not exceed it.
        buckets: Vec<(u64, u64)>,
        /// The number of observations.
        count: u64,
        /// The sum of all observations.
        sum: u64,
    },
}

/// The unit of a histogram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StoreMetricUnit {
    /// A plain number.
    Count,
    /// Microseconds, shown as seconds.
    Micros,
}
