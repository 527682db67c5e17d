//! The suite that every store is held to, on real servers, in virtual time of whole microseconds.

use std::sync::LazyLock;
use std::task::Poll;

use tokio::runtime::Runtime;
use tollgate_behaviour::{Rule, Subject, Taste, check, store_behaves, with_grain};
use tollgate_core::{Charge, Key, KeyHasher, Ledger, Now, Span, Verdict};
use tollgate_testbed as testbed;

use crate::config::{Config, Secret, Servers, Tls};
use crate::fit::{Fitted, GRAIN};
use crate::question::Question;
use crate::store::Redis;

/// A store under test, and the runtime that drives its connections.
struct Driven {
    runtime: Runtime,
    store: Redis,
    /// Each subject has keys of its own.
    number: u64,
}

static SINGLE: LazyLock<testbed::Redis> = LazyLock::new(testbed::Redis::start);
static VALKEY: LazyLock<testbed::Redis> =
    LazyLock::new(|| testbed::Redis::start_with(&testbed::Setup::valkey()));
static CLUSTER: LazyLock<testbed::Cluster> = LazyLock::new(testbed::Cluster::start);
static SENTINELS: LazyLock<testbed::Sentinels> = LazyLock::new(testbed::Sentinels::start);
static ENCRYPTED: LazyLock<(testbed::Certificates, testbed::Redis)> = LazyLock::new(|| {
    let certificates = testbed::Certificates::new();
    let redis = certificates.start("limits:");
    (certificates, redis)
});

// === impl Driven ===

impl Driven {
    fn new(config: &Config) -> Driven {
        static NUMBER: std::sync::atomic::AtomicU64 = std::sync::atomic::AtomicU64::new(0);
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build();
        let runtime = runtime.expect("a runtime can be built");
        let config = Config {
            // Servers of tests share two processors with everything else.
            timeout: Span::from_secs(30),
            ..config.clone()
        };
        let store = runtime.block_on(async { Redis::under_test(&config) });
        Driven {
            runtime,
            store: store.expect("the config is valid"),
            number: NUMBER.fetch_add(1, std::sync::atomic::Ordering::Relaxed),
        }
    }
}

impl Driven {
    /// Asks all of it at once, so that it shares calls.
    fn decide_together(&self, now: Now, requests: &[Vec<Charge<'_>>]) -> Vec<Verdict> {
        self.store.set_now(now.steady.as_nanos() / 1_000);
        let decide = |charges| async move {
            let verdict = self.store.decide(charges).await;
            verdict.unwrap_or_else(|error| panic!("{error}"))
        };
        let mut waiting: Vec<_> = requests.iter().map(|one| Box::pin(decide(one))).collect();
        let mut verdicts: Vec<Option<Verdict>> = requests.iter().map(|_| None).collect();
        self.runtime.block_on(std::future::poll_fn(|context| {
            for (future, verdict) in waiting.iter_mut().zip(&mut verdicts) {
                if verdict.is_none()
                    && let Poll::Ready(ready) = future.as_mut().poll(context)
                {
                    *verdict = Some(ready);
                }
            }
            match verdicts.iter().all(Option::is_some) {
                true => Poll::Ready(()),
                false => Poll::Pending,
            }
        }));
        verdicts.into_iter().flatten().collect()
    }
}

impl Subject for Driven {
    fn key(&mut self, name: &str) -> Key {
        let number = self.number.to_le_bytes();
        // One identity: its keys share a slot.
        let parts = [b"test", name.as_bytes(), &number[..]];
        self.store.key(parts.into_iter())
    }

    fn decide(&mut self, now: Now, charges: &[Charge<'_>]) -> Verdict {
        self.store.set_now(now.steady.as_nanos() / 1_000);
        let verdict = self.runtime.block_on(self.store.decide(charges));
        verdict.unwrap_or_else(|error| panic!("{error}: {:?}", std::error::Error::source(&error)))
    }
}

store_behaves!(
    single,
    Taste::MICROSECONDS,
    Driven::new(&Config::single(SINGLE.address()))
);
store_behaves!(
    valkey,
    Taste::MICROSECONDS,
    Driven::new(&Config::single(VALKEY.address()))
);
store_behaves!(
    cluster,
    Taste::MICROSECONDS,
    Driven::new(&Config::cluster(CLUSTER.addresses()))
);
store_behaves!(sentinel, Taste::MICROSECONDS, Driven::new(&watched()));
store_behaves!(tls_and_acl, Taste::MICROSECONDS, Driven::new(&encrypted()));

/// By way of the sentinels.
fn watched() -> Config {
    Config::new(Servers::Sentinel {
        addresses: SENTINELS.addresses(),
        master: testbed::Sentinels::MASTER.to_owned(),
    })
}

/// As a user who may touch keys of one prefix only, over TLS, by the server's name.
fn encrypted() -> Config {
    let (certificates, redis) = &*ENCRYPTED;
    Config {
        tls: Some(Tls {
            authorities: Some(certificates.authority().into()),
            server_name: Some("localhost".to_owned()),
        }),
        username: Some(testbed::USER.to_owned()),
        password: Some(Secret::new(testbed::PASSWORD)),
        prefix: "limits:".to_owned(),
        ..Config::single(redis.address())
    }
}

/// Changed limits, except between buckets: a part of a unit is kept there to the microsecond, and
/// to the nanosecond in core.
#[test]
fn changed_limits_keep_what_core_keeps() {
    let taste = Taste {
        changes: true,
        ..Taste::MICROSECONDS
    };
    check("changed_limits_keep_what_core_keeps", 300, |random| {
        let mut subject = Driven::new(&Config::single(SINGLE.address()));
        let mut ledger = Ledger::default();
        let mut rule = taste.rule(random);
        let key = subject.key("only");
        let mut now = taste.start;
        for step in 0..60 {
            if random.chance(15) {
                let limit = taste.changed(&rule.limit, random);
                let is_exact = Fitted::new(&limit)
                    .is_ok_and(|fitted| fitted.limit.interval() == limit.interval());
                if is_exact && !(limit.is_bucket() && rule.limit.is_bucket()) {
                    rule.change(limit);
                }
            }
            now.steady = now.steady + GRAIN.times(random.between(0, 8));
            now.utc = now.steady;
            let charge = rule.charge(key, taste.cost(&rule.limit, random));
            let got = subject.decide(now, &[charge]);
            let want = ledger.decide(now, &[charge]).expect("one charge");
            assert_eq!(got, with_grain(want, GRAIN), "step {step}: {charge:#?}");
        }
    });
}

/// Requests that share a call are decided one after the other.
#[test]
fn a_batch_equals_its_requests_in_order() {
    check("a_batch_equals_its_requests_in_order", 200, |random| {
        let mut subject = Driven::new(&Config::single(SINGLE.address()));
        let mut ledger = Ledger::default();
        let taste = Taste::MICROSECONDS;
        let rules: Vec<Rule> = (0..4).map(|_| taste.rule(random)).collect();
        let keys = [0, 1, 2, 3].map(|name| subject.key(&format!("{name}")));
        let mut now = taste.start;
        for step in 0..20 {
            now.steady = now.steady + GRAIN.times(random.between(0, 8));
            now.utc = now.steady;
            let mut requests: Vec<Vec<Charge<'_>>> = Vec::new();
            for _ in 0..random.between(1, 12) {
                let charges = (0..random.pick(&[1, 1, 1, 2, 3])).map(|_| {
                    let index = random.pick(&[0, 1, 2, 3]);
                    rules[index].charge(keys[index], taste.cost(&rules[index].limit, random))
                });
                requests.push(charges.collect());
            }
            // Plain buckets have a script of their own, which is called first.
            requests.sort_by_key(|charges| !is_plain(charges));
            let got = subject.decide_together(now, &requests);
            for (charges, got) in requests.iter().zip(got) {
                let want = ledger.decide(now, charges).expect("a few charges");
                assert_eq!(got, with_grain(want, GRAIN), "step {step}: {charges:#?}");
            }
        }
        let counts = subject.store.counts();
        assert!(
            counts.calls < counts.questions,
            "nothing was batched: {counts:?}"
        );
    });
}

fn is_plain(charges: &[Charge<'_>]) -> bool {
    let [charge] = charges else { return false };
    let fitted = Fitted::new(charge.limit).expect("the taste's limits are whole");
    matches!(Question::of_one(charge, &fitted), Question::Bucket(_))
}
