//! What is asked of the machines.

use tollgate_backends::BACKENDS;
use tollgate_core::{Algorithm, Anchor, Limit, Mode, Segments};

use crate::settings;

/// Users, requests, and the limits that each request meets.
#[derive(Debug)]
pub(super) struct Demand {
    pub(super) users: u64,
    pub(super) per_second: u64,
    pub(super) limits: Vec<DemandedLimit>,
}

/// A limit that every request meets.
#[derive(Clone, Copy, Debug)]
pub(super) struct DemandedLimit {
    pub(super) limit: Limit,
    /// The mode that is in effect.
    pub(super) mode: Mode,
    /// One for each user, or one that all share.
    pub(super) keys: u64,
    pub(super) is_shared: bool,
}

/// What a limit costs depends on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    TokenBucket,
    LeakyBucket,
    FixedWindow,
    FixedWindowFirst,
    SlidingWindow,
    SlidingWindowSegments,
    SlidingLog,
}

/// The mode in which a limit is decided whose rule has the mode `mode`.
pub(super) fn mode_in_effect(limit: &Limit, mode: Mode) -> Mode {
    let backend = BACKENDS.first();
    backend.map_or(mode, |backend| {
        settings::mode_in_effect(limit, mode, *backend)
    })
}

// === impl Demand ===

impl Demand {
    /// The keys that are live at the same time.
    pub(super) fn keys(&self) -> u64 {
        self.limits.iter().map(|limit| limit.keys).sum()
    }
}

// === impl Kind ===

impl Kind {
    pub(super) fn of(limit: &Limit) -> Kind {
        match limit.algorithm() {
            Algorithm::TokenBucket => Kind::TokenBucket,
            Algorithm::LeakyBucket => Kind::LeakyBucket,
            Algorithm::FixedWindow(Anchor::Clock) => Kind::FixedWindow,
            Algorithm::FixedWindow(Anchor::FirstRequest) => Kind::FixedWindowFirst,
            Algorithm::SlidingWindow(Segments::ONE) => Kind::SlidingWindow,
            Algorithm::SlidingWindow(_) => Kind::SlidingWindowSegments,
            // One that is not known here is planned as the one that costs most.
            _ => Kind::SlidingLog,
        }
    }

    /// The constant: a decision in memory.
    pub(super) const fn library(self) -> &'static str {
        match self {
            Kind::TokenBucket => "library.token_bucket",
            Kind::LeakyBucket => "library.leaky_bucket",
            Kind::FixedWindow => "library.fixed_window",
            Kind::FixedWindowFirst => "library.fixed_window_first",
            Kind::SlidingWindow => "library.sliding_window",
            Kind::SlidingWindowSegments => "library.sliding_window_segments",
            Kind::SlidingLog => "library.sliding_log",
        }
    }

    /// The constant: a script call.
    pub(super) const fn redis_cpu(self) -> &'static str {
        match self {
            Kind::TokenBucket => "redis.cpu.token_bucket",
            Kind::LeakyBucket => "redis.cpu.leaky_bucket",
            Kind::FixedWindow => "redis.cpu.fixed_window",
            Kind::FixedWindowFirst => "redis.cpu.fixed_window_first",
            Kind::SlidingWindow => "redis.cpu.sliding_window",
            Kind::SlidingWindowSegments => "redis.cpu.sliding_window_segments",
            Kind::SlidingLog => "redis.cpu.sliding_log",
        }
    }

    /// The constant: a key in Redis after its first request.
    pub(super) const fn redis_bytes(self) -> &'static str {
        match self {
            Kind::TokenBucket => "redis.bytes.token_bucket",
            Kind::LeakyBucket => "redis.bytes.leaky_bucket",
            Kind::FixedWindow => "redis.bytes.fixed_window",
            Kind::FixedWindowFirst => "redis.bytes.fixed_window_first",
            Kind::SlidingWindow => "redis.bytes.sliding_window",
            Kind::SlidingWindowSegments => "redis.bytes.sliding_window_segments",
            Kind::SlidingLog => "redis.bytes.sliding_log",
        }
    }
}
