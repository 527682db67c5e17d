//! Tollgate's gateway: a reverse proxy that limits requests and passes the allowed ones on.
//!
//! A [`Gateway`] is made of [`GatewaySettings`] and an engine, and answers the requests of any
//! connection: it finds the route, identifies the client, asks the engine, and passes on what is
//! allowed to a server of the route's upstream. Bodies stream both ways, and are never held in
//! memory as a whole.
//!
//! Knows nothing about YAML, listeners and signals. Upstreams are what only it knows.

mod settings;
mod stream_count;

mod descriptor_keys;

mod misspelling;

mod matcher;

mod metrics;

mod utc;

mod log_line;

mod log_writer;

mod access_log;

mod active;

mod log_record;

mod lists;

mod permit_table;

mod concurrency_limit;

mod failure;

mod received_body;

mod request_body;

mod address_health;

mod background;

mod upstream_tls;

mod connector;

mod connection_pool;

mod health_check;

mod retry;

mod response_times;

mod load_trend;

mod upstream_load;

mod upstream;

mod tunnel;

mod response_body;

mod upgrade;

mod forwarding;

mod pricing;

mod inspection;

mod meter;

mod route;

mod refund;

mod reservation;

mod denial;

mod exchange;

mod gateway;

pub use concurrency_limit::{IN_FLIGHT_LIMITS_MAX, IN_FLIGHT_REQUESTS_MAX, InFlightSettings};
pub use denial::{REQUEST_ID, keep_denial, request_id};
pub use gateway::Gateway;
pub use lists::{InvalidList, LIST_BYTES_MAX, LIST_FILES_MAX, ListSettings};
pub use load_trend::LoadSettings;
pub use metrics::{REQUESTS, UPSTREAM_ERRORS, UPSTREAM_SECONDS};
pub use response_body::{BodyError, ResponseBody};
pub use settings::{
    ADDRESSES_MAX, AccessLogFormat, AccessLogSettings, ByteSize, GatewaySettings,
    HealthCheckSettings, MATCHES_MAX, MatchSettings, ROUTES_MAX, RetrySettings, RouteSettings,
    TimeoutSettings, UPSTREAMS_MAX, UpstreamProtocol, UpstreamSettings, UpstreamTlsSettings,
    hash_files,
};
