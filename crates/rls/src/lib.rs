//! Envoy's rate limit service protocol, version 3: its messages and their JSON.
//!
//! A [`BoundedRequest`] is what is read of a message, and an [`IncomingRequest`] reads it as it
//! arrives. A [`RateLimitRequest`] becomes a [`tollgate_core::Request`] ([`request`]), or an
//! [`tollgate_core::InvalidRequest`] that says what is wrong with it; a [`tollgate_core::Answer`]
//! becomes a [`RateLimitResponse`] ([`response`]). The messages have the JSON of proto3: [`read`]
//! reads it, and [`json`] writes it from the answer; `serde` reads it as a part of a larger
//! document.
//! [`decisions`] has the messages of Tollgate's own service, `proto/tollgate/v1/decisions.proto`.
//! Domain, keys and values are bytes: what a client sends need not be UTF-8.
//!
//! Knows nothing about sockets, gRPC, rules or stores.

mod proto;

mod json;

mod field;

mod bounded;

mod open_descriptor;

mod incoming;

mod request;

mod response;

mod metadata;

pub use bounded::BoundedRequest;
pub use incoming::{IncomingRequest, UnreadableMessage};
pub use json::{InvalidJson, read};
pub use metadata::metadata;
pub use open_descriptor::ENTRIES_READ_MAX;
pub use pbjson_types::Struct;
pub use proto::envoy::config::core::v3::HeaderValue;
pub use proto::envoy::extensions::common::ratelimit::v3::{
    RateLimitDescriptor, rate_limit_descriptor,
};
pub use proto::envoy::service::ratelimit::v3::{
    RateLimitRequest, RateLimitResponse, rate_limit_response,
};
pub use proto::envoy::r#type::v3::RateLimitUnit;
pub use proto::tollgate::v1 as decisions;
pub use request::request;
pub use response::{DurationText, Times, duration, json, response, write_members};

/// An encoded `FileDescriptorSet` of the protocol, for gRPC reflection.
pub const DESCRIPTORS: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/descriptors.bin"));

/// The name of the service of the stream of decisions, whose messages are in [`decisions`].
pub const DECISIONS_SERVICE: &str = "tollgate.v1.Decisions";

/// The name of Envoy's one service.
pub const SERVICE: &str = "envoy.service.ratelimit.v3.RateLimitService";
