//! Traffic in a few words: `poisson 50/s keys 1000 for 5m`, `botnet 1000 clients 2/s`.

mod arrivals;

mod invalid;

mod kind;

mod parse;

mod retry;

use std::fmt;

use tollgate_core::Span;

use crate::random::Random;
use kind::{Kind, Rate};

pub(crate) use arrivals::Arrivals;
pub use invalid::InvalidWorkload;
pub(crate) use retry::Retry;

/// How long a workload lasts if it does not say.
pub const WORKLOAD_DURATION: Span = Span::MINUTE;
/// The most attempts of one request: the first, and its retries.
pub const ATTEMPTS_MAX: u32 = 1_000;
/// The attempts of a request that is retried, if its workload does not say.
pub const ATTEMPTS: u32 = 10;

/// Requests of one kind: when they arrive, which keys they have, and what a denied client does.
///
/// # Example
///
/// ```
/// use tollgate_replay::Workload;
///
/// let storm: Workload = "bursts 100 every 10s keys 100 retry backoff 1s".parse()?;
/// assert_eq!(storm.to_string(), "bursts 100 every 10s keys 100 retry backoff 1s");
/// let error = "constant 20".parse::<Workload>().unwrap_err();
/// assert_eq!(error.to_string(), "`20` is not a rate: write 20/s, 300/m or 5/10s");
/// # Ok::<(), tollgate_replay::InvalidWorkload>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Workload {
    /// As written, with single blanks.
    text: String,
    kind: Kind,
    /// When it begins, after the start of the simulation.
    offset: Span,
    duration: Span,
    /// How many keys its requests have; ignored by a kind that has its own.
    keys: u64,
    /// Its keys are this name, a hyphen and a number.
    name: String,
    retry: Option<Retry>,
}

// === impl Workload ===

impl Workload {
    /// The name of a key.
    pub(crate) fn key(&self, number: u64) -> String {
        format!("{}-{number}", self.name)
    }

    /// The first attempts of its requests.
    pub(crate) fn arrivals(&self, random: Random) -> Arrivals {
        Arrivals::new(self.kind, self.keys, self.offset, self.duration, random)
    }

    /// When its first attempts end, after the start of the simulation.
    pub fn end(&self) -> Span {
        self.offset + self.duration
    }

    /// Whether denied clients try again.
    pub const fn has_retries(&self) -> bool {
        self.retry.is_some()
    }

    /// What a denied client does, if it does not give up.
    pub(crate) const fn retry(&self) -> Option<Retry> {
        self.retry
    }

    /// About how many requests there are, without retries.
    fn requests(&self) -> u128 {
        let in_all = |rate: Rate| rate.of(self.duration);
        match self.kind {
            Kind::Constant(rate) | Kind::Poisson(rate) | Kind::NewKeys(rate) => in_all(rate),
            Kind::Botnet { clients, rate } => u128::from(clients) * in_all(rate),
            Kind::Bursts { size, period } => Rate {
                count: size,
                per: period,
            }
            .of(self.duration),
        }
    }
}

impl fmt::Display for Workload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}
