//! The simulated Redis as a store, for the suite that the real one passes as well.

use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use tokio::runtime::Runtime;
use tokio::task::yield_now;
use tokio::time::{Duration, advance, sleep};
use tollgate_core::{Charge, Key, KeyHasher, Now, StoreError, Verdict};

use crate::deployment::{Deployment, Session, Topology};
use crate::instance::Instance;
use crate::network::Link;
use crate::plan::{Cancel, Plan, Setup};
use crate::random::Random;
use crate::resp::Reply;
use crate::until_cancelled::UntilCancelled;
use crate::world::World;

/// Longer than the rounds of a cancelled decision take on a network without faults.
const UNDER_WAY_MAX: Duration = Duration::from_secs(1);

/// A store over a simulated Redis, at the times that a test gives.
pub struct Simulated {
    runtime: Runtime,
    world: Arc<World>,
    instance: Instance,
    setup: Setup,
    /// The time of the last decision.
    last: Option<u64>,
    is_apart: bool,
}

/// A simulated server without a network, for comparison with a real one.
pub struct Bare {
    redis: Deployment,
    session: Session,
    runtime: Runtime,
}

fn runtime() -> Runtime {
    tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()
        .expect("a runtime can be built")
}

/// Polls a future, unless it has ended; returns its output when it ends, and drops it.
fn poll_once<F: Future + Unpin>(
    future: &mut Option<F>,
    context: &mut Context<'_>,
) -> Option<F::Output> {
    let polled = Pin::new(future.as_mut()?).poll(context);
    let Poll::Ready(output) = polled else {
        return None;
    };
    *future = None;
    Some(output)
}

// === impl Simulated ===

impl Simulated {
    /// Over one server.
    pub fn single() -> Simulated {
        Simulated::over(Topology::Single, false)
    }

    /// Over a Cluster, all keys of a test in one slot.
    pub fn cluster() -> Simulated {
        Simulated::over(Topology::Cluster, false)
    }

    /// Over a Cluster, every key in a slot of its own.
    pub fn apart() -> Simulated {
        Simulated::over(Topology::Cluster, true)
    }

    /// Over the primary that a sentinel names.
    pub fn sentinel() -> Simulated {
        Simulated::over(Topology::Sentinel, false)
    }

    fn over(topology: Topology, is_apart: bool) -> Simulated {
        let runtime = runtime();
        let plan = Plan::quiet(topology);
        let setup: Setup = plan.setup;
        let (world, instance) = runtime.block_on(async {
            let world = World::new(&plan);
            let instance = Instance::start(&world, 0, &setup);
            (world, instance)
        });
        Simulated {
            runtime,
            world,
            instance,
            setup,
            last: None,
            is_apart,
        }
    }
}

impl Simulated {
    /// A key.
    pub fn key(&mut self, name: &str) -> Key {
        let parts = match self.is_apart {
            false => [&b"test"[..], name.as_bytes(), b"one"],
            true => [&b"test"[..], b"one", name.as_bytes()],
        };
        self.instance.key(parts.into_iter())
    }

    /// Decides at this time, by Redis.
    ///
    /// # Panics
    ///
    /// If Redis does not answer.
    pub fn decide(&mut self, now: Now, charges: &[Charge<'_>]) -> Verdict {
        self.set_time(now);
        let decision = self.instance.redis.decide(charges);
        let decided = self.runtime.block_on(decision);
        decided.unwrap_or_else(|error| panic!("{error}"))
    }

    /// Begins two decisions at this time, and drops the first after so many polls, if it has no
    /// verdict by then. The second is decided. Between two polls the other tasks run, or a
    /// millisecond passes.
    ///
    /// # Panics
    ///
    /// If Redis does not answer.
    pub fn decide_and_cancel(
        &mut self,
        now: Now,
        [cancelled, kept]: [&[Charge<'_>]; 2],
        polls: u32,
    ) -> (Option<Verdict>, Verdict) {
        self.set_time(now);
        let (redis, polls) = (&self.instance.redis, Some(Cancel::Polls(polls)));
        let verdict = |decided: Result<Verdict, _>| {
            decided.unwrap_or_else(|error: StoreError| panic!("{error}"))
        };
        let mut cancelled = Some(UntilCancelled::new(redis.decide(cancelled), polls));
        let mut kept = Some(Box::pin(redis.decide(kept)));
        let mut verdicts = (None, None);
        self.runtime.block_on(async {
            for step in 1.. {
                let are_decided = poll_fn(|context| {
                    if let Some(decided) = poll_once(&mut cancelled, context) {
                        verdicts.0 = decided.map(verdict);
                    }
                    if let Some(decided) = poll_once(&mut kept, context) {
                        verdicts.1 = Some(verdict(decided));
                    }
                    Poll::Ready(cancelled.is_none() && kept.is_none())
                });
                if are_decided.await {
                    break;
                }
                match step % 2 {
                    0 => sleep(Duration::from_millis(1)).await,
                    _ => yield_now().await,
                }
            }
        });
        (verdicts.0, verdicts.1.expect("it was awaited"))
    }

    /// Delays every message of this process for up to so many milliseconds.
    pub fn delay_messages(&self, most: u64) {
        let instance = self.instance.number;
        for server in 0..self.world.redis().servers.len() {
            let link = Link { instance, server };
            let network = &self.world.network;
            network.change(link, |condition| condition.delay_max = most);
        }
    }

    /// After a second, in which what is under way ends, ends the process gracefully and starts
    /// another, which knows nothing of the first. The servers' clocks stand still.
    pub fn restart(&mut self) {
        let Simulated {
            runtime,
            world,
            instance,
            setup,
            ..
        } = self;
        *instance = runtime.block_on(async {
            sleep(UNDER_WAY_MAX).await;
            instance.close().await;
            Instance::start(world, instance.number + 1, setup)
        });
    }

    /// Stops the servers' clocks at this time.
    fn set_time(&mut self, now: Now) {
        let nanos = now.utc.as_nanos();
        let passed = self.last.map_or(0, |last| nanos.saturating_sub(last));
        self.last = Some(nanos);
        let mut redis = self.world.redis();
        let servers = redis.servers.iter_mut();
        servers.for_each(|server| server.clock.stop_at(nanos / 1_000));
        drop(redis);
        // The instance's own clock advances as well, so that its cached denials expire.
        let passed = Duration::from_nanos(passed);
        self.runtime.block_on(async { advance(passed).await });
    }
}

// === impl Bare ===

impl Bare {
    /// One server whose clock stands still.
    pub fn new() -> Bare {
        let runtime = runtime();
        let redis =
            runtime.block_on(async { Deployment::new(Topology::Single, 0, Random::new(0)) });
        Bare {
            redis,
            session: Session::default(),
            runtime,
        }
    }

    /// The server's reply at `micros` since 1970, as it is sent.
    pub fn ask(&mut self, micros: u64, words: &[Vec<u8>]) -> Vec<u8> {
        let words: Vec<Bytes> = words
            .iter()
            .map(|word| Bytes::copy_from_slice(word))
            .collect();
        self.redis.servers[0].clock.stop_at(micros);
        let _entered = self.runtime.enter();
        let reply: Reply = self.redis.execute(0, &mut self.session, &words);
        let mut out = Vec::new();
        reply.put(&mut out);
        out
    }
}

impl Default for Bare {
    fn default() -> Bare {
        Bare::new()
    }
}
