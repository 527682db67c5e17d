//! What is bought: how machines are used, and what decides on them.

use clap::ValueEnum;
use tollgate_core::Mode;

/// Where counters are kept.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum StoreChoice {
    /// In each instance.
    #[default]
    Memory,
    /// In Redis, which all instances share.
    Redis,
}

/// How instances share a limit over Redis.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum ModeChoice {
    /// Redis makes every decision.
    Strict,
    /// Instances lease units of busy keys.
    Leased,
    /// Instances decide on local counts and report them.
    #[value(name = "write_back")]
    WriteBack,
}

/// How decisions are requested.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum ListenerChoice {
    /// A Rust program: the library, without the service.
    Library,
    /// The service's `/v1/check`.
    #[default]
    Http,
    /// The service's `/json`, in Envoy's format.
    Json,
    /// The service's gRPC, as Envoy asks.
    Grpc,
    /// The service's Redis protocol, `TG.CHECK`.
    Redis,
    /// The gateway, which also passes the requests on.
    Gateway,
}

/// How each machine is used.
#[derive(Clone, Copy, Debug)]
pub(super) struct Machines {
    pub(super) store: StoreChoice,
    pub(super) listener: ListenerChoice,
    /// Processors of a machine.
    pub(super) cores: u64,
    /// The share of the processors' time that may be used, in per cent.
    pub(super) utilization: u64,
    /// Instances beyond those that the load needs.
    pub(super) spare: u64,
}

// === impl ModeChoice ===

impl ModeChoice {
    pub(super) const fn mode(self) -> Mode {
        match self {
            ModeChoice::Strict => Mode::Strict,
            ModeChoice::Leased => Mode::Leased,
            ModeChoice::WriteBack => Mode::WriteBack,
        }
    }
}

// === impl ListenerChoice ===

impl ListenerChoice {
    /// The constant: a request with one limit; `None` if there is no listener.
    pub(super) const fn constant(self) -> Option<&'static str> {
        match self {
            ListenerChoice::Library => None,
            ListenerChoice::Http => Some("service.http"),
            ListenerChoice::Json => Some("service.json"),
            ListenerChoice::Grpc => Some("service.grpc"),
            ListenerChoice::Redis => Some("service.redis"),
            ListenerChoice::Gateway => Some("service.gateway"),
        }
    }
}

// === impl Machines ===

impl Machines {
    /// How many machines a load in nanoseconds per second takes, on so many processors each.
    pub(super) fn count(&self, nanos_per_second: u128, cores: u64) -> u64 {
        let capacity = u128::from(cores) * u128::from(self.utilization) * 10_000_000;
        let count = nanos_per_second.div_ceil(capacity).max(1);
        u64::try_from(count).unwrap_or(u64::MAX)
    }
}
