//! Whether this host has headroom: the use of its processors and its memory, sampled by one task.
//!
//! Read from `/proc`, and from the control groups (version 2) of this process, whose limits are
//! what a container has. Nothing is sampled while no rule asks for it.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use tokio::task::spawn_blocking;
use tokio::time::sleep;
use tollgate_core::{Clock, Moment, Span, Timeline};
use tollgate_engine::{Engine, Hysteresis};
use tollgate_listen::ShutdownSignal;
use tollgate_rules::HeadroomSource;
use tracing::{info, warn};

use crate::config::HeadroomConfig;

mod control_groups;

mod cpu;

mod memory;

mod reading;

use cpu::CpuMeter;

/// In place of a use that is not known.
const UNKNOWN: u32 = u32::MAX;

/// What presses on the host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Resource {
    Cpu,
    Memory,
}

/// The last sample of each resource, for metrics.
#[derive(Debug)]
pub(crate) struct HostPressure([ResourcePressure; Resource::ALL.len()]);

/// One resource.
#[derive(Debug)]
struct ResourcePressure {
    /// In parts of a thousand, or [`UNKNOWN`].
    pressure: AtomicU32,
    failed_samples: AtomicU64,
}

/// Samples the host, and tells the engine whether it has headroom.
pub(crate) struct HostSampler {
    engine: Arc<Engine>,
    clock: Arc<dyn Clock>,
    config: HeadroomConfig,
    pressure: Arc<HostPressure>,
    cpu: CpuMeter,
    state: Hysteresis,
    sampled_at: Option<Moment>,
    /// Whether the last sample of each resource failed, which is logged once.
    fails: [bool; Resource::ALL.len()],
}

// === impl HostSampler ===

impl HostSampler {
    pub(crate) fn new(
        engine: &Arc<Engine>,
        clock: Arc<dyn Clock>,
        config: &HeadroomConfig,
        pressure: &Arc<HostPressure>,
    ) -> HostSampler {
        HostSampler {
            engine: Arc::clone(engine),
            clock,
            config: config.clone(),
            pressure: Arc::clone(pressure),
            cpu: CpuMeter::default(),
            state: Hysteresis::default(),
            sampled_at: None,
            fails: [false; Resource::ALL.len()],
        }
    }

    /// Samples until shutdown.
    pub(crate) async fn run(mut self, mut shutdown: ShutdownSignal) {
        loop {
            tokio::select! {
                () = sleep(self.config.interval.to_duration()) => {}
                () = shutdown.wait() => return,
            }
            if !self.engine.uses_headroom(HeadroomSource::Host) {
                self.rest();
                continue;
            }
            // Files of the kernel: short, but not asynchronous.
            let sampled = spawn_blocking(move || {
                self.sample();
                self
            });
            match sampled.await {
                Ok(sampler) => self = sampler,
                // The runtime ends.
                Err(_) => return,
            }
        }
    }

    /// Takes one sample of each resource.
    fn sample(&mut self) {
        let now = self.clock.on(Timeline::Monotonic);
        // Two samples of one moment have nothing to compare.
        if self.sampled_at.replace(now) == Some(now) {
            return;
        }
        let cpu = self.cpu.sample(&self.config.root, now);
        let cpu = self.record(Resource::Cpu, cpu);
        let memory = memory::read_use(&self.config.root).map(Some);
        let memory = self.record(Resource::Memory, memory);
        let levels = (self.config.cpu.level(cpu), self.config.memory.level(memory));
        let had_headroom = self.state.has_headroom();
        self.state = self
            .state
            .step(levels.0.max(levels.1), self.config.pace(), now);
        let has_headroom = self.state.has_headroom();
        let expires_in = self.config.pace().sample_age_max;
        self.engine.set_host_headroom(has_headroom, expires_in);
        if has_headroom != had_headroom {
            info!(
                has_headroom,
                ?cpu,
                ?memory,
                "headroom of the host, use in thousandths"
            );
        }
    }

    /// Forgets what was sampled, because no rule asks for it any more.
    fn rest(&mut self) {
        self.state = Hysteresis::default();
        self.cpu = CpuMeter::default();
        self.engine.set_host_headroom(false, Span::ZERO);
    }

    /// Keeps a sample for metrics, and logs the first of a series of failures.
    fn record(&mut self, resource: Resource, sample: io::Result<Option<u32>>) -> Option<u32> {
        let index = resource.index();
        let failed_before = self.fails[index];
        self.fails[index] = sample.is_err();
        let last = &self.pressure.0[index];
        let pressure = sample.unwrap_or_else(|error| {
            last.failed_samples.fetch_add(1, Ordering::Relaxed);
            if !failed_before {
                let resource = resource.name();
                warn!(
                    resource,
                    %error,
                    "the use of a resource cannot be read, so limits with `while: [host]` have no \
                     headroom"
                );
            }
            None
        });
        last.pressure
            .store(pressure.unwrap_or(UNKNOWN), Ordering::Relaxed);
        pressure
    }
}

// === impl Resource ===

impl Resource {
    pub(crate) const ALL: [Resource; 2] = [Resource::Cpu, Resource::Memory];

    /// The label in metrics, and the key of its thresholds in the settings.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Resource::Cpu => "cpu",
            Resource::Memory => "memory",
        }
    }

    const fn index(self) -> usize {
        match self {
            Resource::Cpu => 0,
            Resource::Memory => 1,
        }
    }
}

// === impl HostPressure ===

impl HostPressure {
    /// The last sample, in parts of a thousand; `None` before the first one, and if it failed.
    pub(crate) fn pressure(&self, resource: Resource) -> Option<u32> {
        let pressure = self.0[resource.index()].pressure.load(Ordering::Relaxed);
        Some(pressure).filter(|pressure| *pressure != UNKNOWN)
    }

    /// How many samples failed.
    pub(crate) fn failed_samples(&self, resource: Resource) -> u64 {
        self.0[resource.index()]
            .failed_samples
            .load(Ordering::Relaxed)
    }
}

impl Default for HostPressure {
    fn default() -> HostPressure {
        HostPressure(Resource::ALL.map(|_| ResourcePressure {
            pressure: AtomicU32::new(UNKNOWN),
            failed_samples: AtomicU64::new(0),
        }))
    }
}

#[cfg(test)]
mod tests;
