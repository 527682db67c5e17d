//! One run: from a seed to the promises that were broken.

mod inflict;

use std::collections::BTreeMap;
use std::sync::Arc;

use tokio::task::JoinHandle;
use tokio::time::{Duration, Instant, sleep, sleep_until};
use tollgate_core::{Charge, Cost, Key, KeyHasher, Limit, Mode, Sharing};
use tollgate_redis::{LEASE_LASTS, simulated};

use crate::account::{Account, MILLI};
use crate::deployment::Topology;
use crate::instance::Instance;
use crate::outcome::Outcome;
use crate::plan::{Fault, Part, Plan, Request, Step};
use crate::world::World;

/// How long after the last step requests in flight may take.
const SETTLING: Duration = Duration::from_secs(3);
/// By when leases have expired or been returned, and local counts are reported. A used lease is
/// renewed once before it ends, without a request, and is returned shortly before it ends again.
const QUIET: Duration = Duration::from_nanos(2 * LEASE_LASTS.as_nanos());
/// The longest time for a peek of the audit.
const AUDIT_ATTEMPTS: usize = 50;

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
    /// How many commands the servers executed.
    pub commands: u64,
}

/// Runs the plan of `seed`.
///
/// # Panics
///
/// If the simulation itself is wrong.
pub fn run(seed: u64) -> Report {
    simulated::seed(Some(seed));
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()
        .expect("a runtime can be built");
    let report = runtime.block_on(async {
        let mut runner = Runner::new(Plan::draw(seed));
        runner.play().await;
        runner.audit().await;
        runner.report()
    });
    drop(runtime);
    simulated::seed(None);
    report
}

struct Runner {
    plan: Plan,
    world: Arc<World>,
    instances: Vec<Option<Instance>>,
    keys: Vec<Key>,
    /// The counters' names in Redis.
    names: Vec<String>,
    /// The next steps, in order of their milliseconds.
    agenda: BTreeMap<(u64, usize), Task>,
    tasks: usize,
    started: usize,
    requests: Vec<JoinHandle<()>>,
    numbers: u64,
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
    fn new(plan: Plan) -> Runner {
        let world = World::new(&plan);
        let mut runner = Runner {
            world,
            instances: Vec::new(),
            keys: Vec::new(),
            names: Vec::new(),
            agenda: BTreeMap::new(),
            tasks: 0,
            started: 0,
            requests: Vec::new(),
            numbers: 0,
            plan,
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
        for (at, step) in std::mem::take(&mut runner.plan.steps) {
            runner.schedule(at, Task::Step(step));
        }
        runner
    }

    /// The name of each counter in Redis.
    fn names_of(&self) -> Vec<String> {
        let first = self.instances.iter().flatten().next();
        let name = |key: &Key| first.map(|instance| instance.store.shared().name_of(*key));
        self.keys.iter().filter_map(name).collect()
    }

    /// The key of each counter.
    fn keys_of(&self) -> Vec<Key> {
        let Some(Some(instance)) = self.instances.first() else {
            return Vec::new();
        };
        let counters = self.plan.counters.iter().enumerate();
        let key = |(number, counter): (usize, &crate::plan::Counter)| {
            let rule = number.to_le_bytes();
            instance.key([&b"rule"[..], &rule[..], &[counter.identity][..]].into_iter())
        };
        counters.map(key).collect()
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
        let instance = Instance::start(&self.world, number, &self.plan.setup);
        self.instances[place] = Some(instance);
    }

    /// Executes the plan.
    async fn play(&mut self) {
        while let Some(((at, _), task)) = self.agenda.pop_first() {
            sleep_until(self.world.start + Duration::from_millis(at)).await;
            match task {
                Task::Step(Step::Request(request)) => self.request(request),
                Task::Step(Step::Fault(fault)) => self.inflict(fault).await,
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
        let number = self.numbers;
        self.numbers += 1;
        let asked = Asked {
            number,
            parts,
            polls: request.polls,
            keys: self.keys.clone(),
            counters: self.plan.counters.clone(),
        };
        let world = Arc::clone(&self.world);
        self.requests
            .push(tokio::spawn(asked.decide(world, instance)));
    }

    /// Ends all faults, waits until nothing is in flight, and checks every counter.
    async fn audit(&mut self) {
        self.world.note("all is well");
        self.world.account().disturb(self.world.now());
        self.world.redis().heal();
        self.world.network.heal();
        for place in 0..self.instances.len() {
            if self.instances[place].is_none() {
                self.start(place);
            }
        }
        sleep(SETTLING).await;
        let now = self.world.now();
        self.world.account().close(now);
        sleep(QUIET).await;
        for counter in 0..self.plan.counters.len() {
            if let Some(decision) = self.peek(counter).await {
                let now = self.world.now();
                self.world.account().audit(counter, now, &decision);
            }
        }
        self.audit_late().await;
    }

    /// Checks again when all state must have expired.
    async fn audit_late(&mut self) {
        self.bury_all();
        let memory = Duration::from_nanos(Account::memory(&self.plan));
        let debts = self.world.account().debts();
        tokio::time::advance(memory * debts + QUIET).await;
        let left: Vec<String> = self.world.redis().names();
        if !left.is_empty() && !self.world.account().has_jumps() {
            let now = self.world.now();
            self.world
                .account()
                .fail(now, &format!("Redis still remembers {left:?}"));
        }
        self.instances = vec![None];
        self.start(0);
        if self.world.account().has_jumps() {
            // A state from a future time begins to expire only when it is read: from then on its
            // limit's memory passes.
            for counter in 0..self.plan.counters.len() {
                let _whatever_it_says = self.peek(counter).await;
            }
            self.bury_all();
            tokio::time::advance(memory * debts + QUIET).await;
            self.instances = vec![None];
            self.start(0);
        }
        for counter in 0..self.plan.counters.len() {
            if let Some(decision) = self.peek(counter).await {
                let now = self.world.now();
                self.world
                    .account()
                    .audit_recovered(counter, now, &decision);
            }
        }
    }

    /// Kills all instances.
    fn bury_all(&mut self) {
        for instance in std::mem::take(&mut self.instances).into_iter().flatten() {
            self.world.bury(instance.number);
        }
    }

    /// Redis's answer to a peek under the counter's largest limit.
    async fn peek(&mut self, counter: usize) -> Option<tollgate_core::Decision> {
        let instance = self.instances.iter().flatten().next()?.clone();
        let plan = &self.plan.counters[counter];
        let limit: &Limit = plan.limits.iter().max_by_key(|limit| limit.capacity())?;
        let limit = if plan.limits.len() == 1 {
            limit
        } else {
            &plan.limits[0]
        };
        let charge = Charge::new(self.keys[counter], limit, Cost::Peek(1));
        for _ in 0..AUDIT_ATTEMPTS {
            let charge = charge.shared(Sharing::in_mode(Mode::Strict));
            let verdict = instance.store.shared().decide(&[charge]).await;
            if let Ok(verdict) = verdict {
                let decision = verdict.decisions[0];
                self.world
                    .note(format!("counter {counter} is peeked at: {decision:?}"));
                return Some(decision);
            }
            sleep(Duration::from_millis(100)).await;
        }
        let now = self.world.now();
        let why = format!("counter {counter}: no answer to a peek although all is well");
        self.world.account().fail(now, &why);
        None
    }

    fn report(self) -> Report {
        let errors = self.world.redis().script_errors();
        let mut account = self.world.account();
        for error in errors {
            account.fail(0, &format!("a script failed: {error}"));
        }
        Report {
            seed: self.plan.seed,
            broken: std::mem::take(&mut account.broken),
            history: self.world.take_history(),
            decisions: account.decisions,
            commands: self.world.redis().commands,
        }
    }
}

/// A request in flight.
struct Asked {
    number: u64,
    parts: Vec<Part>,
    polls: Option<u32>,
    keys: Vec<Key>,
    counters: Vec<crate::plan::Counter>,
}

impl Asked {
    /// Decides on the request, and tells the account when it began, when it ended and how.
    async fn decide(self, world: Arc<World>, instance: Instance) {
        let charge = |part: &Part| {
            let counter = &self.counters[part.counter];
            let limit = &counter.limits[part.version];
            let sharing = Sharing {
                on_store_error: counter.on_store_error,
                ..Sharing::in_mode(counter.mode)
            };
            Charge::new(self.keys[part.counter], limit, part.cost).shared(sharing)
        };
        let charges: Vec<Charge<'_>> = self.parts.iter().map(charge).collect();
        let parts = &self.parts;
        let number = self.number;
        world.note(format!(
            "instance {} asks {number}: {parts:?}",
            instance.number
        ));
        world
            .account()
            .begin(number, world.now(), instance.number, parts);
        let outcome = instance.decide(&charges, self.polls).await;
        world.note(format!("decision {number}: {}", short(&outcome)));
        let lost = instance.store.shared().counts().reports_lost;
        let now = world.now();
        world.account().reports_lost(instance.number, lost, now);
        world.account().end(number, now, &outcome);
    }
}

fn short(outcome: &Outcome) -> String {
    match outcome {
        Outcome::Decided(verdict) => match verdict.denial {
            None => "allowed".to_owned(),
            Some(denial) => format!("denied by {}, {:?}", denial.by, denial.wait),
        },
        Outcome::FellBack(verdict) => match verdict.denial {
            None => "allowed without Redis".to_owned(),
            Some(_) => "denied without Redis".to_owned(),
        },
        Outcome::Failed(error) => format!("failed: {error}"),
        Outcome::Cancelled => "cancelled".to_owned(),
    }
}
