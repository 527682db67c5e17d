//! Real `tollgate serve` over real Redis servers: alone, in a Cluster, under Sentinel, behind TLS.

#![allow(clippy::unwrap_used, clippy::print_stdout)]

mod killed;
mod servers;
mod service;
