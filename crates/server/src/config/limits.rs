//! `limits`: how much clients can use, and for how long.

use std::time::Duration;

use tollgate_core::Span;
use tollgate_listen::Limits;
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
/// The smallest message: a smaller one would hold no request.
const BYTES_MIN: usize = 4 * 1024;
/// The smallest head: the HTTP library has no smaller buffer.
const HEADER_BYTES_MIN: usize = 8 * 1024;
/// The largest: lengths on the wire have 32 bits, of which the peer may use 31.
const BYTES_MAX: usize = 1 << 30;

/// `limits`.
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
    let size_from = |key, default, min| {
        let size = map.parse(key, "64KiB", |text| size(text, min));
        size.unwrap_or(default)
    };
    let size = |key, default| size_from(key, default, BYTES_MIN);
    let buffer = |key, text, default| map.parse(key, text, buffer).unwrap_or(default);
    let some = Span::from_millis(1);
    let age = Span::from(default.connection_age);
    let header_bytes = size_from("header_bytes", 16 * 1024, HEADER_BYTES_MIN);
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
        buffer_per_connection: buffer(
            "buffer_per_connection",
            "32MiB",
            default.buffer_per_connection,
        ),
        buffer: buffer("buffer", "64MiB", default.buffer),
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
    check_buffers(&limits, map);
    limits
}

/// A size of a buffer. Whether the largest request fits is checked later, for defaults as well.
fn buffer(text: &str) -> Result<usize, String> {
    match bytes(text)? {
        bytes if bytes <= BYTES_MAX => Ok(bytes),
        _ => Err("is more than 1GiB".to_owned()),
    }
}

/// Reports buffers that are smaller than the largest request.
fn check_buffers(limits: &Limits, map: &Settings<'_>) {
    let largest = limits.message_bytes.max(limits.body_bytes);
    for (key, bytes) in [
        ("buffer_per_connection", limits.buffer_per_connection),
        ("buffer", limits.buffer),
    ] {
        if bytes < largest {
            let message = format!("`{key}` is smaller than the largest request, {largest} bytes");
            map.report_error(
                key,
                message,
                "enlarge it, or reduce `message_bytes` and `body_bytes`",
            );
        }
    }
}

/// A size of a message, of at least `min` bytes.
fn size(text: &str, min: usize) -> Result<usize, String> {
    match bytes(text)? {
        bytes if (min..=BYTES_MAX).contains(&bytes) => Ok(bytes),
        _ => Err(format!("is not between {}KiB and 1GiB", min / 1024)),
    }
}
