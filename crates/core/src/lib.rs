//! The types and algorithms of Tollgate.
//!
//! This crate defines limits, costs and decisions, and each algorithm as a pure function: given the
//! stored state, what happens to this cost at this moment, and what is the new state? Every store
//! runs these functions, or passes a test suite that shows that it behaves the same.
//!
//! It reads no clock, does no I/O and starts no threads. Programs that limit
//! rates use the `tollgate` crate; this one is for authors of stores and protocols.

#![deny(missing_docs)]

mod span;

mod moment;

mod limit;

mod cost;

mod key;

mod key_folding;

mod decision;

mod flat_decision;

mod sharing;

mod charge;

mod usage;

mod bucket;

mod fixed_window;

mod sliding_window;

mod sliding_log;

mod account;

mod step;

mod reserved;

mod verdict;

mod ledger;

mod store;

mod kept_reservation;

mod shared_store;

mod inspect_store;

mod escape;

mod request;

mod answer;

#[cfg(feature = "serde")]
mod text_serde;

pub use account::Account;
pub use answer::{Answer, Limited, RuleName, Status};
pub use bucket::Bucket;
pub use charge::{
    CHARGES_MAX, Charge, ChargeDenied, Enforcement, LIMIT_HISTORY_MAX, LimitHistory, OnDenial,
    Resolution,
};
pub use cost::Cost;
pub use decision::{Decision, Denial, Grant, Wait};
pub use escape::{Escaped, escape_json, is_printable, to_text};
pub use fixed_window::FixedWindow;
pub use flat_decision::FlatDecision;
pub use inspect_store::{HeldUnits, InspectStore, KeyState};
pub use kept_reservation::{
    KeptReservation, NewReservation, ReserveVerdict, Settled, SettledCharge,
};
pub use key::Key;
pub use key_folding::{KeyFold, KeyFolding};
pub use ledger::Ledger;
pub use limit::{
    Algorithm, Anchor, INTERVAL_MIN, InvalidLimit, Limit, ParseLimitError, REFILL_MAX,
    SEGMENTS_MAX, Segments, WINDOW_MAX,
};
pub use moment::{Clock, Moment, Now, Timeline};
pub use request::{
    COST_MAX, DESCRIPTORS_MAX, DOMAIN_BYTES_MAX, Descriptor, ENTRIES_MAX, Entry, InvalidRequest,
    Override, OwnedDescriptor, OwnedRequest, PerDescriptor, Request,
};
pub use reserved::{Reserved, Settlement};
pub use shared_store::{
    CLOSE_WITHIN, SharedStore, StoreEvent, StoreMetric, StoreMetricUnit, StoreMetricValue,
};
pub use sharing::{Mode, OnStoreError, SEGMENT_LEASED_MIN, Sharing};
pub use sliding_log::{Entries, Entry as LogEntry, Plain, SlidingLog};
pub use sliding_window::{COUNTERS_MAX, SlidingWindow};
pub use span::{ParseSpanError, Span};
pub use step::step;
pub use store::{KeyHasher, RESOLUTIONS_MAX, Store, StoreError};
pub use usage::Usage;
pub use verdict::{
    Bill, CHARGES_INLINE, ChargedLine, DecidedBy, DenialReason, Line, PerCharge, RequestDenial,
    TooManyCharges, Verdict, settle_separate,
};
