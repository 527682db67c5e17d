//! One running Tollgate instance: a real engine with its rules, over the real store for Redis, its
//! fallback and its memory.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::time::{Instant, sleep_until};
use tollgate_core::{Clock, Key, KeyHasher, Moment, Now, Request, Span};
use tollgate_engine::{
    AnyShared, Engine, ReservationBounds, ReservationId, ReserveError, SettleError, Stores,
};
use tollgate_memory::{Memory, RandomKeys, SystemClock};
use tollgate_redis::simulated::{Connecting, Environment, Transport};
use tollgate_redis::{Config, Redis, Servers};
use tollgate_rules::{Loaded, RuleSet};

use crate::deployment::{MASTER, Session, Topology};
use crate::fault_kind::FaultKind;
use crate::network::{End, Link};
use crate::outcome::{Outcome, SettleOutcome};
use crate::plan::{Cancel, Setup};
use crate::resp;
use crate::rules_file::DOMAIN;
use crate::shared_redis::{ANSWERS, Answers, SharedRedis};
use crate::until_cancelled::UntilCancelled;
use crate::world::World;

/// The most bytes of an instance's memory: much more than the keys of a run take, and little enough
/// to be cleared for each process that starts.
const LOCAL_BYTES: usize = 1 << 20;

/// How long reservations can be settled: longer than a run, shorter than the quiet after it.
pub(crate) const RESERVATION_LIFETIME: Span = Span::from_secs(10);

/// A Tollgate process.
#[derive(Clone)]
pub(crate) struct Instance {
    /// A number for each process: a restarted one has a new number.
    pub(crate) number: usize,
    engine: Arc<Engine>,
    /// What the engine's shared store is.
    pub(crate) redis: Arc<Redis>,
    wall: Arc<AtomicI64>,
}

/// The clock of one instance: the simulated time, and a wall clock that may be wrong.
#[derive(Clone, Debug)]
pub(crate) struct WallClock {
    start: Instant,
    base: u64,
    /// How long it stands still at the start.
    standing: u64,
    /// How many nanoseconds the wall clock is ahead.
    wall: Arc<AtomicI64>,
}

struct Dialer {
    world: Arc<World>,
    instance: usize,
}

// === impl Instance ===

impl Instance {
    /// Starts a process, without rules yet.
    ///
    /// # Panics
    ///
    /// If the store rejects its configuration.
    pub(crate) fn start(world: &Arc<World>, number: usize, setup: &Setup) -> Instance {
        let (start, wall) = (world.start, Arc::new(AtomicI64::new(0)));
        let dialer = Dialer {
            world: Arc::clone(world),
            instance: number,
        };
        let environment = Environment {
            transport: Some(Arc::new(dialer)),
            clock: Some(Arc::new(move || Moment::from_nanos(nanos_since(start)))),
            // Some instances do, and some do not.
            charges_at_once: setup.varies_rounds
                && setup.base_micros.is_multiple_of(2) == number.is_multiple_of(2),
            ..Environment::default()
        };
        let clock: Arc<dyn Clock> = Arc::new(WallClock {
            start,
            base: setup.base_micros * 1_000,
            standing: setup.standing_micros * 1_000,
            wall: Arc::clone(&wall),
        });
        let memory = Memory::builder().max_keys(setup.local_keys);
        let memory = match setup.varies_rounds {
            true => memory.max_bytes(LOCAL_BYTES),
            false => memory,
        };
        let memory = memory.clock(clock);
        let memory = memory.keys(RandomKeys::with_secret(1, 2)).build();
        let config = config(world, setup);
        Instance::over(number, &config, &environment, memory, wall)
    }

    /// Starts a process over a real Redis at `address`, in real time.
    pub(crate) fn start_real(address: &str, number: usize, setup: &Setup) -> Instance {
        let config = with_setup(Servers::Single(address.to_owned()), setup);
        let clock: Arc<dyn Clock> = Arc::new(SystemClock::new());
        let memory = Memory::builder()
            .max_keys(setup.local_keys)
            .clock(clock)
            .build();
        Instance::over(
            number,
            &config,
            &Environment::default(),
            memory,
            Arc::default(),
        )
    }

    /// An instance over the store of this configuration, with this memory for its fallback.
    fn over(
        number: usize,
        config: &Config,
        environment: &Environment,
        memory: Memory<Arc<dyn Clock>>,
        wall: Arc<AtomicI64>,
    ) -> Instance {
        let redis = Redis::connect_within(config, environment);
        let redis = Arc::new(redis.expect("the configuration is valid"));
        let shared = AnyShared::new("Redis", SharedRedis::new(Arc::clone(&redis), number));
        let engine = Engine::new(Stores::new(memory).with_default(shared));
        let engine = engine.with_reservations(ReservationBounds {
            lifetime: RESERVATION_LIFETIME,
            ..ReservationBounds::default()
        });
        Instance {
            number,
            engine: Arc::new(engine),
            redis,
            wall,
        }
    }

    /// Replaces the rules by those of a file, as a reload does.
    pub(crate) fn reload(&self, loaded: Loaded) {
        let (rules, _changes) = loaded.succeed(&self.engine.rules());
        self.engine.replace_rules(rules);
    }

    /// Replaces the rules by these.
    pub(crate) fn apply(&self, rules: &RuleSet) {
        self.engine.replace_rules(rules.clone());
    }

    /// Shuts down gracefully.
    pub(crate) async fn close(&self) {
        self.engine.close().await;
    }

    /// The keys that a request charges under these rules, in the order of its descriptors.
    pub(crate) fn keys(&self, rules: &RuleSet, request: &Request<'_>) -> Vec<Key> {
        let resolved = rules.resolve(request, &*self.redis);
        resolved.charges().iter().map(|charge| charge.key).collect()
    }

    /// Reports whether there is headroom, which expires after so many milliseconds. Returns whether
    /// the report is accepted.
    pub(crate) fn report_headroom(&self, has_headroom: bool, lasts_ms: u64) -> bool {
        let lasts = Span::from_millis(lasts_ms);
        let reported = self.engine.report_headroom(DOMAIN, has_headroom, lasts);
        reported.is_ok()
    }

    /// Whether its wall clock was set.
    pub(crate) fn has_set_wall(&self) -> bool {
        self.wall.load(Ordering::Relaxed) != 0
    }

    /// Sets the wall clock forward or back.
    pub(crate) fn set_wall(&self, nanos: i64) {
        self.wall.fetch_add(nanos, Ordering::Relaxed);
    }

    /// Decides; `cancel` says when the caller drops the decision. Returns how many requests to the
    /// store failed as well.
    pub(crate) async fn decide(
        &self,
        request: &Request<'_>,
        cancel: Option<Cancel>,
    ) -> (Outcome, u64) {
        let decision = self.engine.decide(request);
        let (decided, answers) = observe(decision, cancel).await;
        let outcome = decided.map_or(Outcome::Cancelled, |decided| Outcome::of(decided, &answers));
        (outcome, answers.errors())
    }

    /// Decides as [`Instance::decide`], and makes a reservation if the request is allowed.
    pub(crate) async fn reserve(
        &self,
        request: &Request<'_>,
        cancel: Option<Cancel>,
    ) -> (Outcome, u64, Option<ReservationId>) {
        let decision = self.engine.reserve(request);
        let (reserved, answers) = observe(decision, cancel).await;
        let (outcome, receipt) = match reserved {
            None => (Outcome::Cancelled, None),
            Some(Ok((decided, receipt))) => (Outcome::of(Ok(decided), &answers), receipt),
            Some(Err(ReserveError::Store(error))) => (Outcome::Failed(error), None),
            Some(Err(error)) => panic!("the plan has reservations that can be made: {error}"),
        };
        let id = receipt.map(|receipt| receipt.id);
        (outcome, answers.errors(), id)
    }

    /// Settles a reservation; `cancel` says when the caller drops that.
    pub(crate) async fn settle(
        &self,
        id: ReservationId,
        actual: u64,
        cancel: Option<Cancel>,
    ) -> SettleOutcome {
        let settled = UntilCancelled::new(self.engine.settle(id, actual), cancel);
        match settled.await {
            None => SettleOutcome::Cancelled,
            Some(Ok(limits)) => SettleOutcome::Settled(limits.first().map(|limit| {
                let settlement = limit.settlement.map(|settlement| settlement.charged);
                settlement.unwrap_or(limit.reserved)
            })),
            Some(Err(SettleError::Store(error))) => SettleOutcome::Failed(error),
            Some(Err(_)) => SettleOutcome::NotFound,
        }
    }
}

/// Makes a decision, which its caller may drop, and notes the store's answers.
async fn observe<F: Future>(
    decision: F,
    cancel: Option<Cancel>,
) -> (Option<F::Output>, Arc<Answers>) {
    let answers = Arc::new(Answers::default());
    let decision = ANSWERS.scope(Arc::clone(&answers), decision);
    let decided = UntilCancelled::new(decision, cancel).await;
    (decided, answers)
}

fn config(world: &World, setup: &Setup) -> Config {
    let redis = world.redis();
    let addresses = redis.addresses();
    let servers = match redis.topology {
        Topology::Single => Servers::Single(addresses[0].clone()),
        Topology::Cluster => Servers::Cluster(addresses),
        Topology::Sentinel => Servers::Sentinel {
            addresses,
            master: MASTER.to_owned(),
        },
    };
    drop(redis);
    with_setup(servers, setup)
}

fn with_setup(servers: Servers, setup: &Setup) -> Config {
    Config {
        timeout: Span::from_millis(setup.timeout_ms),
        connections: setup.connections,
        sync_interval: Span::from_millis(setup.sync_ms),
        ..Config::new(servers)
    }
}

/// Virtual nanoseconds since `start`.
pub(crate) fn nanos_since(start: Instant) -> u64 {
    u64::try_from(Instant::now().duration_since(start).as_nanos()).unwrap_or(u64::MAX)
}

// === impl WallClock ===

impl Clock for WallClock {
    fn now(&self) -> Now {
        let passed = nanos_since(self.start);
        let since = passed.saturating_sub(self.standing);
        let ahead = self.wall.load(Ordering::Relaxed);
        Now {
            monotonic: Moment::from_nanos(1_000_000_000 + passed),
            utc: Moment::from_nanos((self.base + since).saturating_add_signed(ahead)),
        }
    }
}

// === impl Dialer ===

impl Transport for Dialer {
    fn connect(&self, address: &str) -> Connecting {
        let world = Arc::clone(&self.world);
        let (instance, address) = (self.instance, address.to_owned());
        Box::pin(async move {
            if world.is_dead(instance) {
                return Err(io::ErrorKind::NetworkUnreachable.into());
            }
            let server = world.redis().server_at(&address);
            let server = server.ok_or(io::ErrorKind::NotFound)?;
            let link = Link { instance, server };
            let (mine, theirs) = world.network.connect(link).await?;
            if world.is_dead(instance) || !world.redis().is_up(server) {
                return Err(io::ErrorKind::ConnectionRefused.into());
            }
            tokio::spawn(serve(Arc::clone(&world), server, theirs));
            let mine: Box<dyn tollgate_redis::simulated::Stream> = Box::new(mine);
            Ok(mine)
        })
    }
}

/// A server's side of one connection.
async fn serve(world: Arc<World>, server: usize, mut end: End) {
    let mut session = Session::default();
    let mut input = bytes::BytesMut::new();
    loop {
        match end.read_buf(&mut input).await {
            Ok(0) | Err(_) => return,
            Ok(_) => {}
        }
        loop {
            let stopped_until = world.redis().end_of_stop(server);
            let Some(until) = stopped_until else { break };
            world.faults().see_effect(FaultKind::Stop);
            sleep_until(until).await;
        }
        let mut out = Vec::new();
        while let Some(words) = resp::take(&mut input) {
            world
                .redis()
                .execute(server, &mut session, &words)
                .put(&mut out);
        }
        if !out.is_empty() && end.write_all(&out).await.is_err() {
            return;
        }
    }
}

impl KeyHasher for Instance {
    fn key<'p>(&self, parts: impl Iterator<Item = &'p [u8]>) -> Key {
        self.redis.key(parts)
    }
}
