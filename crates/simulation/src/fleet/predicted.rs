//! A fleet in virtual time, over the simulated network and Redis.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::task::JoinSet;
use tokio::time::{Duration, Instant, sleep_until};
use tollgate_core::{Moment, Span};
use tollgate_redis::simulated;

use super::asking::{Places, ask};
use super::{Fleet, Incident, Tally, Totals, WARM_UP, count_sent, redis_memory};
use crate::instance::Instance;
use crate::network::Link;
use crate::plan::Plan;
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
    places: Places,
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
            places: Places::default(),
            started: 0,
            events: incidents.collect(),
            tally: Arc::default(),
            before: Vec::new(),
            ended: Totals::default(),
        };
        run.events.make_contiguous().sort_by_key(|(at, _)| *at);
        for place in 0..fleet.instances {
            run.places.lock().push(None);
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
        self.places.lock()[place] = Some(instance);
    }

    /// Decides all requests, each at its time, while incidents happen.
    async fn play(mut self) -> Totals {
        let requests = self.fleet.requests();
        let begin = self.world.start + WARM_UP.to_duration();
        sleep_until(begin).await;
        for (place, instance) in self.places.lock().iter().enumerate() {
            self.before[place] = instance.as_ref().map_or([0; 3], count_sent);
        }
        let keys = self.count_keys();
        let mut decisions = JoinSet::new();
        for (attempt, place) in &requests {
            self.pass(begin, attempt.at).await;
            sleep_until(begin + attempt.at.to_duration()).await;
            let (places, tally) = (self.places.clone(), Arc::clone(&self.tally));
            decisions.spawn(ask(places, attempt.clone(), *place, tally));
        }
        self.finish(begin, &mut decisions).await;
        let end = Instant::now().duration_since(begin);
        let end = Span::from_nanos(u64::try_from(end.as_nanos()).unwrap_or(u64::MAX));
        let tally = std::mem::take(&mut *self.tally.lock().unwrap_or_else(PoisonError::into_inner));
        let start = Moment::from_nanos(self.plan.setup.base_micros * 1_000);
        let mut totals = self.fleet.totals(&requests, (start + WARM_UP, end), &tally);
        totals.calls = self.ended.calls;
        totals.writes = self.ended.writes;
        totals.to_redis = self.ended.to_redis;
        totals.redis_keys = self.count_keys().saturating_sub(keys);
        totals.redis_bytes = redis_memory::bytes(&self.fleet.limit, totals.redis_keys);
        for (instance, before) in self.places.lock().iter().zip(&self.before) {
            if let Some(instance) = instance {
                totals.add_sent(instance, *before);
            }
        }
        totals
    }

    /// Waits for the decisions and retries that are left, while incidents go on.
    async fn finish(&mut self, begin: Instant, decisions: &mut JoinSet<()>) {
        while let Some((at, _)) = self.events.front().copied()
            && !decisions.is_empty()
        {
            tokio::select! {
                _ = decisions.join_next() => {}
                () = sleep_until(begin + at.to_duration()) => self.pass(begin, at).await,
            }
        }
        while decisions.join_next().await.is_some() {}
    }

    /// How many keys the primary has.
    fn count_keys(&self) -> u64 {
        let redis = self.world.redis();
        let primary = redis.shards[0].primary;
        let names = redis.servers[primary]
            .keyspace
            .names(redis.micros() / 1_000);
        u64::try_from(names.len()).unwrap_or(u64::MAX)
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
                let ended = self.places.lock()[0].take();
                if let Some(instance) = ended {
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
            Event::Start if self.places.lock()[0].is_none() => self.start(0),
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
