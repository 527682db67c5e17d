//! A store at a time that the test sets.

use std::ops::Deref;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tokio::time::Instant;
use tollgate_core::{Account, Bucket, Charge, Key, Moment, Span};

use super::Redis;
use crate::config::{Config, InvalidConfig};
use crate::environment::{Environment, RedisTime};
use crate::fit::FittedLimit;
use crate::membership::Membership;
use crate::router::NodeFailure;
use crate::script_reply::ScriptReply;
use crate::script_request::ScriptRequest;
use crate::single::Single;
use crate::snapshot::{Snapshot, moment};
use crate::write_back::WriteBack;

/// A store, its time, and that of Redis.
pub(crate) struct TimedRedis {
    store: Redis,
    own: RedisTime,
    now: RedisTime,
}

// === impl TimedRedis ===

impl TimedRedis {
    /// A store whose time the test sets. It renews and returns leases only when the test says so.
    pub(crate) fn connect(config: &Config) -> Result<TimedRedis, InvalidConfig> {
        TimedRedis::connect_within(config, environment_apart)
    }

    /// The same, whose rounds over several slots charge immediately wherever they can.
    pub(crate) fn connect_at_once(config: &Config) -> Result<TimedRedis, InvalidConfig> {
        TimedRedis::connect_within(config, |own, now| Environment {
            charges_at_once: true,
            ..environment_apart(own, now)
        })
    }

    /// The same, with a denial cache and estimates, whose entries last for a second.
    pub(crate) fn connect_with_caches(config: &Config) -> Result<TimedRedis, InvalidConfig> {
        TimedRedis::connect_within(config, |own, now| Environment {
            caches_denials: true,
            ..environment_apart(own, now)
        })
    }

    /// The same, with a denial cache and rounds that charge immediately.
    pub(crate) fn connect_at_once_with_caches(
        config: &Config,
    ) -> Result<TimedRedis, InvalidConfig> {
        TimedRedis::connect_within(config, |own, now| Environment {
            charges_at_once: true,
            caches_denials: true,
            ..environment_apart(own, now)
        })
    }

    /// The same, whose local counts derive Redis's time from its replies.
    pub(crate) fn connect_without_count_time(config: &Config) -> Result<TimedRedis, InvalidConfig> {
        TimedRedis::connect_within(config, |own, now| Environment {
            count_time: None,
            ..environment_apart(own, now)
        })
    }

    fn connect_within(
        config: &Config,
        environment: impl Fn(&RedisTime, &RedisTime) -> Environment,
    ) -> Result<TimedRedis, InvalidConfig> {
        let [own, now] = [(); 2].map(|()| Arc::new(AtomicU64::new(0)));
        let mut store = Redis::connect_within(config, &environment(&own, &now))?;
        store.leased.stop_keeper();
        Ok(TimedRedis { store, own, now })
    }

    /// Reports local counts only when the test says so.
    pub(crate) fn stop_reports(&mut self) {
        self.store.write_back.stop_keeper();
    }

    /// Sets the time, in microseconds since 1970.
    pub(crate) fn set_now(&self, micros: u64) {
        self.set_clocks(micros, micros);
    }

    /// Sets the time of this instance, which never goes back, and that of Redis, which may.
    pub(crate) fn set_clocks(&self, own: u64, redis: u64) {
        self.own.store(own, Ordering::SeqCst);
        self.now.store(redis, Ordering::SeqCst);
    }
}

impl Redis {
    pub(crate) const fn membership(&self) -> &Membership {
        &self.membership
    }

    /// Renews and returns leases as the background task does, but now.
    pub(crate) async fn renew_due_leases(&self) {
        self.leased.renew_due().await;
    }

    /// Caches a denial of a bucket that Redis has made now.
    pub(crate) fn cache_denial(&self, charge: &Charge<'_>) {
        let only = Single {
            charge,
            fitted: FittedLimit::new(charge.limit).expect("the limit is whole"),
            generation: self.caches.generation(charge.key),
            charges: self.caches.generation_of_charges(charge.key),
        };
        let (now, wait) = (1, charge.limit.interval().expect("a bucket"));
        let debt = wait.times(charge.limit.capacity().into());
        let bucket = Bucket::full_at(moment(now) + debt);
        let state = (Snapshot::Account(Account::Bucket(bucket)), now);
        let connections = self.stats.connections();
        let denials = self.caches.denials();
        denials.insert(&only, state, wait, connections, Instant::now());
    }

    /// Drops a cached denial.
    pub(crate) fn forget_denial(&self, key: Key) {
        self.caches.forget_denial(key);
    }

    /// Whether a denial of a key is cached, even if it has expired since.
    pub(crate) fn caches_denial_of(&self, key: Key) -> bool {
        self.caches.denials().contains(key)
    }

    pub(crate) const fn write_back(&self) -> &WriteBack {
        &self.write_back
    }

    pub(crate) async fn report_all(&self, deadline: Instant) {
        self.write_back.report_all(deadline).await;
    }

    pub(crate) async fn ask(
        &self,
        request: impl Fn() -> ScriptRequest,
        since: Instant,
    ) -> Result<ScriptReply, NodeFailure> {
        self.router.ask(request, since).await
    }
}

impl Deref for TimedRedis {
    type Target = Redis;

    fn deref(&self) -> &Redis {
        &self.store
    }
}

/// Real connections, and all clocks at `now`.
pub(crate) fn environment(now: &RedisTime) -> Environment {
    environment_apart(now, now)
}

/// Real connections, the clock of this instance at `own`, and that of Redis at `now`.
fn environment_apart(own: &RedisTime, now: &RedisTime) -> Environment {
    let clock = Arc::clone(own);
    let micros = move || Span::from_nanos(clock.load(Ordering::SeqCst) * 1_000);
    Environment {
        clock: Some(Arc::new(move || Moment::ZERO + micros())),
        redis_time: Some(Arc::clone(now)),
        count_time: Some(Arc::clone(now)),
        caches_denials: false,
        ..Environment::default()
    }
}
