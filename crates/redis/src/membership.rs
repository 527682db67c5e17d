//! Membership: how many instances share the limits. Each sends a heartbeat once a second.
//!
//! Only instances that decide locally while Redis is unavailable (the engine's fallback) are
//! members, since only they divide limits among themselves. An instance that is closed leaves at
//! once.
//!
//! Names and heartbeat times are kept in one key of Redis (`PREFIX{nodes}`, a sorted set), by
//! Redis's own clock. An instance without a heartbeat for [`EXPIRES_AFTER`] expires, and the key
//! with the last of them.
//!
//! The count is needed while Redis is unavailable, so the last known one stays in effect. Instances
//! that have lost Redis but still serve traffic are not counted by those that have not: the local
//! shares are then too large by the number of missing instances.
//!
//! A Redis that has come back empty counts the instances one by one, as they send their heartbeats.
//! So a smaller count takes effect only after [`EXPIRES_AFTER`] without interruption.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, OnceLock};

use tokio::task::JoinSet;
use tokio::time::{Duration, Instant, sleep};
use tollgate_core::Span;

use crate::keys;
use crate::names::unique_name;
use crate::resp::Reply;
use crate::router::{NodeFailure, Router};
use crate::sharded::lock;

/// The interval between heartbeats.
pub const HEARTBEAT: Span = Span::SECOND;
/// How long an instance counts after a heartbeat.
pub(crate) const EXPIRES_AFTER: Span = Span::from_secs(3);
/// The interval after which a failed heartbeat is repeated; twice as long each time, up to
/// [`HEARTBEAT`].
const RETRY_AFTER: Duration = Duration::from_millis(100);
/// The key of the members, after the prefix. The hash tag in braces chooses the slot. It says
/// `nodes` and means instances: instances of different versions count each other by this key, so
/// it must stay the same.
const KEY: &str = "{nodes}";
const TAG: &[u8] = b"nodes";
/// Adds a name, or removes it if its lifetime is zero. Removes expired names, and those with a time
/// in the future, left from before the clock was set back. Returns the number of members.
const SCRIPT: &[u8] = b"local clock, lasts = redis.call('TIME'), tonumber(ARGV[2]) \
local now = clock[1] * 1000 + math.floor(clock[2] / 1000) \
if lasts > 0 then redis.call('ZADD', KEYS[1], now, ARGV[1]) \
else redis.call('ZREM', KEYS[1], ARGV[1]) return redis.call('ZCARD', KEYS[1]) end \
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', now - lasts) \
redis.call('ZREMRANGEBYSCORE', KEYS[1], now + 1, '+inf') \
redis.call('PEXPIRE', KEYS[1], lasts) \
return redis.call('ZCARD', KEYS[1])";

/// This instance among the others.
pub(crate) struct Membership {
    router: Arc<Router>,
    member: Arc<Member>,
    /// Sends the heartbeats, once this instance has joined.
    heartbeat: OnceLock<JoinSet<()>>,
}

struct Member {
    name: String,
    key: String,
    counted: Mutex<Counted>,
    /// The count in effect, to be read without the lock.
    count: AtomicU32,
    /// Whether this instance has left, or begun to.
    has_left: AtomicBool,
    /// Locked until a heartbeat is answered: the last one must not reach Redis after this instance
    /// has left.
    beating: tokio::sync::Mutex<()>,
}

/// The number of members.
#[derive(Clone, Copy, Debug, Default)]
struct Counted {
    /// The one in effect. Zero until Redis has replied.
    count: u32,
    /// Since when Redis counts fewer, and the most that it has counted meanwhile.
    fewer: Option<(Instant, u32)>,
}

// === impl Membership ===

impl Membership {
    pub(crate) fn new(prefix: &str, router: Arc<Router>) -> Membership {
        Membership {
            router,
            member: Member::new(prefix),
            heartbeat: OnceLock::new(),
        }
    }

    /// Joins the members.
    pub(crate) fn join(&self) {
        self.heartbeat.get_or_init(|| {
            let mut task = JoinSet::new();
            task.spawn(send_heartbeats(
                Arc::clone(&self.member),
                Arc::clone(&self.router),
            ));
            task
        });
    }

    /// The number of members; 1 before Redis's first reply.
    pub(crate) fn count(&self) -> u32 {
        self.member.count.load(Ordering::Relaxed).max(1)
    }

    /// Leaves the members.
    pub(crate) async fn leave(&self) {
        // Before the wait, during which the caller may give up.
        let had_left = self.member.has_left.swap(true, Ordering::Relaxed);
        if had_left || self.heartbeat.get().is_none() {
            return;
        }
        let _after_any_other = self.member.beating.lock().await;
        // If this fails, the heartbeat expires soon.
        let _replied = self.member.beat(&self.router, Span::ZERO).await;
    }
}

// === impl Member ===

impl Member {
    fn new(prefix: &str) -> Arc<Member> {
        Arc::new(Member {
            name: format!("{:016x}", unique_name()),
            key: format!("{prefix}{KEY}"),
            counted: Mutex::default(),
            count: AtomicU32::new(0),
            has_left: AtomicBool::new(false),
            beating: tokio::sync::Mutex::default(),
        })
    }

    /// Sends a heartbeat that lasts this long, and returns how many members Redis counts; zero
    /// leaves.
    async fn beat(&self, router: &Router, lasts: Span) -> Result<Option<u32>, NodeFailure> {
        let lasts = (lasts.as_nanos() / 1_000_000).to_string();
        let words: [&[u8]; 6] = [
            b"EVAL",
            SCRIPT,
            b"1",
            self.key.as_bytes(),
            self.name.as_bytes(),
            lasts.as_bytes(),
        ];
        let slot = keys::slot_of(TAG);
        let reply = router.command_at(slot, &words, Instant::now()).await;
        let count = reply.map(|reply| match reply {
            Reply::Integer(count) => Some(u32::try_from(count).unwrap_or(u32::MAX)),
            _ => None,
        });
        let mut counted = lock(&self.counted);
        match &count {
            Ok(Some(count)) => counted.apply(*count, Instant::now()),
            Ok(None) | Err(_) => counted.fewer = None,
        }
        // Relaxed: it publishes nothing else.
        self.count.store(counted.count, Ordering::Relaxed);
        count
    }
}

// === impl Counted ===

impl Counted {
    /// Applies a count of Redis: a smaller one once it has lasted, any other at once.
    fn apply(&mut self, count: u32, now: Instant) {
        if count >= self.count {
            *self = Counted { count, fewer: None };
            return;
        }
        let (since, most) = self.fewer.unwrap_or((now, count));
        let most = most.max(count);
        *self = match now < since + EXPIRES_AFTER.into() {
            true => Counted {
                fewer: Some((since, most)),
                ..*self
            },
            false => Counted {
                count: most,
                fewer: None,
            },
        };
    }
}

/// Sends heartbeats until the instance leaves.
async fn send_heartbeats(member: Arc<Member>, router: Arc<Router>) {
    let mut pause = RETRY_AFTER;
    loop {
        let only_one = member.beating.lock().await;
        // Relaxed: the lock orders it after an instance that has left.
        if member.has_left.load(Ordering::Relaxed) {
            return;
        }
        let beaten = member.beat(&router, EXPIRES_AFTER).await;
        drop(only_one);
        match beaten {
            Ok(_) => {
                pause = RETRY_AFTER;
                sleep(HEARTBEAT.into()).await;
            }
            Err(_) => {
                sleep(pause).await;
                pause = (pause * 2).min(HEARTBEAT.into());
            }
        }
    }
}

#[cfg(test)]
mod tests;
