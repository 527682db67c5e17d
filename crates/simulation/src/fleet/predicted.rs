//! A fleet in virtual time, over the simulated network and Redis.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::task::JoinSet;
use tokio::time::{Duration, Instant, sleep_until};
use tollgate_core::{Moment, Span};
use tollgate_redis::simulated;

use super::{Fleet, Incident, Tally, Totals, WARM_UP, count_sent};
use crate::instance::Instance;
use crate::network::Link;
use crate::plan::Plan;
use crate::rules_file;
use crate::world::World;

/// How long an instance or a primary that has ended is missing.
const MISSING: Span = Span::SECOND;

/// What happens at a moment.
#[derive(Clone, Copy, Debug)]
enum Event {
    Incident(Incident),
    Start,
    Up,
    Promote,
}

struct Run<'f> {
    fleet: &'f Fleet,
    plan: Plan,
    world: Arc<World>,
    instances: Vec<Option<Instance>>,
    /// How many instances were started so far.
    started: usize,
    /// What is to happen, in order of time after the first request.
    events: VecDeque<(Span, Event)>,
    tally: Arc<Mutex<Tally>>,
    /// What each instance had sent when requests began.
    before: Vec<[u64; 3]>,
    /// What instances that have ended had sent.
    ended: Totals,
}

impl Fleet {
    /// Predicts what comes of the requests. The same fleet has the same prediction.
    ///
    /// # Panics
    ///
    /// If the simulation itself is wrong.
    pub fn predict(&self) -> Totals {
        simulated::seed(Some(self.seed));
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .start_paused(true)
            .build()
            .expect("a runtime can be built");
        let totals = runtime.block_on(async { Run::new(self).play().await });
        drop(runtime);
        simulated::seed(None);
        totals
    }
}

// === impl Run ===

impl<'f> Run<'f> {
    /// Starts all instances and schedules the incidents.
    fn new(fleet: &'f Fleet) -> Run<'f> {
        let plan = fleet.plan();
        let incidents = fleet.incidents.iter();
        let incidents = incidents.map(|(at, incident)| (*at, Event::Incident(*incident)));
        let mut run = Run {
            fleet,
            world: World::new(&plan),
            plan,
            instances: Vec::new(),
            started: 0,
            events: incidents.collect(),
            tally: Arc::default(),
            before: Vec::new(),
            ended: Totals::default(),
        };
        run.events.make_contiguous().sort_by_key(|(at, _)| *at);
        for place in 0..fleet.instances {
            run.instances.push(None);
            run.before.push([0; 3]);
            run.start(place);
        }
        run
    }

    /// Starts an instance, with its clock and its links.
    fn start(&mut self, place: usize) {
        let number = self.started;
        self.started += 1;
        for server in 0..=self.world.redis().sentinel() {
            let link = Link {
                instance: number,
                server,
            };
            let delay_max = self.fleet.delay_ms;
            self.world
                .network
                .change(link, |condition| condition.delay_max = delay_max);
        }
        let instance = Instance::start(&self.world, number, &self.plan.setup);
        instance.reload(self.fleet.rules());
        let skew = self.fleet.skew_ms * i64::try_from(place).unwrap_or(0);
        instance.set_wall(skew * 1_000_000);
        self.instances[place] = Some(instance);
    }

    /// Decides all requests, each at its time, while incidents happen.
    async fn play(mut self) -> Totals {
        let requests = self.fleet.requests();
        let begin = self.world.start + WARM_UP.to_duration();
        sleep_until(begin).await;
        for (place, instance) in self.instances.iter().enumerate() {
            self.before[place] = instance.as_ref().map_or([0; 3], count_sent);
        }
        let mut decisions = JoinSet::new();
        for (attempt, place) in &requests {
            self.pass(begin, attempt.at).await;
            sleep_until(begin + attempt.at.to_duration()).await;
            // A load balancer sends to an instance that is up.
            let up = self.instances.iter().cycle().skip(*place);
            let up = up.take(self.instances.len()).flatten().next().cloned();
            let (client, tally) = (attempt.client.clone(), Arc::clone(&self.tally));
            decisions.spawn(async move {
                if let Some(instance) = up {
                    let request = rules_file::request_of(client.as_bytes());
                    let (outcome, _) = instance.decide(&request, None).await;
                    let mut tally = tally.lock().unwrap_or_else(PoisonError::into_inner);
                    tally.add(&client, &outcome);
                }
            });
        }
        while decisions.join_next().await.is_some() {}
        let tally = std::mem::take(&mut *self.tally.lock().unwrap_or_else(PoisonError::into_inner));
        let start = Moment::from_nanos(self.plan.setup.base_micros * 1_000);
        let mut totals = self.fleet.totals(&requests, start + WARM_UP, &tally);
        totals.calls = self.ended.calls;
        totals.writes = self.ended.writes;
        totals.to_redis = self.ended.to_redis;
        for (instance, before) in self.instances.iter().zip(&self.before) {
            if let Some(instance) = instance {
                totals.add_sent(instance, *before);
            }
        }
        totals
    }

    /// Lets everything happen that is due before `until`.
    async fn pass(&mut self, begin: Instant, until: Span) {
        while let Some((at, event)) = self.events.front().copied()
            && at <= until
        {
            self.events.pop_front();
            sleep_until(begin + at.to_duration()).await;
            self.happen(at, event);
        }
    }

    fn after(&mut self, at: Span, event: Event) {
        let place = self.events.partition_point(|(other, _)| *other <= at);
        self.events.insert(place, (at, event));
    }

    /// Lets something happen to an instance or to Redis.
    fn happen(&mut self, at: Span, event: Event) {
        let primary = self.world.redis().shards[0].primary;
        match event {
            Event::Incident(Incident::Crash) => {
                if let Some(instance) = self.instances[0].take() {
                    self.ended.add_sent(&instance, self.before[0]);
                    self.before[0] = [0; 3];
                    self.world.bury(instance.number);
                }
                self.after(at + MISSING, Event::Start);
            }
            Event::Incident(Incident::Outage(length)) => {
                self.kill(primary);
                self.after(at + length, Event::Up);
            }
            Event::Incident(Incident::Failover(lag)) => {
                let lag = Duration::from_nanos(lag.as_nanos());
                self.world.redis().set_lag(0, lag);
                self.kill(primary);
                self.after(at + MISSING, Event::Promote);
            }
            Event::Start if self.instances[0].is_none() => self.start(0),
            Event::Start => {}
            Event::Up => self.world.redis().restart(primary),
            Event::Promote => {
                self.world.redis().promote(0);
            }
        }
    }

    fn kill(&self, server: usize) {
        self.world.redis().servers[server].is_up = false;
        self.world.network.break_all(|link| link.server == server);
    }
}
