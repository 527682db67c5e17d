//! The simulated Redis as a store, for the suite that the real one passes as well.

use std::sync::Arc;

use bytes::Bytes;
use tokio::runtime::Runtime;
use tollgate_core::{Charge, Key, KeyHasher, Now, Verdict};

use crate::deployment::{Deployment, Session, Topology};
use crate::instance::Instance;
use crate::plan::{Plan, Setup};
use crate::random::Random;
use crate::resp::Reply;
use crate::world::World;

/// A store over a simulated Redis, at the times that a test gives.
pub struct Simulated {
    runtime: Runtime,
    world: Arc<World>,
    instance: Instance,
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
        let nanos = now.utc.as_nanos();
        let passed = self.last.map_or(0, |last| nanos.saturating_sub(last));
        self.last = Some(nanos);
        let mut redis = self.world.redis();
        redis
            .servers
            .iter_mut()
            .for_each(|server| server.clock.stop_at(nanos / 1_000));
        drop(redis);
        let redis = Arc::clone(&self.instance.redis);
        self.runtime.block_on(async {
            // The instance's own clock advances as well, so that its cached denials expire.
            tokio::time::advance(std::time::Duration::from_nanos(passed)).await;
            redis
                .decide(charges)
                .await
                .unwrap_or_else(|error| panic!("{error}"))
        })
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
