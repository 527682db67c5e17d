//! One run: from a seed to the promises that were broken.

mod audit;

mod changes;

mod clocks;

mod inflict;

mod in_flight;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use tokio::task::JoinHandle;
use tokio::time::{Duration, Instant, sleep_until};
use tollgate_core::{Cost, Key};
use tollgate_redis::simulated;

pub use changes::Changes;
use in_flight::RequestInFlight;

use crate::account::MILLI;
use crate::deployment::Topology;
use crate::fault_kind::FaultCounts;
use crate::instance::Instance;
use crate::network::Link;
use crate::plan::{Draws, Fault, HeadroomReport, Part, Plan, Reload, Request, Settle, Step};
use crate::rules_file;
use crate::world::World;

/// The result of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Report {
    /// The seed.
    pub seed: u64,
    /// The promises that were broken, and when.
    pub broken: Vec<String>,
    /// The history of the run.
    pub history: Vec<String>,
    /// How many decisions were requested.
    pub decisions: u64,
    /// How many of them Redis had to make, because no fault can explain otherwise.
    pub judged: u64,
    /// How many commands the servers executed.
    pub commands: u64,
    /// What reloads have changed.
    pub changes: Changes,
    /// Which faults happened, and how often their effects were seen.
    pub faults: FaultCounts,
}

/// Runs the plan of `seed`.
///
/// # Panics
///
/// If the simulation itself is wrong.
pub fn run(seed: u64) -> Report {
    run_with(seed, Draws::All)
}

/// A number that is another one if `seed` has another plan with these draws.
pub fn fingerprint(seed: u64, draws: Draws) -> u64 {
    Plan::draw(seed, draws).fingerprint()
}

/// Runs the plan that `seed` has with these draws.
///
/// # Panics
///
/// If the simulation itself is wrong.
pub fn run_with(seed: u64, draws: Draws) -> Report {
    simulated::seed(Some(seed));
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()
        .expect("a runtime can be built");
    let report = runtime.block_on(async {
        let mut runner = Runner::new(Plan::draw(seed, draws));
        runner.play().await;
        runner.audit().await;
        runner.report()
    });
    drop(runtime);
    simulated::seed(None);
    report
}

struct Runner {
    plan: Arc<Plan>,
    world: Arc<World>,
    instances: Vec<Option<Instance>>,
    /// The version of the rules file that each instance has.
    versions: Vec<usize>,
    /// What reloads have changed.
    changes: Changes,
    keys: Vec<Key>,
    /// The counters' names in Redis.
    names: Vec<String>,
    /// The next steps, in order of their milliseconds.
    agenda: BTreeMap<(u64, usize), Task>,
    tasks: usize,
    started: usize,
    requests: Vec<JoinHandle<()>>,
    numbers: u64,
    /// Shards whose replica has taken over.
    promoted: BTreeSet<usize>,
    /// By how many nanoseconds the clocks of servers were set in all.
    clocks_set: u64,
}

#[derive(Clone, Debug)]
enum Task {
    Step(Step),
    Undo(Undo),
}

/// The end of a fault.
#[derive(Clone, Debug)]
enum Undo {
    Link { instance: usize, server: usize },
    Start { place: usize },
    Up { server: usize },
    Promote { shard: usize },
    Room { server: usize },
    MoveKey { slot: u16 },
    Arrive { slot: u16 },
    ClusterUp,
}

// === impl Runner ===

impl Runner {
    /// Sets up the world of `plan`: starts all instances and schedules the steps.
    fn new(mut plan: Plan) -> Runner {
        let world = World::new(&plan);
        let steps = std::mem::take(&mut plan.steps);
        let mut runner = Runner {
            world,
            instances: Vec::new(),
            versions: plan.first_versions.clone(),
            changes: Changes::default(),
            keys: Vec::new(),
            names: Vec::new(),
            agenda: BTreeMap::new(),
            tasks: 0,
            started: 0,
            requests: Vec::new(),
            numbers: 0,
            promoted: BTreeSet::new(),
            clocks_set: 0,
            plan: Arc::new(plan),
        };
        runner
            .world
            .note(format!("{:?} {:?}", runner.plan.setup, runner.plan.faults));
        for (number, counter) in runner.plan.counters.iter().enumerate() {
            runner.world.note(format!("counter {number}: {counter:?}"));
        }
        for place in 0..runner.plan.setup.instances {
            runner.instances.push(None);
            runner.start(place);
        }
        runner.keys = runner.keys_of();
        runner.names = runner.names_of();
        for (at, step) in steps {
            runner.schedule(at, Task::Step(step));
        }
        runner
    }

    /// The name of each counter in Redis.
    fn names_of(&self) -> Vec<String> {
        let first = self.instances.iter().flatten().next();
        let name = |key: &Key| first.map(|instance| instance.redis.name_of(*key));
        self.keys.iter().filter_map(name).collect()
    }

    /// The key of each counter.
    fn keys_of(&self) -> Vec<Key> {
        let Some(Some(instance)) = self.instances.first() else {
            return Vec::new();
        };
        // The first version of the file has all rules. One by one, none of them replaces another.
        let rules = rules_file::load(&self.plan, 0, false).rules;
        let key_of = |counter| {
            let part = Part {
                counter,
                version: 0,
                cost: Cost::ONE,
            };
            instance.keys(&rules, &rules_file::request(&self.plan, &[part], false))
        };
        (0..self.plan.counters.len()).flat_map(key_of).collect()
    }

    fn schedule(&mut self, at: u64, task: Task) {
        self.tasks += 1;
        self.agenda.insert((at, self.tasks), task);
    }

    fn undo_in(&mut self, millis: u64, undo: Undo) {
        let at = self.world.now() / MILLI + millis;
        self.schedule(at, Task::Undo(undo));
    }

    /// Starts an instance in one of the places.
    fn start(&mut self, place: usize) {
        let number = self.started;
        self.started += 1;
        self.world.account().instance_started(self.world.now());
        self.world.note(format!("instance {number} starts"));
        self.delay_messages(number);
        let instance = Instance::start(&self.world, number, &self.plan.setup);
        let version = self.versions[place];
        instance.reload(rules_file::load(&self.plan, version, false));
        self.world.account().rules_replaced(number, version);
        self.instances[place] = Some(instance);
    }

    /// Has the messages of an instance take as long as the plan says.
    fn delay_messages(&self, instance: usize) {
        let most = self.plan.setup.delay_max;
        let servers = 0..self.world.redis().servers.len();
        for server in servers.filter(|_| most > 0) {
            let link = Link { instance, server };
            let network = &self.world.network;
            network.change(link, |condition| condition.delay_max = most);
        }
    }

    /// Has an instance read a version of the rules file. One that is down reads it when it starts.
    fn reload(&mut self, reload: Reload) {
        self.world.note(format!("{reload:?}"));
        let Reload {
            place,
            version,
            is_invalid,
        } = reload;
        if let Some(instance) = &self.instances[place] {
            instance.reload(rules_file::load(&self.plan, version, is_invalid));
            if !is_invalid {
                let mut account = self.world.account();
                account.rules_replaced(instance.number, version);
                let from = self.versions[place];
                self.changes.add(&self.plan, from, version);
            }
        }
        if !is_invalid {
            self.versions[place] = version;
        }
    }

    /// Reports to an instance whether there is headroom, if it is up. It accepts the report if a
    /// rule depends on it.
    fn report_headroom(&mut self, report: HeadroomReport) {
        let Some(instance) = &self.instances[report.place] else {
            return;
        };
        self.world.note(format!("{report:?}"));
        let now = self.world.now();
        let is_accepted = instance.report_headroom(report.has_headroom, report.lasts_ms);
        let mut account = self.world.account();
        if is_accepted {
            let lasts = report.has_headroom.then_some(report.lasts_ms * MILLI);
            account.headroom_reported(instance.number, now, lasts);
        }
        if is_accepted != self.plan.is_elastic_in(self.versions[report.place]) {
            account.fail(now, &format!("{report:?}: accepted: {is_accepted}"));
        }
    }

    /// Executes the plan.
    async fn play(&mut self) {
        while let Some(((at, _), task)) = self.agenda.pop_first() {
            sleep_until(self.world.start + Duration::from_millis(at)).await;
            match task {
                Task::Step(Step::Request(request)) => self.request(request),
                Task::Step(Step::Fault(fault)) => self.inflict(fault).await,
                Task::Step(Step::Reload(reload)) => self.reload(reload),
                Task::Step(Step::Headroom(report)) => self.report_headroom(report),
                Task::Undo(undo) => self.undo(undo),
            }
        }
    }

    /// Starts a request on its instance, if that is up. Refunds are bounded by what was allowed and
    /// not refunded yet, as in a correct client.
    fn request(&mut self, request: Request) {
        let place = request.instance % self.instances.len();
        let Some(instance) = self.instances[place].clone() else {
            return;
        };
        let mut parts = request.parts;
        for part in &mut parts {
            if let Cost::Refund(units) = part.cost {
                let units = self.world.account().take_refund(part.counter, units);
                part.cost = match units {
                    0 => Cost::Peek(1),
                    units => Cost::Refund(units),
                };
            }
        }
        let number = self.next_number();
        let settles = request
            .settles
            .map(|settles| self.settlers(settles, &instance));
        let asked = RequestInFlight {
            number,
            parts,
            has_priority: request.has_priority,
            settles,
            cancel: request.cancel,
            plan: Arc::clone(&self.plan),
        };
        let world = Arc::clone(&self.world);
        self.requests
            .push(tokio::spawn(asked.decide(world, instance)));
    }

    /// A number for the next decision.
    const fn next_number(&mut self) -> u64 {
        let number = self.numbers;
        self.numbers += 1;
        number
    }

    /// The instances that settle a reservation: `instance` in place of those that are down.
    fn settlers(&self, settles: Vec<Settle>, instance: &Instance) -> Vec<(Instance, Settle)> {
        let of = |settle: Settle| {
            let settler = self.instances[settle.instance % self.instances.len()].as_ref();
            (settler.unwrap_or(instance).clone(), settle)
        };
        settles.into_iter().map(of).collect()
    }

    fn report(self) -> Report {
        let errors = self.world.redis().script_errors();
        let faults = self.world.all_faults();
        let mut account = self.world.account();
        for error in errors {
            account.fail(0, &format!("a script failed: {error}"));
        }
        Report {
            seed: self.plan.seed,
            broken: std::mem::take(&mut account.broken),
            history: self.world.take_history(),
            decisions: account.decisions,
            judged: account.judged,
            commands: self.world.redis().commands,
            changes: self.changes.with(account.effects),
            faults,
        }
    }
}
