//! Limits on clients.

use std::time::Duration;

/// How much of the service clients can use, and for how long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// `connections`: at once, for each of the listeners `grpc` and `http`. When all are taken, a
    /// new one replaces the one that has been idle longest, or is only served health checks.
    /// 1024.
    pub connections: usize,
    /// `connections_per_address`: at once from one IPv4 address or one IPv6 /64, for each of these
    /// listeners. Not for trusted proxies, whose address stands for many clients. 256.
    pub connections_per_address: usize,
    /// `admin_connections`: at once, for the listener `admin`. 64.
    pub admin_connections: usize,
    /// `connection_age`: after this time a connection is asked to close. 1 h.
    pub connection_age: Duration,
    /// `streams_per_connection`: calls at once on one connection of HTTP/2. 256.
    pub streams_per_connection: u32,
    /// `streams`: calls at once on all connections of HTTP/2, beyond a few guaranteed to each.
    /// 4096.
    pub streams: usize,
    /// `header_bytes`: the head of an HTTP request, or the metadata of a gRPC call. 16 KiB.
    pub header_bytes: u32,
    /// `message_bytes`: the largest gRPC message that is read. 8 MiB: 128 descriptors, as many as
    /// are decided on, with a value of 60 KiB each, the most that Envoy takes as headers.
    pub message_bytes: usize,
    /// `body_bytes`: the largest HTTP body that is read. 256 KiB.
    pub body_bytes: usize,
    /// `buffer_per_connection`: bytes of incomplete requests and of gRPC messages without a
    /// response, on one connection. 32 MiB: 250 calls at once that have the largest headers that
    /// Envoy accepts.
    pub buffer_per_connection: usize,
    /// `buffer`: the same on all connections, beyond those that each has guaranteed. 64 MiB.
    pub buffer: usize,
    /// `turn_bytes`: bytes of requests that are read and decided on for one connection before other
    /// connections are served: its quantum. Eight times as many bytes are written. 32 KiB.
    pub turn_bytes: usize,
    /// `control_frames`: frames without a request (PING, SETTINGS, RST_STREAM and the like) that a
    /// connection of HTTP/2 may send at once; a tenth of them is added each second. 1000.
    pub control_frames: u32,
    /// `header_timeout`: until a request's head has arrived, and how long a connection may be idle.
    /// 10 s.
    pub header_timeout: Duration,
    /// `body_timeout`: until a request's body or message has arrived. 10 s.
    pub body_timeout: Duration,
    /// `write_timeout`: how long a peer may read nothing of its response. 10 s.
    pub write_timeout: Duration,
    /// `ping_interval`: how often a gRPC peer is sent a PING. 30 s.
    pub ping_interval: Duration,
    /// `ping_timeout`: how long the peer may take to answer it. 10 s.
    pub ping_timeout: Duration,
    /// `stop_delay`: how long readiness checks fail before the listeners close, so that a load
    /// balancer stops sending requests. 0 s.
    pub stop_delay: Duration,
    /// `drain_timeout`: how long requests in flight may take once the listeners are closed. 10 s.
    pub drain_timeout: Duration,
}

// === impl Limits ===

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            connections: 1024,
            connections_per_address: 256,
            admin_connections: 64,
            connection_age: Duration::from_secs(3600),
            streams_per_connection: 256,
            streams: 4096,
            header_bytes: 16 * 1024,
            message_bytes: 8 * 1024 * 1024,
            body_bytes: 256 * 1024,
            buffer_per_connection: 32 * 1024 * 1024,
            buffer: 64 * 1024 * 1024,
            turn_bytes: 32 * 1024,
            control_frames: 1000,
            header_timeout: Duration::from_secs(10),
            body_timeout: Duration::from_secs(10),
            write_timeout: Duration::from_secs(10),
            ping_interval: Duration::from_secs(30),
            ping_timeout: Duration::from_secs(10),
            stop_delay: Duration::ZERO,
            drain_timeout: Duration::from_secs(10),
        }
    }
}
