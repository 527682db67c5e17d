//! The deployment of a run, and the configuration of its instances.

use crate::deployment::{LATE_MICROS, Topology};

/// The deployment, and the configuration of the instances.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Setup {
    pub(crate) topology: Topology,
    pub(crate) instances: usize,
    pub(crate) timeout_ms: u64,
    pub(crate) sync_ms: u64,
    pub(crate) connections: usize,
    /// The longest delay of a message without a fault, in milliseconds.
    pub(crate) delay_max: u64,
    /// The simulated time at the start, in microseconds since 1970.
    pub(crate) base_micros: u64,
    /// How long wall clocks stand still at the start, in microseconds.
    pub(crate) standing_micros: u64,
    /// The most microseconds by which a server reads its clock late.
    pub(crate) late_micros: u64,
    /// The most keys in an instance's memory.
    pub(crate) local_keys: usize,
    /// Whether some instances charge at once in rounds over several slots, whatever it costs.
    pub(crate) varies_rounds: bool,
}

/// Half past some hour of 2023, in microseconds since 1970.
pub(super) const BASE_MICROS: u64 = 1_699_996_200_000_000;
/// One instance, with a long budget for each decision.
pub(super) const SETUP: Setup = Setup {
    topology: Topology::Single,
    instances: 1,
    timeout_ms: 30_000,
    sync_ms: 100,
    connections: 1,
    delay_max: 0,
    base_micros: BASE_MICROS,
    standing_micros: 0,
    late_micros: LATE_MICROS,
    local_keys: 1_000,
    varies_rounds: true,
};
