//! The seam between the engine and a store that several instances share.

use std::future::Future;

use crate::store::Store;

/// A store that several instances share, usually over a network.
///
/// Beside decisions, an operator needs to see whether it answers and what it does. Everything that
/// is specific to one backend goes through [`SharedStore::metrics`] and
/// [`SharedStore::take_events`], so that a new backend needs no change in whoever serves it.
pub trait SharedStore: Store {
    /// What the store is, as a log line names it: `Redis`.
    fn kind(&self) -> &'static str;

    /// Counts this instance among those that share the store, from now until it is closed.
    fn join(&self);

    /// How many instances share the store, this one included: at least 1.
    fn instances(&self) -> u32;

    /// Whether the store answers decisions. One that was never connected does not.
    fn is_up(&self) -> bool;

    /// Why it does not answer, if it knows.
    fn trouble(&self) -> Option<String>;

    /// Events for the log since the last call. The store bounds how many there are.
    fn take_events(&self) -> Vec<StoreEvent>;

    /// What the store has counted.
    fn metrics(&self) -> Vec<StoreMetric>;

    /// Returns what this instance has leased and reports what it has counted. Nothing may be
    /// decided afterwards.
    fn close(&self) -> impl Future<Output = ()> + Send;
}

/// Something that happened to a shared store and belongs in the log.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum StoreEvent {
    /// One of the store's nodes replies with errors.
    ErrorReplies {
        /// Which node: `host:port`.
        node: String,
        /// What kind of error, from a fixed list.
        code: &'static str,
        /// The last of them.
        text: String,
        /// How many since the last event.
        count: u64,
    },
    /// Another node is the primary now.
    PrimaryChanged {
        /// The former one: `host:port`.
        from: String,
        /// The present one: `host:port`.
        to: String,
    },
}

/// One metric of a shared store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoreMetric {
    /// Its name, without the prefix that all metrics of stores have.
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
    /// A number that goes up and down.
    Gauge(u64),
    /// A number that only grows.
    Counter(u64),
    /// One counter for each combination of labels.
    Counters(Vec<(Vec<(&'static str, String)>, u64)>),
    /// How many observations were at most as large as each upper bound.
    Histogram {
        /// What the bounds and the sum are measured in.
        unit: StoreMetricUnit,
        /// For each upper bound, how many observations were at most as large.
        buckets: Vec<(u64, u64)>,
        /// How many there were.
        count: u64,
        /// The sum of all of them.
        sum: u64,
    },
}

/// What a histogram measures.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StoreMetricUnit {
    /// Things.
    Count,
    /// Microseconds, shown as seconds.
    Micros,
}
