//! Several instances that share limits through one Redis, given traffic.

mod asked;

mod incidents;

mod load;

mod measured;

mod pace;

mod places;

mod play;

mod predicted;

mod real_redis;

use tollgate_core::{Moment, Span};
use tollgate_redis::{CONNECTIONS, SYNC_INTERVAL, TIMEOUT};
pub use tollgate_redis::{SYNC_INTERVAL_MAX, SYNC_INTERVAL_MIN, TIMEOUT_MAX, TIMEOUT_MIN};
use tollgate_replay::{Simulation, Traffic, WorkloadTotals};

use crate::deployment::Topology;
use crate::plan::{Plan, Setup};

pub use load::Load;
pub use real_redis::RealRedis;

/// The most instances of a fleet.
pub const INSTANCES_MAX: usize = 100;
/// The most events that instances decide in one simulation, with all retries: about a minute.
pub const INSTANCE_EVENTS_MAX: u64 = 1_000_000;
/// The most incidents.
pub const INCIDENTS_MAX: usize = 1_000;
/// How long instances have to connect and to find each other before the first request.
const WARM_UP: Span = Span::SECOND;

/// Instances that share limits, and what happens to them.
#[derive(Clone, Debug)]
pub struct Fleet {
    /// How many there are, at most [`INSTANCES_MAX`].
    pub instances: usize,
    /// The longest delay of a message between an instance and Redis, in milliseconds; each message
    /// has one at random, of whole milliseconds.
    pub delay_ms: u64,
    /// How much further the wall clock of each instance is ahead than that of the one before it.
    pub skew_ms: i64,
    /// The most time that a decision may take, in milliseconds, [`TIMEOUT_MIN`] to
    /// [`TIMEOUT_MAX`]; then it is made without Redis.
    pub timeout_ms: u64,
    /// How often local counts are reported, in milliseconds, [`SYNC_INTERVAL_MIN`] to
    /// [`SYNC_INTERVAL_MAX`].
    pub sync_ms: u64,
    /// The most keys that an instance decides without Redis.
    pub local_keys: usize,
    /// What goes wrong, each at a time after the first request; at most [`INCIDENTS_MAX`].
    pub incidents: Vec<(Span, Incident)>,
}

/// What goes wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Incident {
    /// An instance ends without a goodbye, and starts again a second later: the first instance at
    /// the first crash, the next one at each further crash.
    Crash,
    /// Redis does not answer for this long.
    Outage(Span),
    /// The primary ends; a second later its replica, which has missed this much, is promoted.
    Failover(Span),
}

/// What the instances decided, and what it cost.
#[derive(Debug)]
pub struct Played {
    /// When the first of them could come.
    pub start: Moment,
    /// The events, each with its answer: [`tollgate_replay::replay`] reports these.
    pub traffic: Traffic,
    /// What came of each workload.
    pub workloads: Vec<WorkloadTotals>,
    /// What it cost.
    pub load: Load,
}

// === impl Fleet ===

impl Fleet {
    /// A fleet of the defaults of the service, a millisecond from Redis.
    pub fn new(instances: usize) -> Fleet {
        let millis = |span: Span| span.as_nanos() / 1_000_000;
        Fleet {
            instances,
            delay_ms: 1,
            skew_ms: 0,
            timeout_ms: millis(TIMEOUT),
            sync_ms: millis(SYNC_INTERVAL),
            local_keys: 10_000,
            incidents: Vec::new(),
        }
    }

    /// The deployment, as the world of the simulation describes it.
    fn plan(&self, simulation: &Simulation) -> Plan {
        let quiet = Plan::quiet(match self.incidents.is_empty() {
            true => Topology::Single,
            false => Topology::Sentinel,
        });
        Plan {
            seed: simulation.seed,
            setup: Setup {
                instances: self.instances,
                timeout_ms: self.timeout_ms,
                sync_ms: self.sync_ms,
                connections: CONNECTIONS,
                base_micros: simulation.start.as_nanos() / 1_000,
                standing_micros: WARM_UP.as_nanos() / 1_000,
                late_micros: 0,
                local_keys: self.local_keys,
                varies_rounds: false,
                ..quiet.setup
            },
            ..quiet
        }
    }
}

/// What clocks in whole microseconds leave out of this moment.
fn below_micro(moment: Moment) -> Span {
    Span::from_nanos(moment.as_nanos() % 1_000)
}
