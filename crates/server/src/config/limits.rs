//! `limits`: what clients can take up, and for how long.

use std::time::Duration;

use tollgate_core::Span;
use tollgate_rules::Settings;

use super::bytes;

/// The most connections that a listener can be given.
const CONNECTIONS_MAX: u32 = 1_000_000;
/// The most streams that a connection can be given.
const STREAMS_MAX: u32 = 10_000;
/// The most frames without a request that a connection can be given.
const CONTROL_FRAMES_MAX: u32 = 1_000_000;
/// The longest timeout.
const TIMEOUT_MAX: Span = Span::HOUR;
/// The longest life of a connection.
const AGE_MAX: Span = Span::DAY.times(366);
/// Buffers and messages that are smaller hold no request.
const BYTES_MIN: usize = 4 * 1024;
/// The largest of them: lengths on the wire have 32 bits, of which the peer may use 31.
const BYTES_MAX: usize = 1 << 30;

/// What clients can take up, and for how long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// `connections`: at once, for each of the listeners `grpc` and `http`. When all are taken, a
    /// new one takes the place of the one that has been idle longest, or is only told about
    /// health. 1024.
    pub connections: usize,
    /// `connections_per_address`: at once from one IPv4 address or one IPv6 /64, for each of these
    /// listeners. 256.
    pub connections_per_address: usize,
    /// `admin_connections`: at once, for the listener `admin`. 64.
    pub admin_connections: usize,
    /// `connection_age`: after this time a connection is asked to end. 1 h.
    pub connection_age: Duration,
    /// `streams_per_connection`: calls at once on one gRPC connection. 256.
    pub streams_per_connection: u32,
    /// `streams`: calls at once on all gRPC connections, beyond a few that each may always have.
    /// 4096.
    pub streams: usize,
    /// `header_bytes`: the head of an HTTP request, or the metadata of a gRPC call. 16 KiB.
    pub header_bytes: u32,
    /// `message_bytes`: the largest gRPC message that is read. 8 MiB: 128 descriptors, as many as
    /// are decided on, with a value of 60 KiB each, the most that Envoy takes as headers.
    pub message_bytes: usize,
    /// `body_bytes`: the largest HTTP body that is read. 256 KiB.
    pub body_bytes: usize,
    /// `buffer_per_connection`: bytes of requests that have not come to their end, and of gRPC
    /// messages that are not answered, on one connection. 16 MiB.
    pub buffer_per_connection: usize,
    /// `buffer`: the same on all connections, beyond a little that each may always have. 64 MiB.
    pub buffer: usize,
    /// `turn_bytes`: bytes of requests that are read and decided on for one connection before the
    /// others have their turn. 32 KiB.
    pub turn_bytes: usize,
    /// `control_frames`: frames without a request (PING, SETTINGS, RST_STREAM and the like) that a
    /// gRPC connection may send at once; a tenth of them is added each second. 1000.
    pub control_frames: u32,
    /// `header_timeout`: until a request's head is there, and how long a connection may idle. 10 s.
    pub header_timeout: Duration,
    /// `body_timeout`: until a request's body or message is there. 10 s.
    pub body_timeout: Duration,
    /// `write_timeout`: how long a peer may take nothing of its answer. 10 s.
    pub write_timeout: Duration,
    /// `ping_interval`: how often a gRPC peer is asked if it is there. 30 s.
    pub ping_interval: Duration,
    /// `ping_timeout`: how long it may take to say so. 10 s.
    pub ping_timeout: Duration,
    /// `stop_delay`: how long the service says that it is not ready before it closes its doors, so
    /// that a load balancer can look elsewhere. 0 s.
    pub stop_delay: Duration,
    /// `drain_timeout`: how long requests in flight may take once the doors are closed. 10 s.
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
            buffer_per_connection: 16 * 1024 * 1024,
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

impl Limits {
    pub(super) fn take(map: &Settings<'_>) -> Limits {
        let default = Limits::default();
        let span = |key, default: Duration, min| {
            let span = map.span(key, Span::from(default), (min, TIMEOUT_MAX));
            Duration::from(span)
        };
        let count = |key, default: usize, max| {
            let default = u32::try_from(default).expect("the defaults are small");
            usize::try_from(map.count(key, default, (1, max))).expect("32 bits fit")
        };
        let size = |key, default| map.parsed(key, "64KiB", size).unwrap_or(default);
        let some = Span::from_millis(1);
        let age = Span::from(default.connection_age);
        let header_bytes = size("header_bytes", 16 * 1024);
        let limits = Limits {
            connections: count("connections", default.connections, CONNECTIONS_MAX),
            connections_per_address: count(
                "connections_per_address",
                default.connections_per_address,
                CONNECTIONS_MAX,
            ),
            admin_connections: count(
                "admin_connections",
                default.admin_connections,
                CONNECTIONS_MAX,
            ),
            connection_age: map
                .span("connection_age", age, (Span::SECOND, AGE_MAX))
                .into(),
            streams_per_connection: map.count(
                "streams_per_connection",
                default.streams_per_connection,
                (1, STREAMS_MAX),
            ),
            streams: count("streams", default.streams, CONNECTIONS_MAX),
            header_bytes: u32::try_from(header_bytes).expect("a size is below 2^31"),
            message_bytes: size("message_bytes", default.message_bytes),
            body_bytes: size("body_bytes", default.body_bytes),
            buffer_per_connection: size("buffer_per_connection", default.buffer_per_connection),
            buffer: size("buffer", default.buffer),
            turn_bytes: size("turn_bytes", default.turn_bytes),
            control_frames: map.count(
                "control_frames",
                default.control_frames,
                (10, CONTROL_FRAMES_MAX),
            ),
            header_timeout: span("header_timeout", default.header_timeout, some),
            body_timeout: span("body_timeout", default.body_timeout, some),
            write_timeout: span("write_timeout", default.write_timeout, some),
            ping_interval: span("ping_interval", default.ping_interval, some),
            ping_timeout: span("ping_timeout", default.ping_timeout, some),
            stop_delay: span("stop_delay", default.stop_delay, Span::ZERO),
            drain_timeout: span("drain_timeout", default.drain_timeout, Span::ZERO),
        };
        limits.complain(map);
        limits
    }

    /// Names buffers into which not even one request fits.
    fn complain(&self, map: &Settings<'_>) {
        let largest = self.message_bytes.max(self.body_bytes);
        for (key, bytes) in [
            ("buffer_per_connection", self.buffer_per_connection),
            ("buffer", self.buffer),
        ] {
            if bytes < largest {
                let message =
                    format!("`{key}` is smaller than the largest request, {largest} bytes");
                map.complain(
                    key,
                    message,
                    "enlarge it, or reduce `message_bytes` and `body_bytes`",
                );
            }
        }
    }
}

/// A size of a buffer or a message.
fn size(text: &str) -> Result<usize, String> {
    match bytes(text)? {
        bytes @ BYTES_MIN..=BYTES_MAX => Ok(bytes),
        _ => Err("is not between 4KiB and 1GiB".to_owned()),
    }
}
