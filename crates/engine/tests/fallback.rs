//! Decisions while Redis is unavailable: each limit does what its `on_store_error` says.
#![allow(clippy::unwrap_used)]

use std::num::NonZeroU32;
use std::sync::Mutex;
use std::time::Duration;

use tollgate_core::{
    Charge, Cost, DenialReason, Enforcement, Key, KeyHasher, Limit, NewReservation, OnStoreError,
    ReserveVerdict, Resolution, SharedStore, Sharing, Span, Store, StoreError, Verdict, Wait,
};
use tollgate_engine::{DENIED_FOR, Fallback, FallbackCounts};
use tollgate_memory::{Memory, RandomKeys};
use tollgate_redis::{Config, Redis};
use tollgate_testbed as testbed;

const CHOICES: [OnStoreError; 4] = [
    OnStoreError::Allow,
    OnStoreError::Deny,
    OnStoreError::Error,
    OnStoreError::Local,
];
const RESERVATION: NewReservation<'_> = NewReservation {
    secret: 1,
    lifetime: Span::HOUR,
    memo: b"",
};

fn connect(address: String) -> Redis {
    let config = Config {
        timeout: Span::from_secs(20),
        ..Config::single(address)
    };
    Redis::connect(&config).unwrap()
}

/// A store that has noticed that its Redis is unavailable.
async fn unavailable() -> Fallback<Redis, Memory> {
    let address = testbed::Redis::start().address();
    let redis = Redis::connect(&Config::single(address)).unwrap();
    while redis.is_up() {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    Fallback::new(redis, Memory::builder().max_keys(100).build())
}

/// One unit, of a limit that four instances share.
fn charge(key: Key, limit: &Limit, on_store_error: OnStoreError) -> Charge<'_> {
    let sharing = Sharing {
        on_store_error,
        instances: NonZeroU32::new(4),
        ..Sharing::default()
    };
    Charge::new(key, limit, Cost::ONE).shared(sharing)
}

#[tokio::test]
async fn a_cost_above_the_share_and_not_above_the_limit_may_be_tried_again() {
    let limit = Limit::fixed_window(10, Span::DAY).unwrap();
    let reserved = limit.with_priority_share(50).unwrap();
    let larger = Limit::fixed_window(100, Span::DAY).unwrap();
    let store = unavailable().await;
    let key = |name: &str| store.key([name.as_bytes()].into_iter());
    let of = |key, limit, cost| Charge {
        cost,
        ..charge(key, limit, OnStoreError::Local)
    };
    let soon = Some((0, Wait::For(DENIED_FOR), DenialReason::StoreUnavailable));
    let never = |by| Some((by, Wait::Never, DenialReason::Exceeded));
    let (a, b, c) = (key("a"), key("b"), key("c"));
    // Of 10 units, each of 4 instances has 2.
    let cases = [
        (vec![of(a, &limit, Cost::Take(5))], soon),
        (vec![of(a, &limit, Cost::Peek(10))], soon),
        (vec![of(a, &limit, Cost::Take(11))], never(0)),
        // Half of the share is reserved, and one unit remains.
        (vec![of(a, &reserved, Cost::Take(2))], soon),
        (
            vec![of(a, &limit, Cost::Take(5)), of(b, &limit, Cost::ONE)],
            soon,
        ),
        (
            vec![of(a, &limit, Cost::Take(5)), of(b, &limit, Cost::Take(11))],
            never(1),
        ),
        // On one key, costs add up, and the smaller of two limits denies.
        (
            vec![of(a, &limit, Cost::Take(6)), of(a, &limit, Cost::Take(6))],
            never(0),
        ),
        (
            vec![of(c, &larger, Cost::Take(3)), of(c, &limit, Cost::Take(3))],
            Some((1, Wait::For(DENIED_FOR), DenialReason::StoreUnavailable)),
        ),
    ];
    for (charges, expected) in cases {
        let verdict = store.decide(&charges).await.unwrap();
        let denial = verdict.denial.map(|one| (one.by, one.wait, one.reason));
        assert_eq!(denial, expected, "{charges:?}");
    }
}

#[tokio::test]
async fn without_redis_each_charge_does_what_it_says() {
    let limit = Limit::fixed_window(10, Span::DAY).unwrap();
    let store = unavailable().await;
    let key = store.key([&b"a"[..]].into_iter());
    let charge = charge(key, &limit, OnStoreError::Allow);
    for _ in 0..20 {
        assert!(store.decide(&[charge]).await.unwrap().is_allowed());
    }
    let counts = store.counts();
    assert_eq!((counts.total(), counts.allowed), (20, 20));

    let charge = self::charge(key, &limit, OnStoreError::Deny);
    let denied_verdict = store.decide(&[charge]).await.unwrap();
    assert_eq!(denied_verdict.denial.unwrap().wait, Wait::For(DENIED_FOR));
    let reason = denied_verdict.denial.unwrap().reason;
    assert_eq!(reason, DenialReason::StoreUnavailable);
    let shadow = Charge {
        enforcement: Enforcement::Shadow,
        ..charge
    };
    assert!(store.decide(&[shadow]).await.unwrap().is_allowed());
    let counts = store.counts();
    assert_eq!((counts.denied, counts.allowed), (1, 21));
}

/// Its units are charged in Redis, and stay so: an answer would hide that.
#[tokio::test]
async fn without_redis_a_refund_is_an_error_whatever_its_limit_says() {
    let limit = Limit::fixed_window(10, Span::DAY).unwrap();
    let store = unavailable().await;
    let [a, b] = [b"a", b"b"].map(|name| store.key([&name[..]].into_iter()));
    for choice in CHOICES {
        let refund = Charge {
            cost: Cost::Refund(3),
            ..charge(a, &limit, choice)
        };
        let taken = charge(b, &limit, OnStoreError::Local);
        for charges in [vec![refund], vec![refund, taken], vec![taken, refund]] {
            let answer = store.decide(&charges).await;
            assert!(
                matches!(answer, Err(StoreError::Unreachable { .. })),
                "{answer:?}"
            );
        }
        // Beside a limit that denies, it is no part of the denial.
        let denied = charge(b, &limit, OnStoreError::Deny);
        let verdict = store.decide(&[refund, denied]).await.unwrap();
        assert_eq!(verdict.denial.unwrap().by, 1);
        assert_eq!(verdict.decisions[0].remaining(), 0);
    }
    let counts = store.counts();
    assert_eq!((counts.failed, counts.local, counts.denied), (12, 0, 4));
}

#[tokio::test]
async fn without_redis_a_limit_with_error_returns_the_error() {
    let limit = Limit::fixed_window(10, Span::DAY).unwrap();
    let store = unavailable().await;
    let [one, other] = [b"a", b"b"].map(|name| store.key([&name[..]].into_iter()));
    let failing = charge(one, &limit, OnStoreError::Error);
    let local = charge(other, &limit, OnStoreError::Local);
    // Also beside a limit that would be decided locally, which is then not charged.
    for charges in [vec![failing], vec![local, failing]] {
        let failed = store.decide(&charges).await;
        assert!(
            matches!(failed, Err(StoreError::Unreachable { .. })),
            "{failed:?}"
        );
    }
    let verdict = store.decide(&[local]).await.unwrap();
    assert_eq!(verdict.decisions[0].remaining(), 1);
    // `deny` takes precedence over `error`, and a shadow limit does not matter.
    let denying = charge(other, &limit, OnStoreError::Deny);
    let denied = store.decide(&[failing, denying]).await.unwrap();
    assert_eq!(denied.denial.unwrap().by, 1);
    let shadow = Charge {
        enforcement: Enforcement::Shadow,
        ..failing
    };
    assert!(store.decide(&[shadow]).await.unwrap().is_allowed());
    assert_eq!(store.counts().failed, 2);
}

/// A request needs only one of its quotas.
#[tokio::test]
async fn without_redis_one_quota_suffices() {
    let limit = Limit::fixed_window(10, Span::DAY).unwrap();
    let store = unavailable().await;
    let quota = |name: &[u8], on_store_error| Charge {
        enforcement: Enforcement::Quota,
        ..charge(store.key([name].into_iter()), &limit, on_store_error)
    };
    let denying = quota(b"a", OnStoreError::Deny);
    let failing = quota(b"b", OnStoreError::Error);
    let local = quota(b"c", OnStoreError::Local);
    let allowing = quota(b"d", OnStoreError::Allow);
    // An instance's share is two units.
    for is_allowed in [true, true, false] {
        let verdict = store.decide(&[denying, failing, local]).await.unwrap();
        assert_eq!(verdict.is_allowed(), is_allowed);
        let decisions = verdict.decisions.iter();
        let allowed: Vec<bool> = decisions.map(tollgate_core::Decision::is_allowed).collect();
        assert_eq!(allowed, [false, false, is_allowed]);
    }
    let verdict = store.decide(&[denying, local, allowing]).await.unwrap();
    assert!(verdict.is_allowed());
    assert!(verdict.decisions[2].is_allowed() && !verdict.decisions[1].is_allowed());

    // Without one that can allow it, `deny` still takes precedence over `error`.
    let verdict = store.decide(&[failing, denying]).await.unwrap();
    assert_eq!(verdict.denial.unwrap().by, 1);
    assert!(!verdict.decisions[0].is_allowed());
    // A limit that is not a quota decides for itself.
    let enforced = Charge {
        enforcement: Enforcement::Enforce,
        ..denying
    };
    let verdict = store.decide(&[allowing, enforced]).await.unwrap();
    assert_eq!(verdict.denial.unwrap().by, 1);
}

#[tokio::test]
async fn without_redis_an_instance_spends_its_share() {
    let store = unavailable().await;
    let limit = Limit::fixed_window(10, Span::DAY).unwrap();
    let small = Limit::token_bucket(3, Span::DAY).unwrap();
    for (name, limit, share) in [("a", &limit, 2), ("b", &small, 1)] {
        let key = store.key([name.as_bytes()].into_iter());
        let charge = charge(key, limit, OnStoreError::Local);
        let mut allowed = 0;
        for _ in 0..20 {
            let verdict = store.decide(&[charge]).await.unwrap();
            allowed += u32::from(verdict.is_allowed());
        }
        assert_eq!(allowed, share, "{limit:?}");
    }
}

/// A store that has counted so many instances, itself included.
async fn counted(address: String, instances: u32) -> Fallback<Redis, Memory> {
    let memory = Memory::builder().max_keys(100).build();
    let store = Fallback::new(connect(address), memory);
    while store.shared().instances() < instances {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    store
}

#[tokio::test]
async fn instances_that_were_counted_share_a_limit() {
    let redis = testbed::Redis::start();
    let first = counted(redis.address(), 1).await;
    let second = counted(redis.address(), 2).await;
    let third = counted(redis.address(), 3).await;
    redis.kill();
    while third.shared().is_up() {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    assert_eq!(third.shared().instances(), 3);
    let limit = Limit::fixed_window(9, Span::DAY).unwrap();
    let key = third.key([&b"a"[..]].into_iter());
    let sharing = Sharing {
        on_store_error: OnStoreError::Local,
        ..Sharing::default()
    };
    let charge = Charge::new(key, &limit, Cost::ONE).shared(sharing);
    let mut allowed = 0;
    for _ in 0..20 {
        allowed += u32::from(third.decide(&[charge]).await.unwrap().is_allowed());
    }
    assert_eq!(allowed, 3);
    assert_eq!(third.counts().local, 20);

    // The rule changes meanwhile: its share migrates, with what was consumed of it.
    let changed = Limit::token_bucket(18, Span::DAY).unwrap();
    let history = tollgate_core::LimitHistory::none().and(limit);
    let charge = Charge {
        limit: &changed,
        history: &history,
        ..charge
    };
    let mut allowed = 0;
    for _ in 0..20 {
        allowed += u32::from(third.decide(&[charge]).await.unwrap().is_allowed());
    }
    assert_eq!(allowed, 3, "6, of which 3 were consumed");
    drop((first, second));
}

/// A share of 20 % of this instance's part: one of its two units.
#[tokio::test]
async fn without_redis_an_instance_keeps_the_share_of_its_part() {
    let store = unavailable().await;
    for (count, kept) in [(10, 1), (100, 5)] {
        let limit = Limit::sliding_log(count, Span::DAY).unwrap();
        let limit = limit.with_priority_share(20).unwrap();
        let priority = limit.for_priority();
        let key = store.key([&count.to_le_bytes()[..]].into_iter());
        let spend = async |limit: &Limit| {
            let charge = charge(key, limit, OnStoreError::Local);
            let mut allowed = 0;
            while store.decide(&[charge]).await.unwrap().is_allowed() {
                allowed += 1;
            }
            allowed
        };
        assert_eq!(spend(&limit).await, count / 4 - kept);
        assert_eq!(spend(&priority).await, kept);
    }
}

/// A shared store that answers everything with one error.
struct Failing {
    keys: RandomKeys,
    error: fn() -> StoreError,
}

/// A store of this process, and the keys that it was asked about.
struct Recording {
    memory: Memory,
    asked: Mutex<Vec<Key>>,
}

// === impl Failing ===

impl Failing {
    fn with(error: fn() -> StoreError) -> Failing {
        // All instances must find the same key for the same values.
        let keys = RandomKeys::with_secret(1, 2);
        Failing { keys, error }
    }

    fn unreachable() -> StoreError {
        StoreError::Unreachable {
            address: "double:1".into(),
            source: "it is switched off".into(),
        }
    }
}

impl KeyHasher for Failing {
    fn key<'p>(&self, parts: impl Iterator<Item = &'p [u8]>) -> Key {
        self.keys.key(parts)
    }
}

impl Store for Failing {
    async fn decide(&self, _charges: &[Charge<'_>]) -> Result<Verdict, StoreError> {
        Err((self.error)())
    }
}

impl SharedStore for Failing {
    fn join(&self) {}

    fn instances(&self) -> u32 {
        1
    }

    fn is_up(&self) -> bool {
        true
    }

    async fn reserve(
        &self,
        _charges: &[Charge<'_>],
        _new: &NewReservation<'_>,
    ) -> Result<ReserveVerdict, StoreError> {
        Err((self.error)())
    }

    async fn close(&self) {}
}

// === impl Recording ===

impl Recording {
    fn new() -> Recording {
        Recording {
            memory: Memory::builder().max_keys(100).build(),
            asked: Mutex::default(),
        }
    }

    fn asked(&self) -> Vec<Key> {
        self.asked.lock().unwrap().clone()
    }
}

impl KeyHasher for Recording {
    fn key<'p>(&self, parts: impl Iterator<Item = &'p [u8]>) -> Key {
        self.memory.key(parts)
    }
}

impl Store for Recording {
    async fn decide(&self, charges: &[Charge<'_>]) -> Result<Verdict, StoreError> {
        let keys = charges.iter().map(|charge| charge.key);
        self.asked.lock().unwrap().extend(keys);
        self.memory.decide(charges).await
    }
}

/// Other requests hold the units, so the store is not out of order: to decide without it would
/// allow more than the limit. Nor is it an error where nothing may be allowed uncounted: Envoy
/// allows what is an error.
#[tokio::test]
async fn contention_is_no_outage() {
    let limit = Limit::fixed_window(10, Span::DAY).unwrap();
    let store = Fallback::new(Failing::with(|| StoreError::Contended), Recording::new());
    let key = store.key([&b"a"[..]].into_iter());
    for on_store_error in CHOICES {
        let charges = [charge(key, &limit, on_store_error)];
        let mut decided = vec![store.decide(&charges).await];
        decided.extend(store.decide_batch(&[&charges, &charges]).await);
        let reserved = store.reserve(&charges, &RESERVATION).await;
        decided.push(reserved.map(|reserved| reserved.verdict));
        assert_eq!(decided.len(), 4);
        for decided in decided {
            let is_right = match (on_store_error, &decided) {
                (OnStoreError::Deny, Ok(verdict)) => {
                    let denial = verdict.denial;
                    denial.is_some_and(|denial| denial.reason == DenialReason::StoreUnavailable)
                }
                (OnStoreError::Deny, _) => false,
                _ => matches!(decided, Err(StoreError::Contended)),
            };
            assert!(is_right, "{on_store_error:?}: {decided:?}");
        }
    }
    let expected = FallbackCounts {
        denied: 4,
        ..FallbackCounts::default()
    };
    assert_eq!(store.counts(), expected);
    assert_eq!(store.local().asked(), []);
}

/// An operator asks what would be decided: no client has got that decision.
#[tokio::test]
async fn an_explanation_is_no_decision_without_the_store() {
    let limit = Limit::fixed_window(10, Span::DAY).unwrap();
    let store = Fallback::new(Failing::with(Failing::unreachable), Recording::new());
    let key = store.key([&b"a"[..]].into_iter());
    for on_store_error in CHOICES {
        let charges = [charge(key, &limit, on_store_error)];
        let explained = store.explain(&charges).await;
        let is_error = on_store_error == OnStoreError::Error;
        assert_eq!(explained.is_err(), is_error, "{explained:?}");
    }
    assert_eq!(store.counts(), FallbackCounts::default());
}

/// A request is resolved again only after the shared store had no answer: to wait for it once more
/// would take twice the time, and might charge the request twice.
#[tokio::test]
async fn a_request_that_is_resolved_again_does_not_ask_the_shared_store() {
    let limit = Limit::fixed_window(100, Span::DAY).unwrap();
    // Its error, if it is asked after all, is another one.
    let store = Fallback::new(Failing::with(|| StoreError::Contended), Recording::new());
    let key = store.key([&b"a"[..]].into_iter());
    for resolution in [Resolution::Again, Resolution::Latest] {
        let first = [charge(key, &limit, OnStoreError::Local)];
        let again = first.map(|charge| Charge {
            resolution,
            ..charge
        });
        assert!(store.decide(&again).await.unwrap().is_allowed());
        let reserved = store.reserve(&again, &RESERVATION).await.unwrap();
        assert!(reserved.verdict.is_allowed() && reserved.reservation.is_none());
        let batch = store.decide_batch(&[&first, &again, &first]).await;
        assert!(matches!(
            batch[..],
            [
                Err(StoreError::Contended),
                Ok(_),
                Err(StoreError::Contended)
            ]
        ));
        let failing = Charge {
            resolution,
            ..charge(key, &limit, OnStoreError::Error)
        };
        let failed = store.decide(&[failing]).await;
        assert!(matches!(failed, Err(StoreError::Unanswered)), "{failed:?}");
    }
    let counts = store.counts();
    assert_eq!((counts.local, counts.failed), (6, 2));
}

/// The keys of a shared store are hashes without a secret, so anyone can find values that collide.
#[tokio::test]
async fn each_instance_counts_under_keys_of_its_own() {
    let limit = Limit::fixed_window(10, Span::DAY).unwrap();
    let instance = || Fallback::new(Failing::with(Failing::unreachable), Recording::new());
    let stores = [instance(), instance()];
    let [one, other] = [b"a", b"b"].map(|name| stores[0].key([&name[..]].into_iter()));
    for store in &stores {
        assert_eq!(store.key([&b"a"[..]].into_iter()), one, "they share it");
        for key in [one, one, other] {
            let charge = charge(key, &limit, OnStoreError::Local);
            assert!(store.decide(&[charge]).await.unwrap().is_allowed());
        }
    }
    let [first, second] = stores.each_ref().map(|store| store.local().asked());
    for asked in [&first, &second] {
        assert_eq!(asked.len(), 3);
        assert_eq!(asked[0], asked[1], "the same key each time");
        assert_ne!(asked[0], asked[2], "another one for another key");
        assert!(
            !asked.contains(&one) && !asked.contains(&other),
            "{asked:?}"
        );
    }
    assert_ne!(first[0], second[0], "each has a secret of its own");
}
