//! Tollgate's engine: a [`Request`](tollgate_core::Request) in, an
//! [`Answer`](tollgate_core::Answer) out.
//!
//! An [`Engine`] combines rules with the stores that count under them:
//!
//! * [`Stores`] says which store serves which domain: memory, or a shared store of any backend
//!   ([`tollgate_core::SharedStore`]) with its [`Fallback`].
//! * [`Reloader`] reads rules again and applies them, for each domain completely or not at all;
//!   [`watch_rules`] does so whenever files change.
//! * [`Engine::reserve`] charges an estimate, and [`Engine::settle`] the actual cost in its place,
//!   at most once; [`Engine::reserve_owned`] and [`Engine::settle_owned`] do so descriptor by
//!   descriptor, for a process that settles what it has reserved.
//! * [`Engine::explain`] says how a request finds its rules and what would be decided now.
//! * [`Engine::report_headroom`] makes room for the elastic parts of limits, for a while;
//!   [`Hysteresis`] finds headroom in a measured pressure.
//! * [`Engine::visit_decisions`] tells what was decided, by domain, rule and outcome.
//! * [`Engine::watch_keys`] counts the keys with the most decisions and denials, while it is held.
//! * [`watch_stores`] logs when a shared store becomes unavailable and when it is available again.
//!
//! Knows no protocol, no socket and no backend but memory.

mod any_shared;

mod stores;

mod decisions;

mod denied_requests;

mod sketch;

mod hot_keys;

mod reservation_id;

mod reservation_table;

mod engine;

mod elastic;

mod explanation;

mod headroom;

mod hysteresis;

mod key_watch;

mod outcome;

mod reload_history;

mod reload;

mod watched_files;

mod watch;

mod store_health;

mod unshared;

pub use any_shared::AnyShared;
pub use decisions::{DescriptorOutcome, VALUE_SERIES_MAX};
pub use denied_requests::{
    DENIALS_BY_ID_MAX, DENIED_REQUEST_BYTES_MAX, DENIED_REQUEST_KEPT, DENIED_REQUESTS,
    DENIED_REQUESTS_MAX, DeniedRequest, REQUEST_ID_BYTES_MAX,
};
pub use engine::{
    ChargedBy, Decided, Engine, OwnedReservation, RESERVED_LIMITS_MAX, ReservationReceipt,
    ReserveError, SettleError, SettledLimit,
};
pub use explanation::{Explanation, peek};
pub use headroom::{HEADROOM_REPORT_MAX, HEADROOM_REPORTS_MAX, HeadroomError, HeadroomReport};
pub use hot_keys::{HOT_KEY_COUNTERS, HOT_KEYS_MAX, HOT_KEYS_WINDOW, HotKey, HotKeys};
pub use hysteresis::{Hysteresis, Level, Pace, Thresholds};
pub use key_watch::KeyWatch;
pub use outcome::{Outcome, ReloadCounts};
pub use reload::{Reloader, RuleSource, Why, log_diagnostics};
pub use reload_history::{RELOAD_DIAGNOSTICS_KEPT, RELOADS_KEPT, ReloadRecord};
pub use reservation_id::{InvalidReservationId, ReservationId};
pub use reservation_table::ReservationBounds;
pub use store_health::watch_stores;
pub use stores::{DEFAULT_STORE, StoreSnapshot, Stores};
pub use tollgate_core::CLOSE_WITHIN;
pub use tollgate_fallback::{DENIED_FOR, Fallback, FallbackCounts};
pub use unshared::{Unshared, find_unshared};
pub use watch::{ORDERS_MAX, Order, watch_rules};
