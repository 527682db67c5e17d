//! Tollgate's service: gRPC, HTTP, admin and metrics.
//!
//! [`serve`] is `tollgate serve`: it opens the listeners that a [`Config`] names, and runs until a
//! signal ends it. [`start`] does the same and returns a [`Running`], for tests and for programs
//! with their own `main`.
//!
//! * gRPC: Envoy's rate limit service, health and reflection.
//! * HTTP: `/json` as Envoy's service has it, `/v1/check`, `/v1/settle`, `/v1/auth`, health, and
//!   `/openapi.json`.
//! * redis: the Redis protocol, with `CL.THROTTLE` and `TG.CHECK`.
//! * gateway: passes on requests that are allowed.
//! * admin: the dashboard, `/metrics`, `/v1/rules`, `/v1/explain`, `/v1/headroom` and
//!   `/healthz`.
//!
//! Knows nothing about YAML, and nothing about sockets and TLS: those are `tollgate-listen`'s.

mod admin_tokens;
#[cfg(test)]
mod allocations;

mod config;

mod log;

mod serve_error;

mod stores;

mod metrics;

mod call_end;

mod body;

mod head;
mod held_bytes;

mod exchange;

mod thread_caches;

mod reclaim;

mod codec;

mod grpc;

mod options;

mod reply;

mod media_type;

mod trace;

mod check;

mod whole_number;

mod headroom;

mod host;

mod settle;

mod auth;

#[doc(hidden)]
pub mod fuzzed;

mod http;

mod gateway;

mod redis_protocol;

mod descriptor_text;

mod explanation;

mod explain;

mod dashboard;

mod decisions;

mod admin;

mod certificates;

mod setting_warning;

mod unlimited;

mod reload;

mod listener;

mod load_sampler;

mod server;

pub use admin_tokens::{InvalidTokens, TokenSources};
pub use certificates::find_untimely_certificates;
pub use config::{
    Auth, Config, ConfigError, Explain, HeadroomConfig, Listen, ListenerKind, Log, LogFormat,
    LogLevel, Memory, OtherStore, Password, Place, RedisProtocol, STORES_MAX, find_exposed_admin,
};
pub use descriptor_text::{DescriptorText, InvalidDescriptorText};
pub use explanation::{EXPLANATION_VERSION, ExplanationReport, PastDenial, Values};
pub use log::{LogGuard, init as init_log, log_start_error};
pub use reclaim::{AddressSpace, tune_allocator};
pub use serve_error::ServeError;
pub use server::{Running, serve, start};
pub use setting_warning::SettingWarning;
pub use stores::find_memory_shortage;
pub use thread_caches::empty_thread_cache;
pub use tollgate_engine::{
    CLOSE_WITHIN, DEFAULT_STORE, Outcome, ReservationBounds, Thresholds, VALUE_SERIES_MAX,
};
pub use tollgate_gateway::{GatewaySettings, LoadSettings, RouteSettings};
pub use tollgate_listen::{InvalidTls, Limits, TlsFiles};
pub use tollgate_telemetry::{
    Endpoint, FLUSH_WITHIN, QUEUED_SPANS_MAX, Ratio, SignalConfig, TelemetryConfig,
};
pub use unlimited::find_unlimited;
