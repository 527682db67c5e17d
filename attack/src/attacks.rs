//! The attacks of malicious clients, and load. Each goes on until it is dropped.

mod crowd;

mod bodies;

mod floods;

mod gateway;

mod hoards;

mod hollow;

mod idle;

pub(crate) mod kept;

mod load;

mod loads;

mod pipelines;

mod redis_protocol;

mod slowness;

mod streams;

mod tls;

mod values;

use crate::service::Kind;
use crate::target::Target;
pub(crate) use crowd::Attacking;
pub(crate) use load::{Answered, Loading};

/// A named attack or load.
pub(crate) struct Attack {
    pub(crate) name: &'static str,
    pub(crate) begin: Begin,
    /// The service that it needs.
    pub(crate) kind: Kind,
    pub(crate) effect: Effect,
}

/// What must have come of an attack or a load, beside that something was sent or answered.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Effect {
    None,
    /// This metric of the service has grown.
    Counted(&'static str),
    /// This gauge of the service was at least this high during the attack. The client has a few
    /// connections to each listener, and in CI one second is short for a slow machine to open a
    /// thousand others.
    Reached(&'static str, u64),
    /// The upstream restarted, and answered again.
    Restarted,
}

/// How it begins.
pub(crate) enum Begin {
    Attack(fn(Target) -> Attacking),
    Load(fn(Target, Answered) -> Loading),
}

/// The metric of connections that the service closed, of a listener and for a reason.
macro_rules! closed {
    ($listener:literal, $reason:literal) => {
        concat!(
            "tollgate_connections_closed_total{listener=\"",
            $listener,
            "\",reason=\"",
            $reason,
            "\"}"
        )
    };
}

/// The gauge of connections of a listener.
macro_rules! connections {
    ($listener:literal) => {
        concat!("tollgate_connections{listener=\"", $listener, "\"}")
    };
}

/// The metric of requests that the service answered with an error, of a listener and a kind.
macro_rules! error {
    ($listener:literal, $kind:literal) => {
        concat!(
            "tollgate_request_errors_total{listener=\"",
            $listener,
            "\",kind=\"",
            $kind,
            "\"}"
        )
    };
}

/// The gauge of bytes that unfinished requests hold.
const HELD: &str = "tollgate_request_bytes_held";

/// All of them, in the order in which they are run.
pub(crate) const ATTACKS: [Attack; 60] = [
    with_metric(
        "rapid reset",
        floods::rapid_reset,
        closed!("grpc", "protocol"),
    ),
    with_metric(
        "continuation flood",
        floods::continuations,
        closed!("grpc", "protocol"),
    ),
    with_metric("ping flood", floods::pings, closed!("grpc", "flood")),
    with_metric(
        "ping answers nobody asked",
        floods::pongs,
        closed!("grpc", "flood"),
    ),
    with_metric("settings flood", floods::settings, closed!("grpc", "flood")),
    with_metric(
        "http, ping flood",
        floods::pings_to_http,
        closed!("http", "flood"),
    ),
    with_metric(
        "http, settings flood",
        floods::settings_to_http,
        closed!("http", "flood"),
    ),
    effective(
        Effect::Reached(HELD, 1 << 20),
        attack("unfinished messages", bodies::unfinished_messages),
    ),
    effective(
        Effect::Reached(HELD, 1 << 20),
        attack("hollow messages", hollow::messages),
    ),
    effective(
        Effect::Reached(HELD, 8 << 20),
        attack("wide messages", hollow::wide_messages),
    ),
    effective(
        Effect::Reached(connections!("grpc"), 32),
        attack("unfinished reflection", bodies::unfinished_reflection),
    ),
    with_metric(
        "unfinished decisions",
        bodies::unfinished_decisions,
        error!("grpc", "no_room"),
    ),
    with_metric(
        "unfinished http bodies",
        bodies::unfinished_bodies,
        error!("http", "no_room"),
    ),
    effective(
        Effect::Reached(connections!("http"), 32),
        attack("bodies of single bytes", bodies::single_bytes),
    ),
    effective(
        Effect::Reached(connections!("grpc"), 100),
        attack("open streams", streams::open_streams),
    ),
    effective(
        Effect::Reached(connections!("grpc"), 50),
        attack("large headers", streams::large_headers),
    ),
    effective(
        Effect::Reached(connections!("grpc"), 100),
        attack("answers nobody reads", slowness::unread_answers),
    ),
    effective(
        Effect::Reached(connections!("http"), 100),
        attack("slow readers", slowness::slow_readers),
    ),
    with_metric(
        "slow writers",
        slowness::slow_writers,
        closed!("http", "idle"),
    ),
    with_metric(
        "hoarding, one address",
        hoards::from_one_address,
        closed!("grpc", "idle"),
    ),
    with_metric(
        "hoarding, many addresses",
        hoards::from_many_addresses,
        closed!("grpc", "idle"),
    ),
    with_metric("http, hoarding", hoards::of_http, closed!("http", "idle")),
    attack("large pipelines", pipelines::over_http),
    attack("large messages at once", pipelines::over_grpc),
    attack("strange and large values", values::strange_values),
    attack("redis, large pipelines", redis_protocol::large_pipelines),
    with_metric(
        "redis, large commands",
        redis_protocol::large_commands,
        error!("redis", "protocol"),
    ),
    with_metric(
        "redis, unfinished commands",
        redis_protocol::unfinished_commands,
        error!("redis", "no_room"),
    ),
    effective(
        Effect::Reached(connections!("redis"), 500),
        attack("redis, hoarding", redis_protocol::hoarded_connections),
    ),
    effective(
        Effect::Reached(connections!("redis"), 32),
        attack("redis, slow readers", redis_protocol::slow_readers),
    ),
    with_metric(
        "gateway, slowloris",
        gateway::slowloris,
        closed!("gateway", "idle"),
    ),
    effective(
        Effect::Reached(connections!("gateway"), 50),
        attack("gateway, header flood", gateway::header_flood),
    ),
    with_metric(
        "gateway, rapid reset",
        gateway::rapid_reset,
        closed!("gateway", "protocol"),
    ),
    with_metric(
        "gateway, continuations",
        gateway::continuations,
        closed!("gateway", "protocol"),
    ),
    with_metric(
        "gateway, ping flood",
        gateway::pings,
        closed!("gateway", "flood"),
    ),
    with_metric(
        "gateway, settings flood",
        gateway::settings,
        closed!("gateway", "flood"),
    ),
    with_metric(
        "gateway, hoarding",
        gateway::hoarded_connections,
        closed!("gateway", "idle"),
    ),
    effective(
        Effect::Reached(connections!("gateway"), 100),
        attack("gateway, slow uploads", gateway::slow_uploads),
    ),
    effective(
        Effect::Reached(connections!("gateway"), 100),
        attack("gateway, slow readers", gateway::slow_readers),
    ),
    over_tls("tls, handshake flood", tls::handshake_flood),
    effective(
        Effect::Counted(closed!("http", "handshake_broken")),
        over_tls("tls, open handshakes", tls::unfinished_handshakes),
    ),
    effective(
        Effect::Reached(connections!("http"), 50),
        over_tls("tls, slow records", tls::slow_records),
    ),
    short(
        "timeouts, heads",
        slowness::late_heads,
        Effect::Counted(error!("http", "timeout")),
    ),
    short(
        "timeouts, bodies",
        bodies::unfinished_bodies,
        Effect::Counted(error!("http", "timeout")),
    ),
    short(
        "timeouts, readers",
        slowness::stuck_readers,
        Effect::Counted(closed!("http", "slow_reader")),
    ),
    short(
        "timeouts, windows of 0",
        slowness::closed_windows,
        Effect::Counted(closed!("grpc", "unread_answers")),
    ),
    short(
        "timeouts, redis, readers",
        redis_protocol::slow_readers,
        Effect::Counted(closed!("redis", "slow_reader")),
    ),
    short(
        "timeouts, gateway, heads",
        gateway::late_heads,
        Effect::Counted(error!("gateway", "timeout")),
    ),
    short(
        "timeouts, gateway, uploads",
        gateway::late_uploads,
        Effect::Counted(r#"tollgate_gateway_requests_total{route="other",outcome="slow_body"}"#),
    ),
    short(
        "timeouts, gateway, readers",
        gateway::slow_readers,
        Effect::Counted(closed!("gateway", "slow_reader")),
    ),
    load("load, http", loads::http),
    load("load, grpc", loads::grpc),
    load("load, redis", loads::redis),
    load("load, gateway", loads::gateway),
    effective(
        Effect::Restarted,
        load("load, upstream restarts", loads::gateway_restarts),
    ),
    load("load, new connections", loads::visits),
    idle("idle, http", "http", idle::http),
    idle("idle, grpc", "grpc", idle::grpc),
    idle("idle, redis", "redis", idle::redis),
    idle("idle, gateway and delayed", "gateway", idle::gateway),
];

const fn attack(name: &'static str, begin: fn(Target) -> Attacking) -> Attack {
    Attack {
        name,
        begin: Begin::Attack(begin),
        kind: Kind::Plain,
        effect: Effect::None,
    }
}

const fn over_tls(name: &'static str, begin: fn(Target) -> Attacking) -> Attack {
    Attack {
        kind: Kind::Tls,
        ..attack(name, begin)
    }
}

/// An attack that must reach a timeout, of a service whose timeouts are short.
const fn short(name: &'static str, begin: fn(Target) -> Attacking, effect: Effect) -> Attack {
    Attack {
        kind: Kind::ShortTimeouts,
        effect,
        ..attack(name, begin)
    }
}

/// An attack that the service must notice, and count with this metric.
const fn with_metric(
    name: &'static str,
    begin: fn(Target) -> Attacking,
    metric: &'static str,
) -> Attack {
    effective(Effect::Counted(metric), attack(name, begin))
}

const fn effective(effect: Effect, attack: Attack) -> Attack {
    Attack { effect, ..attack }
}

const fn load(name: &'static str, begin: fn(Target, Answered) -> Loading) -> Attack {
    Attack {
        name,
        begin: Begin::Load(begin),
        kind: Kind::Plain,
        effect: Effect::None,
    }
}

const fn idle(
    name: &'static str,
    listener: &'static str,
    begin: fn(Target, Answered) -> Loading,
) -> Attack {
    Attack {
        kind: Kind::Idle(listener),
        ..load(name, begin)
    }
}
