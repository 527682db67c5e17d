//! The plan of one run: everything that is drawn from the seed before the run begins.

mod cancel;

mod cancellation;

mod change;

mod draws;

mod elastic;

mod fault;

mod feature;

mod fingerprint;

mod met;

mod priority;

mod reservation;

mod setup;

mod sharing;

mod timing;

mod view;

use tollgate_core::{ChargeDenied, Cost, Enforcement, Limit, Mode, OnStoreError, Span};

pub(crate) use cancel::Cancel;
pub(crate) use change::Replacement;
pub use draws::Draws;
pub(crate) use fault::{Fault, Faults, LAG_MAX_MS};
pub(crate) use setup::Setup;
pub(crate) use view::View;

use setup::{BASE_MICROS, SETUP};

use crate::deployment::Topology;
use crate::random::Random;

/// The plan of one run.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    pub(crate) seed: u64,
    pub(crate) setup: Setup,
    pub(crate) counters: Vec<Counter>,
    /// Which denied requests are charged, where a counter does not say it.
    pub(crate) charge_denied: ChargeDenied,
    /// A rule that replaces another one in some versions of the rules file.
    pub(crate) replacement: Option<Replacement>,
    /// How many versions the rules file has.
    pub(crate) versions: usize,
    /// The version with which each instance starts.
    pub(crate) first_versions: Vec<usize>,
    /// The kinds of faults in this run.
    pub(crate) faults: Faults,
    /// The steps in order, each with its time in milliseconds since the start.
    pub(crate) steps: Vec<(u64, Step)>,
}

/// One limit and one key.
#[derive(Clone, Debug)]
pub(crate) struct Counter {
    /// The versions of the limit that are in use at the same time: one in each version of the rules
    /// file, or brought by the requests.
    pub(crate) limits: Vec<Limit>,
    /// What a denial does, in each version of the rules file.
    pub(crate) enforcements: Vec<Enforcement>,
    /// Which denied requests are charged, if the rule says it.
    pub(crate) charge_denied: Option<ChargeDenied>,
    /// Requests bring the limit along.
    pub(crate) is_override: bool,
    /// How instances share it, in each version of the rules file.
    pub(crate) modes: Vec<Mode>,
    /// What happens without Redis, in each version of the rules file.
    pub(crate) on_store_errors: Vec<OnStoreError>,
    /// Whether the rule is there, in each version of the rules file; the first one has it.
    pub(crate) presence: Vec<bool>,
    /// Counters of one identity share a slot.
    pub(crate) identity: u8,
}

#[derive(Clone, Debug)]
pub(crate) enum Step {
    Request(Request),
    Fault(Fault),
    Reload(Reload),
    Headroom(HeadroomReport),
}

/// An instance reads a version of the rules file.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Reload {
    pub(crate) place: usize,
    pub(crate) version: usize,
    /// The file has an error, so the rules stay as they were.
    pub(crate) is_invalid: bool,
}

/// A report to an instance whether there is headroom.
#[derive(Clone, Copy, Debug)]
pub(crate) struct HeadroomReport {
    pub(crate) place: usize,
    pub(crate) has_headroom: bool,
    /// After how long the report expires.
    pub(crate) lasts_ms: u64,
}

/// One request.
#[derive(Clone, Debug)]
pub(crate) struct Request {
    /// The instance, modulo the number of instances.
    pub(crate) instance: usize,
    pub(crate) parts: Vec<Part>,
    /// Whether it can use the shares that limits keep for such requests.
    pub(crate) has_priority: bool,
    /// It makes a reservation, which these settle; `None` if it makes none.
    pub(crate) settles: Option<Vec<Settle>>,
    /// When its caller cancels it.
    pub(crate) cancel: Option<Cancel>,
}

/// An attempt to settle a reservation.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Settle {
    /// How long after the decision.
    pub(crate) after_ms: u64,
    /// The instance, modulo the number of instances.
    pub(crate) instance: usize,
    /// The units that were used.
    pub(crate) actual: u64,
    /// When its caller cancels it.
    pub(crate) cancel: Option<Cancel>,
}

/// A request's charge to one counter.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Part {
    pub(crate) counter: usize,
    /// Which of its limits the request brings along, if it brings one.
    pub(crate) version: usize,
    pub(crate) cost: Cost,
}

const MODES: [Mode; 4] = [Mode::Strict, Mode::Strict, Mode::Leased, Mode::WriteBack];
const ON_STORE_ERRORS: [OnStoreError; 4] = [
    OnStoreError::Deny,
    OnStoreError::Allow,
    OnStoreError::Error,
    OnStoreError::Local,
];
/// How long faults are injected.
const LENGTH_MS: u64 = 3_000;

// === impl Plan ===

impl Plan {
    /// Draws the plan from `seed`, as far as `draws` says. Each draw has a stream of its own, so
    /// the others are the same without it.
    pub(crate) fn draw(seed: u64, draws: Draws) -> Plan {
        let mut plan = Plan::draw_plain(seed);
        if draws >= Draws::Features {
            plan.draw_features();
        }
        plan.steps.sort_by_key(|(at, _)| *at);
        if draws >= Draws::Changes {
            plan.draw_changes();
        }
        if draws >= Draws::Priorities {
            plan.draw_priorities();
        }
        if draws >= Draws::Elastic {
            plan.draw_elastic();
        }
        if draws >= Draws::Reservations {
            plan.draw_reservations();
        }
        if draws >= Draws::Timing {
            plan.draw_timing();
        }
        if draws >= Draws::All {
            plan.draw_cancellations();
        }
        plan.steps.sort_by_key(|(at, _)| *at);
        plan
    }

    /// Draws a deployment, limits, requests and faults.
    fn draw_plain(seed: u64) -> Plan {
        let mut random = Random::new(seed);
        let topology = random.pick(&[Topology::Single, Topology::Cluster, Topology::Sentinel]);
        let setup = Setup {
            topology,
            instances: usize::try_from(random.between(1, 3)).unwrap_or(1),
            timeout_ms: random.pick(&[10, 20, 50]),
            sync_ms: random.pick(&[20, 100]),
            connections: random.pick(&[1, 2]),
            base_micros: BASE_MICROS + random.between(0, 999_999),
            ..SETUP
        };
        let count = random.between(1, 4);
        let counters: Vec<Counter> = (0..count).map(|_| Counter::draw(&mut random)).collect();
        let faults = Faults::draw(&mut random);
        let mut plan = Plan {
            seed,
            setup,
            counters,
            charge_denied: ChargeDenied::Never,
            replacement: None,
            versions: 1,
            first_versions: vec![0; setup.instances],
            faults,
            steps: Vec::new(),
        };
        plan.draw_requests(&mut random);
        plan.draw_faults(&mut random);
        plan
    }

    /// A plan without requests or faults: one instance, with a long budget for each decision.
    pub(crate) fn quiet(topology: Topology) -> Plan {
        Plan {
            seed: 0,
            setup: Setup { topology, ..SETUP },
            counters: Vec::new(),
            charge_denied: ChargeDenied::Never,
            replacement: None,
            versions: 1,
            first_versions: vec![0],
            faults: Faults::NONE,
            steps: Vec::new(),
        }
    }

    fn draw_requests(&mut self, random: &mut Random) {
        let count = random.between(20, 200);
        let mut at = 50;
        while u64::try_from(self.steps.len()).unwrap_or(u64::MAX) < count {
            // In bursts, so that requests share script calls and race with each other.
            at += random.pick(&[0, 0, 0, 1, 3, 20, 100]);
            let at = at % LENGTH_MS;
            let request = self.draw_request(random);
            self.steps.push((at, Step::Request(request)));
        }
    }

    /// Draws a request on one to three counters, each in one of its versions, which is cancelled
    /// now and then.
    fn draw_request(&self, random: &mut Random) -> Request {
        let many = match self.counters.len() {
            1 => 1,
            _ => random.pick(&[1, 1, 1, 2, 3]),
        };
        let mut parts: Vec<Part> = Vec::new();
        for _ in 0..many {
            let counter = index(random, self.counters.len());
            if parts.iter().any(|part| part.counter == counter) {
                continue;
            }
            parts.push(Part {
                counter,
                version: index(random, self.counters[counter].limits.len()),
                cost: draw_cost(random, many > 1),
            });
        }
        let is_cancelled = self.faults.has(Faults::CANCEL) && random.chance(25);
        Request {
            instance: index(random, self.setup.instances),
            parts,
            has_priority: false,
            settles: None,
            cancel: is_cancelled.then(|| Cancel::Polls(random.small(1, 6))),
        }
    }

    fn draw_faults(&mut self, random: &mut Random) {
        for _ in 0..random.between(1, 8) {
            let at = random.between(100, LENGTH_MS);
            let slots = self.counters.len();
            if let Some(fault) = self.faults.pick(random, &self.setup, slots) {
                self.steps.push((at, Step::Fault(fault)));
            }
        }
    }
}

fn draw_cost(random: &mut Random, is_joint: bool) -> Cost {
    match random.between(0, 19) {
        0 => Cost::Peek(1),
        1 if !is_joint => Cost::Refund(random.between(1, 3)),
        2 | 3 => Cost::Take(random.between(2, 4)),
        _ => Cost::ONE,
    }
}

/// A random index below `count`.
fn index(random: &mut Random, count: usize) -> usize {
    random.index(count)
}

// === impl Counter ===

impl Counter {
    /// Draws a counter. Long windows are more frequent, because in these a lost unit stays visible.
    fn draw(random: &mut Random) -> Counter {
        let window = random.pick(&[Span::HOUR, Span::HOUR, Span::SECOND]);
        let kind = random.between(0, 4);
        let count = random.small(2, 40);
        let mut limits = vec![limit(kind, count, window)];
        if random.chance(30) {
            limits.push(limit(kind, random.small(1, 40), window));
        }
        let (mode, on_store_error) = (random.pick(&MODES), random.pick(&ON_STORE_ERRORS));
        Counter {
            identity: random.pick(&[0, 0, 1, 2, 3]),
            ..Counter::new(limits, mode, on_store_error)
        }
    }

    /// A counter that every version of the rules file has, and enforces.
    pub(crate) fn new(limits: Vec<Limit>, mode: Mode, on_store_error: OnStoreError) -> Counter {
        Counter {
            limits,
            enforcements: vec![Enforcement::Enforce],
            charge_denied: None,
            is_override: false,
            modes: vec![mode],
            on_store_errors: vec![on_store_error],
            presence: vec![true],
            identity: 0,
        }
    }

    /// The limit in a version of the rules file.
    pub(crate) fn limit_in(&self, version: usize) -> &Limit {
        of_version(&self.limits, version)
    }

    /// What a denial does in a version of the rules file.
    pub(crate) fn enforcement_in(&self, version: usize) -> Enforcement {
        *of_version(&self.enforcements, version)
    }

    /// How instances share the limit in a version of the rules file.
    pub(crate) fn mode_in(&self, version: usize) -> Mode {
        *of_version(&self.modes, version)
    }

    /// What happens without Redis in a version of the rules file.
    pub(crate) fn on_store_error_in(&self, version: usize) -> OnStoreError {
        *of_version(&self.on_store_errors, version)
    }

    /// Whether a version of the rules file has the rule. A limit that requests bring along needs
    /// none.
    pub(crate) fn is_present_in(&self, version: usize) -> bool {
        self.is_override || *of_version(&self.presence, version)
    }

    /// Whether versions of the limit differ in more than their size, so that what was used is
    /// converted from one to the other.
    pub(crate) fn is_converted(&self) -> bool {
        let shape = |limit: &Limit| (limit.algorithm(), limit.window());
        self.limits
            .iter()
            .any(|limit| shape(limit) != shape(&self.limits[0]))
    }

    /// The largest capacity of all versions.
    pub(crate) fn capacity(&self) -> u64 {
        let capacities = self.limits.iter().map(Limit::capacity);
        u64::from(capacities.max().unwrap_or(0))
    }
}

/// What holds in a version of the rules file; the last one if later ones do not differ.
fn of_version<T>(versions: &[T], version: usize) -> &T {
    &versions[version.min(versions.len() - 1)]
}

fn limit(kind: u64, count: u32, window: Span) -> Limit {
    let limit = match kind {
        0 => Limit::fixed_window(count, window),
        1 => Limit::sliding_log(count, window),
        2 => Limit::sliding_window(count, window, 4),
        3 => Limit::token_bucket(count, window),
        _ => Limit::leaky_bucket(count, window),
    };
    limit.expect("the limits of the plan are valid")
}
