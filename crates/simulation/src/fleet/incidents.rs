//! What happens to instances and to Redis while requests are decided.

use std::collections::VecDeque;
use std::sync::Arc;

use tokio::time::Duration;
use tollgate_core::Span;
use tollgate_replay::Simulation;
use tollgate_rules::RuleSet;

use super::load::{Load, Sent, count_sent};
use super::places::Places;
use super::{Fleet, Incident};
use crate::instance::Instance;
use crate::network::Link;
use crate::plan::Setup;
use crate::redis_memory::{MemoryPeak, RedisMemory};
use crate::world::World;

/// How long an instance or a primary that has ended is missing.
const MISSING: Span = Span::SECOND;

/// What happens at a moment.
#[derive(Clone, Copy, Debug)]
enum Event {
    Incident(Incident),
    /// The replica gets each write so much later.
    Lag(Span),
    Start(usize),
    Up,
    Promote,
}

/// What happens to instances and to Redis.
pub(super) struct Incidents<'f> {
    /// Where it happens; nothing does in the real world.
    scene: Option<Scene<'f>>,
    /// What is to happen, in order of time after the first request.
    events: VecDeque<(Span, Event)>,
}

/// The simulated world of a fleet.
struct Scene<'f> {
    fleet: &'f Fleet,
    rules: &'f RuleSet,
    setup: Setup,
    world: Arc<World>,
    /// How many instances were started so far.
    started: usize,
    /// How many have crashed so far.
    crashes: usize,
    /// How many outages last: Redis answers again when the last of them ends.
    outages: usize,
    /// How many failovers wait for their promotion, before which the primary stays down.
    failovers: usize,
    /// What each instance had sent when requests began.
    before: Vec<Sent>,
    /// What instances that have ended had sent.
    ended: Load,
}

// === impl Incidents ===

impl<'f> Incidents<'f> {
    /// None: in the real world.
    pub(super) const fn none() -> Incidents<'f> {
        Incidents {
            scene: None,
            events: VecDeque::new(),
        }
    }

    /// Those of a fleet, whose instances are started now.
    pub(super) fn of(
        fleet: &'f Fleet,
        simulation: &Simulation,
        rules: &'f RuleSet,
    ) -> (Incidents<'f>, Places) {
        let plan = fleet.plan(simulation);
        let mut scene = Scene {
            fleet,
            rules,
            setup: plan.setup,
            world: World::new(&plan),
            started: 0,
            crashes: 0,
            outages: 0,
            failovers: 0,
            before: vec![[0; 3]; fleet.instances],
            ended: Load::default(),
        };
        let places = Places::default();
        for place in 0..fleet.instances {
            let instance = scene.start(place);
            places.lock().push(Some(instance));
        }
        let events = fleet.incidents.iter();
        let mut events: Vec<_> = events
            .flat_map(|(at, incident)| {
                let lag = match incident {
                    Incident::Failover(lag) => Some((*at - *lag, Event::Lag((*lag).min(*at)))),
                    _ => None,
                };
                lag.into_iter().chain([(*at, Event::Incident(*incident))])
            })
            .collect();
        events.sort_by_key(|(at, _)| *at);
        let incidents = Incidents {
            scene: Some(scene),
            events: events.into(),
        };
        (incidents, places)
    }

    /// When the next one happens, after the first request.
    pub(super) fn next_at(&self) -> Option<Span> {
        self.events.front().map(|(at, _)| *at)
    }

    /// Lets the next one happen.
    pub(super) fn happen(&mut self, places: &Places) {
        let Some((at, event)) = self.events.pop_front() else {
            return;
        };
        let Some(scene) = &mut self.scene else {
            return;
        };
        if let Some((later, event)) = scene.happen(event, places) {
            let at = at + later;
            let place = self.events.partition_point(|(other, _)| *other <= at);
            self.events.insert(place, (at, event));
        }
    }

    /// Whether the instance of this number has crashed.
    pub(super) fn has_ended(&self, number: usize) -> bool {
        let scene = self.scene.as_ref();
        scene.is_some_and(|scene| scene.world.is_dead(number))
    }

    /// Notes what instances have sent before the first request. Returns what Redis has.
    pub(super) fn begin(&mut self, places: &Places) -> RedisMemory {
        let Some(scene) = &mut self.scene else {
            return RedisMemory::default();
        };
        for (before, instance) in scene.before.iter_mut().zip(&*places.lock()) {
            *before = instance.as_ref().map_or([0; 3], count_sent);
        }
        scene.watch_memory()
    }

    /// Adds what the requests cost, `before` which Redis had this.
    pub(super) fn finish(self, places: &Places, before: RedisMemory, load: &mut Load) {
        let Some(scene) = self.scene else {
            return;
        };
        load.calls = scene.ended.calls;
        load.writes = scene.ended.writes;
        load.to_redis = scene.ended.to_redis;
        for (instance, before) in places.lock().iter().zip(&scene.before) {
            if let Some(instance) = instance {
                load.add_sent(instance, *before);
            }
        }
        let (most, end) = scene.memory();
        load.redis_most = most.beyond(before);
        load.redis_end = end.beyond(before);
    }
}

// === impl Scene ===

impl Scene<'_> {
    /// Starts an instance, with its clock and its links.
    fn start(&mut self, place: usize) -> Instance {
        let number = self.started;
        self.started += 1;
        for server in 0..=self.world.redis().sentinel() {
            let link = Link {
                instance: number,
                server,
            };
            let delay_max = self.fleet.delay_ms;
            let network = &self.world.network;
            network.change(link, |condition| condition.delay_max = delay_max);
        }
        let instance = Instance::start(&self.world, number, &self.setup);
        instance.apply(self.rules);
        let ahead = self
            .fleet
            .skew_ms
            .saturating_mul(i64::try_from(place).unwrap_or(0));
        instance.set_wall(ahead.saturating_mul(1_000_000));
        instance
    }

    /// Lets something happen to an instance or to Redis; what follows, and how much later.
    fn happen(&mut self, event: Event, places: &Places) -> Option<(Span, Event)> {
        let primary = self.world.redis().shards[0].primary;
        match event {
            Event::Incident(Incident::Crash) => {
                let place = self.crashes % self.fleet.instances;
                self.crashes += 1;
                let ended = places.lock()[place].take()?;
                self.ended.add_sent(&ended, self.before[place]);
                self.before[place] = [0; 3];
                self.world.bury(ended.number);
                return Some((MISSING, Event::Start(place)));
            }
            Event::Incident(Incident::Outage(length)) => {
                self.kill(primary);
                self.outages += 1;
                return Some((length, Event::Up));
            }
            Event::Incident(Incident::Failover(_)) => {
                self.kill(primary);
                self.failovers += 1;
                return Some((MISSING, Event::Promote));
            }
            Event::Start(place) => {
                let instance = self.start(place);
                places.lock()[place] = Some(instance);
            }
            Event::Up => {
                self.outages -= 1;
                if self.outages == 0 && self.failovers == 0 {
                    self.world.redis().restart(primary);
                }
            }
            Event::Lag(lag) => {
                let lag = Duration::from_nanos(lag.as_nanos());
                self.world.redis().set_lag(0, lag);
            }
            Event::Promote => {
                self.failovers -= 1;
                let mut redis = self.world.redis();
                redis.promote(0);
                redis.set_lag(0, Duration::ZERO);
                let promoted = redis.shards[0].primary;
                drop(redis);
                if self.outages > 0 {
                    self.kill(promoted);
                }
            }
        }
        None
    }

    fn kill(&self, server: usize) {
        self.world.redis().servers[server].is_up = false;
        self.world.network.break_all(|link| link.server == server);
    }

    /// Follows what the keys of the primary take from now on. Returns what they take now.
    fn watch_memory(&self) -> RedisMemory {
        let mut redis = self.world.redis();
        let millis = redis.micros() / 1_000;
        let primary = redis.shards[0].primary;
        let peak = MemoryPeak::of(&redis.servers[primary].keyspace, millis);
        let now = peak.most();
        redis.shards[0].peak = Some(peak);
        now
    }

    /// What the keys of the primary took at most, and what they take now.
    fn memory(&self) -> (RedisMemory, RedisMemory) {
        let mut redis = self.world.redis();
        let millis = redis.micros() / 1_000;
        let peak = redis.shards[0].peak.as_mut();
        peak.map_or_else(Default::default, |peak| (peak.most(), peak.now(millis)))
    }
}
