//! Denial cache: until a key's retry time, Redis would deny it again, so it is denied locally.
//!
//! The cache stores the state and time in the script's reply. Core judges a later request on the
//! same key on that state, at Redis's time advanced by the local time since the reply. If the
//! request does not fit even then, it does not fit in Redis: others can only have consumed more. If
//! it might fit, Redis decides. Time before the reply arrived is not counted, so no request
//! is allowed too early, and none is denied for more than one round trip too long.
//!
//! A charge, a refund or a reset through this store, a lease that it returns, or a changed limit
//! drops the entry, and so does a new connection: it may lead to another primary, with another
//! clock or without the state. What another instance charges, refunds, returns or resets, what
//! Redis executes for this store after the timeout, and `FLUSHALL` are not seen here. So no entry
//! lasts for longer than [`DENIAL_CACHE_MAX`], however long the wait.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::time::Instant;
use tollgate_core::{
    Algorithm, Charge, Decision, Enforcement, Key, OnDenial, Span, Verdict, Wait, step,
};

use crate::fit::FittedLimit;
use crate::key_map::KeyMap;
use crate::script_reply::{ScriptReply, coarsen};
use crate::script_request::units_judged;
use crate::sharded::Sharded;
use crate::single::Single;
use crate::snapshot::{Snapshot, moment};
use crate::stats::Stats;

/// The most cached keys, over all shards.
pub(crate) const DENIALS_MAX: usize = SHARDS * SHARD_MAX;
const SHARDS: usize = 16;
const SHARD_MAX: usize = 4_096;
/// The longest time for which a denial is cached: after that, units returned elsewhere are seen by
/// every instance. A denied key costs one script call in this time.
pub const DENIAL_CACHE_MAX: Span = Span::SECOND;
/// Shorter waits are not worth caching.
const WAIT_MIN: Span = Span::from_millis(1);

/// The cached denials.
pub(crate) struct Denials {
    /// Whether denials are cached.
    is_enabled: bool,
    stats: Arc<Stats>,
    shards: Sharded<KeyMap<Box<Denied>>, SHARDS>,
    count: AtomicUsize,
}

/// The state on which a script denied a key.
#[derive(Debug)]
struct Denied {
    /// The limit for requests with priority: the state determines the denials of each priority.
    fitted: FittedLimit,
    snapshot: Snapshot,
    /// Redis's time, in microseconds, and the local time when its reply arrived.
    now: u64,
    received_at: Instant,
    until: Instant,
    /// Units that had to fit, including those left for requests with priority.
    judged: u64,
    /// The number of connections opened until then.
    connections: u64,
}

// === impl Denials ===

impl Denials {
    pub(crate) fn new(is_enabled: bool, stats: Arc<Stats>) -> Denials {
        Denials {
            is_enabled,
            stats,
            shards: Sharded::default(),
            count: AtomicUsize::new(0),
        }
    }

    /// Denies a charge that Redis would certainly deny, and counts that.
    pub(crate) fn deny(&self, only: &Single<'_>, local_now: Instant) -> Option<Verdict> {
        let verdict = self.verdict(
            only.charge,
            &only.fitted,
            self.stats.connections(),
            local_now,
        )?;
        self.stats.count_local_denial();
        Some(verdict)
    }

    /// Caches a denial of Redis.
    pub(crate) fn remember(&self, only: &Single<'_>, reply: &ScriptReply, verdict: &Verdict) {
        let Some(Wait::For(wait)) = verdict.denial.map(|denial| denial.wait) else {
            return;
        };
        if let (true, Ok(state)) = (self.is_enabled, reply.snapshot(&only.fitted)) {
            let connections = self.stats.connections();
            self.insert(only, state, wait, connections, Instant::now());
        }
    }

    /// The verdict on a charge that is certainly denied; `connections` is the current number.
    fn verdict(
        &self,
        charge: &Charge<'_>,
        fitted: &FittedLimit,
        connections: u64,
        local_now: Instant,
    ) -> Option<Verdict> {
        // Relaxed: a reader that misses the newest entry goes to Redis.
        if self.count.load(Ordering::Relaxed) == 0 {
            return None;
        }
        let judged = units_unless_shadow(charge)?;
        let mut shard = self.shards.of(charge.key);
        let denied = shard.get(&charge.key)?;
        let holds = denied.connections == connections && denied.fitted == fitted.whole();
        let decision = holds
            .then(|| denied.decision(charge, fitted, judged, local_now))
            .flatten();
        if decision.is_none() && (!holds || denied.until <= local_now) {
            shard.remove(&charge.key);
            self.count.fetch_sub(1, Ordering::Relaxed);
        }
        drop(shard);
        let mut verdict = Verdict::of_one(charge, decision?);
        coarsen(&mut verdict);
        Some(verdict)
    }

    /// Stores the state on which a script denied a charge, unless its key was charged or got units
    /// back since the request began: the state may be from before.
    pub(crate) fn insert(
        &self,
        only: &Single<'_>,
        (snapshot, now): (Snapshot, u64),
        wait: Span,
        connections: u64,
        received_at: Instant,
    ) {
        let Single { charge, fitted, .. } = only;
        let Some(judged) = units_unless_shadow(charge) else {
            return;
        };
        if wait < WAIT_MIN {
            return;
        }
        let denied = Denied {
            fitted: fitted.whole(),
            snapshot,
            now,
            received_at,
            until: received_at + wait.min(DENIAL_CACHE_MAX).into(),
            judged,
            connections,
        };
        let mut shard = self.shards.of(charge.key);
        if !only.generation.is_current() || !only.charges.is_current() {
            return;
        }
        let before = shard.len();
        if before >= SHARD_MAX && !shard.contains_key(&charge.key) {
            shard.retain(|_, denied| denied.until > received_at);
            // No entry has expired: drop any one, whose key then costs one more call.
            let first = shard.keys().next().copied();
            if let (true, Some(first)) = (shard.len() >= SHARD_MAX, first) {
                shard.remove(&first);
            }
        }
        shard.insert(charge.key, Box::new(denied));
        let after = shard.len();
        drop(shard);
        self.count.fetch_add(after, Ordering::Relaxed);
        self.count.fetch_sub(before, Ordering::Relaxed);
    }

    /// Whether a denial of a key is cached, even if it has expired since.
    #[cfg(test)]
    pub(crate) fn contains(&self, key: Key) -> bool {
        self.shards.of(key).contains_key(&key)
    }

    /// Drops a key that was charged, got units back, or was reset.
    pub(crate) fn forget(&self, key: Key) {
        if self.shards.of(key).remove(&key).is_some() {
            self.count.fetch_sub(1, Ordering::Relaxed);
        }
    }
}

// === impl Denied ===

impl Denied {
    /// Core's decision now; `None` if the charge may fit, or that is unknown.
    fn decision(
        &self,
        charge: &Charge<'_>,
        fitted: &FittedLimit,
        judged: u64,
        local_now: Instant,
    ) -> Option<Decision> {
        if self.until <= local_now {
            return None;
        }
        // A log's state contains only the wait for this number of units.
        if fitted.limit.algorithm() == Algorithm::SlidingLog && judged != self.judged {
            return None;
        }
        let passed = Span::from(local_now.saturating_duration_since(self.received_at));
        let now = moment(self.now + passed.as_nanos() / 1_000);
        let mut snapshot = self.snapshot.clone();
        let decision = step(
            &mut snapshot,
            &fitted.limit,
            now,
            charge.cost,
            OnDenial::Keep,
        );
        matches!(decision.wait(), Some(Wait::For(_))).then_some(decision)
    }
}

/// The units that must fit, if a denial of the charge costs nothing and denies the request: under a
/// quota, too.
fn units_unless_shadow(charge: &Charge<'_>) -> Option<u64> {
    if charge.on_denial == OnDenial::Charge || charge.enforcement == Enforcement::Shadow {
        return None;
    }
    units_judged(charge)
}

const _: () = assert!(DENIALS_MAX == 65_536);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::generations::Generations;
    use tollgate_core::{Account, Bucket, Cost, Limit};

    #[test]
    fn a_denial_from_before_a_refund_is_not_stored() {
        let limit = Limit::token_bucket(1, Span::DAY).expect("a day is a window");
        let charge = Charge::new(Key::from_bits(7), &limit, Cost::ONE);
        let generations = Generations::default();
        let only = |generation| Single {
            charge: &charge,
            fitted: FittedLimit::new(&limit).expect("a day is whole"),
            generation,
            charges: generation,
        };
        let denials = Denials::new(true, Arc::default());
        let now = Instant::now();
        let is_stored = |only: &Single<'_>| {
            let full_at = moment(1) + Span::DAY;
            let state = Snapshot::Account(Account::Bucket(Bucket::full_at(full_at)));
            denials.insert(only, (state, 1), Span::DAY, 1, now);
            denials.verdict(&charge, &only.fitted, 1, now).is_some()
        };
        let before = only(generations.of(charge.key));
        generations.advance(charge.key);
        denials.forget(charge.key);
        assert!(!is_stored(&before));
        assert!(is_stored(&only(generations.of(charge.key))));
    }

    #[test]
    fn a_denial_is_remembered_for_a_second_however_long_its_wait() {
        let limit = Limit::token_bucket(1, Span::DAY).expect("a day is a window");
        let fitted = FittedLimit::new(&limit).expect("a day is whole");
        let charge = Charge::new(Key::from_bits(7), &fitted.limit, Cost::ONE);
        let (received_at, now) = (Instant::now(), 1_000_000);
        let full_at = moment(now) + Span::DAY;
        let snapshot = Snapshot::Account(Account::Bucket(Bucket::full_at(full_at)));
        let denials = Denials::new(true, Arc::default());
        let generations = Generations::default();
        let only = Single {
            charge: &charge,
            fitted,
            generation: generations.of(charge.key),
            charges: generations.of(charge.key),
        };
        denials.insert(&only, (snapshot, now), Span::DAY, 1, received_at);
        let after = |millis| {
            let local_now = received_at + Span::from_millis(millis).into();
            denials.verdict(&charge, &fitted, 1, local_now)
        };
        let denial = after(999).and_then(|verdict| verdict.denial);
        let wait = Span::DAY.minus(Span::from_millis(999));
        assert_eq!(denial.map(|denial| denial.wait), Some(Wait::For(wait)));
        assert_eq!(after(1_000), None);
        assert_eq!(denials.count.load(Ordering::Relaxed), 0);
    }

    #[test]
    fn a_denial_without_priority_denies_no_request_with_priority() {
        let limit =
            Limit::token_bucket(10, Span::DAY).and_then(|limit| limit.with_priority_share(20));
        let fitted = FittedLimit::new(&limit.expect("a day is a window")).expect("a day is whole");
        let for_priority = fitted.whole();
        let (received_at, now) = (Instant::now(), 1_000_000);
        let used = |units| {
            let interval = fitted.limit.interval().expect("a bucket has one");
            let bucket = Bucket::full_at(moment(now) + interval.times(units));
            Snapshot::Account(Account::Bucket(bucket))
        };
        let is_denied = |denials: &Denials, fitted: &FittedLimit| {
            let charge = Charge::new(Key::from_bits(7), &fitted.limit, Cost::ONE);
            denials.verdict(&charge, fitted, 1, received_at).is_some()
        };
        for (units, denied_by, denies_priority) in [
            (8, &fitted, false),
            (10, &fitted, true),
            (10, &for_priority, true),
        ] {
            let denials = Denials::new(true, Arc::default());
            let charge = Charge::new(Key::from_bits(7), &denied_by.limit, Cost::ONE);
            let generations = Generations::default();
            let only = Single {
                charge: &charge,
                fitted: *denied_by,
                generation: generations.of(charge.key),
                charges: generations.of(charge.key),
            };
            let state = (used(units), now);
            denials.insert(&only, state, Span::SECOND, 1, received_at);
            assert!(is_denied(&denials, &fitted), "{units}");
            assert_eq!(
                is_denied(&denials, &for_priority),
                denies_priority,
                "{units}"
            );
            assert!(is_denied(&denials, &fitted), "it is remembered, {units}");
        }
    }
}
