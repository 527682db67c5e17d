//! The service as its clients see it: real sockets on free ports, and a clock that stands still.

#![allow(clippy::unwrap_used)]

mod eventually;
mod house;

mod http_client;

mod grpc_client;

mod crowd;
mod debits;
mod denials;
mod elastic;
mod enforcing;
mod exact;
mod reservations;

mod admin_host;
mod admin_tokens;
mod auth;
mod browser;
mod clock_back;
mod cross_site;
mod dashboard;
mod gateway;
mod page;
mod responses;

mod backlog;
mod batch;

mod decision_frames;
mod decisions;

mod http2_settings;
mod malformed;

mod one_port;
mod protocol;

mod redis_client;

mod redis_clients;
mod redis_compared;
mod redis_drain;
mod redis_instances;
mod redis_libraries;
mod redis_programs;
mod redis_protocol;
mod redis_transactions;

mod bounded;
mod unread_responses;

mod reload;

mod tls_client;

mod unix_sockets;

mod tls;
mod tls_peers;
mod tls_reload;

mod observed;
mod telemetry;
mod telemetry_batches;
mod telemetry_metrics;

mod stopping;

mod over_redis;

mod kept_reservations;
mod long_messages;

mod without_redis;

mod journal;

mod toy_backend;
