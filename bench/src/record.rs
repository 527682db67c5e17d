//! The measurements, as written to JSON and as printed.

use serde::{Deserialize, Serialize};

/// What one contender did in one scenario. A field is null if it was not measured.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Record {
    pub(crate) scenario: String,
    pub(crate) contender: String,
    pub(crate) keys: u64,
    pub(crate) key_kind: String,
    pub(crate) distribution: String,
    pub(crate) outcome: String,
    pub(crate) threads: usize,
    pub(crate) ops_per_second: Option<f64>,
    pub(crate) p50_ns: Option<u64>,
    pub(crate) p99_ns: Option<u64>,
    pub(crate) p9999_ns: Option<u64>,
    pub(crate) bytes_per_key: Option<f64>,
    /// Instructions of one decision.
    pub(crate) instructions: Option<f64>,
}

/// A record and what is known beside it, on its way from the process that measured.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Measured {
    pub(crate) record: Record,
    /// What stands in the cell if the contender cannot do this, or what else is to be known.
    pub(crate) note: String,
    /// How many of the decisions allowed the request.
    pub(crate) allowed_share: Option<f64>,
    /// Live keys that were evicted.
    pub(crate) lost_keys: Option<u64>,
    /// Units allowed beyond the limit, as a share of those that the limit allows.
    pub(crate) excess: Option<f64>,
    /// Resident bytes at the end over those when the table was full.
    pub(crate) growth: Option<f64>,
}
