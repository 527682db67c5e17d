//! A backend that this workspace does not know: everything that a shared store needs is in this
//! file, and neither the engine nor what is built on it changes for it.
#![allow(clippy::unwrap_used)]

use std::pin::pin;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::time::{sleep, timeout};
use tollgate_core::{
    Charge, ChargeDenied, Cost, DecidedBy, Descriptor, Entry, Key, KeyHasher, Ledger, Moment, Now,
    Request, SharedStore, Span, Store, StoreError, StoreEvent, StoreMetric, StoreMetricValue,
    Verdict,
};
use tollgate_engine::{AnyShared, Engine, SettleError, Stores, watch_stores};
use tollgate_memory::{Memory, RandomKeys, SystemClock};
use tollgate_rules::{Options, RuleSet, Source};
use tollgate_testbed::Journal;

/// What a server would hold: the state of all instances.
#[derive(Default)]
struct Toy {
    ledger: Mutex<Ledger>,
    instances: AtomicU32,
    is_down: AtomicBool,
    events: Mutex<Vec<StoreEvent>>,
}

/// One instance's connection to it.
struct Connection {
    toy: Arc<Toy>,
    keys: RandomKeys,
}

// === impl Connection ===

impl Connection {
    fn to(toy: &Arc<Toy>) -> Connection {
        Connection {
            toy: Arc::clone(toy),
            // All instances must find the same key for the same values.
            keys: RandomKeys::with_secret(1, 2),
        }
    }
}

impl KeyHasher for Connection {
    fn key<'p>(&self, parts: impl Iterator<Item = &'p [u8]>) -> Key {
        self.keys.key(parts)
    }
}

impl Store for Connection {
    async fn decide(&self, charges: &[Charge<'_>]) -> Result<Verdict, StoreError> {
        if self.toy.is_down.load(Ordering::Relaxed) {
            return Err(StoreError::Unreachable {
                address: "toy:1".into(),
                source: "it is switched off".into(),
            });
        }
        let now = Now::at(Moment::from_nanos(Span::DAY.as_nanos()));
        self.toy.ledger.lock().unwrap().decide(now, charges)
    }
}

impl SharedStore for Connection {
    fn join(&self) {
        self.toy.instances.fetch_add(1, Ordering::Relaxed);
    }

    fn instances(&self) -> u32 {
        self.toy.instances.load(Ordering::Relaxed).max(1)
    }

    fn is_up(&self) -> bool {
        !self.toy.is_down.load(Ordering::Relaxed)
    }

    fn trouble(&self) -> Option<String> {
        (!self.is_up()).then(|| "it is switched off".to_owned())
    }

    fn metrics(&self) -> Vec<StoreMetric> {
        vec![StoreMetric {
            name: "toys",
            help: "Instances of the toy",
            value: StoreMetricValue::Gauge(self.instances().into()),
        }]
    }

    fn take_events(&self) -> Vec<StoreEvent> {
        std::mem::take(&mut self.toy.events.lock().unwrap())
    }

    async fn close(&self) {
        self.toy.instances.fetch_sub(1, Ordering::Relaxed);
    }
}

const SHOP: &str = "
domain: shop
descriptors:
  - key: user
    rate_limit: 6/day
";

const OTHER: &str = "
domain: other
descriptors:
  - key: user
    rate_limit: 1/day
";

/// Stores of which each of these domains has a toy store of its own.
fn stores<const N: usize>(toys: [(&str, &str, &Arc<Toy>); N]) -> Stores {
    let clock: Arc<dyn tollgate_core::Clock> = Arc::new(SystemClock::new());
    let memory = Memory::builder().max_keys(100).clock(clock).build();
    toys.into_iter()
        .fold(Stores::new(memory), |stores, (name, domain, toy)| {
            let shared = AnyShared::new("Toy", Connection::to(toy));
            stores.with_shared(name, [domain.to_owned()], shared)
        })
}

/// An engine whose domain `shop` is in the toy store.
fn engine(toy: &Arc<Toy>) -> Engine {
    let stores = stores([("toy", "shop", toy)]);
    let engine = Engine::new(stores);
    let sources = [
        Source::new("shop.yaml", SHOP),
        Source::new("other.yaml", OTHER),
    ];
    let loaded = RuleSet::parse(&sources, &Options::default());
    assert!(!loaded.has_errors(), "{:?}", loaded.diagnostics);
    engine.replace_rules(loaded.rules);
    engine
}

fn request(domain: &str, cost: Cost) -> Request<'_> {
    let descriptor = Descriptor {
        entries: vec![Entry {
            key: b"user",
            value: b"ann",
        }]
        .into(),
        ..Descriptor::default()
    };
    Request {
        domain: domain.as_bytes(),
        descriptors: vec![descriptor].into(),
        cost,
        charge_denied: ChargeDenied::Never,
    }
}

async fn allowed(engine: &Engine, domain: &str, requests: usize) -> usize {
    let request = request(domain, Cost::ONE);
    let mut allowed = 0;
    for _ in 0..requests {
        let decided = engine.decide(&request).await.unwrap();
        allowed += usize::from(decided.answer.is_allowed());
    }
    allowed
}

#[tokio::test]
async fn instances_share_one_limit_in_any_backend() {
    let toy = Arc::default();
    let (one, two) = (engine(&toy), engine(&toy));
    assert_eq!(allowed(&one, "shop", 4).await, 4);
    assert_eq!(allowed(&two, "shop", 4).await, 2);
    // A domain without a shared store is each instance's own.
    assert_eq!(allowed(&one, "other", 4).await, 1);
    assert_eq!(allowed(&two, "other", 4).await, 1);
    let store = &two.shared_stores()[0];
    assert_eq!((store.name, store.instances), ("toy", 2));
    assert_eq!(store.metrics[0].name, "toys");
    two.close().await;
    assert_eq!(two.shared_stores()[0].instances, 1);
}

#[tokio::test]
async fn without_the_backend_each_instance_decides_on_its_share() {
    let toy = Arc::default();
    let engines = [engine(&toy), engine(&toy), engine(&toy)];
    toy.is_down.store(true, Ordering::Relaxed);
    for engine in &engines {
        assert_eq!(allowed(engine, "shop", 5).await, 2);
        let counts = engine.shared_stores()[0].fallbacks;
        assert_eq!((counts.local, counts.total()), (5, 5));
    }
    toy.is_down.store(false, Ordering::Relaxed);
    assert_eq!(allowed(&engines[0], "shop", 10).await, 6);
}

/// Elsewhere, it would be of units that other requests have consumed.
#[tokio::test]
async fn a_refund_goes_where_the_units_were_charged() {
    let toy = Arc::<Toy>::default();
    // Each of two instances has half of the limit while the store does not answer.
    let engines = [engine(&toy), engine(&toy)];
    let set_down = |is_down| toy.is_down.store(is_down, Ordering::Relaxed);
    let (charge, refund) = (
        request("shop", Cost::Take(2)),
        request("shop", Cost::Refund(2)),
    );
    let remaining = async || {
        let answer = engines[0].decide(&request("shop", Cost::Peek(1))).await;
        answer.unwrap().answer.limited().next().unwrap().remaining()
    };
    let by_store = engines[0].decide(&charge).await.unwrap().charged_by;
    set_down(true);
    let by_share = engines[0].decide(&charge).await.unwrap().charged_by;
    assert_eq!(by_store.decided_by, DecidedBy::Store);
    assert_eq!(by_share.decided_by, DecidedBy::Fallback);

    let refunded = engines[0].refund(&refund, by_store).await;
    assert!(matches!(refunded, Err(StoreError::Unreachable { .. })));
    assert_eq!(remaining().await, 1, "of the share");
    set_down(false);
    engines[0].refund(&refund, by_share).await.unwrap();
    assert_eq!(remaining().await, 4, "of the store");
    engines[0].refund(&refund, by_store).await.unwrap();
    assert_eq!(remaining().await, 6, "of the store");
    set_down(true);
    assert_eq!(remaining().await, 3, "of the share");
}

#[tokio::test(start_paused = true)]
async fn its_health_is_watched_until_the_end() {
    let (journal, _guard) = Journal::begin();
    let (one, two) = (Arc::<Toy>::default(), Arc::<Toy>::default());
    let stores = stores([("one", "shop", &one), ("two", "other", &two)]);
    let stop = sleep(Duration::from_secs(5));
    let mut watching = pin!(watch_stores(Arc::new(Engine::new(stores)), stop));
    // What is logged in the next second, of which store.
    let mut logged = async |words: &str| {
        let second = timeout(Duration::from_secs(1), &mut watching).await;
        assert!(second.is_err(), "it ended too early");
        let lines = journal.lines(words).into_iter();
        let stores = lines.map(|line| {
            let (_, store) = line.split_once("store=\"").expect("each line names it");
            store[..3].to_owned()
        });
        stores.collect::<Vec<_>>()
    };
    assert_eq!(logged("Toy is connected").await, ["one", "two"]);
    two.is_down.store(true, Ordering::Relaxed);
    assert_eq!(logged("Toy is unavailable").await, ["two"]);
    two.is_down.store(false, Ordering::Relaxed);
    assert_eq!(logged("Toy is available again").await, ["two"]);
    let [from, to] = ["toy:1", "toy:2"].map(str::to_owned);
    let changed = StoreEvent::PrimaryChanged { from, to };
    two.events.lock().unwrap().push(changed);
    assert_eq!(logged("from=\"toy:1\" to=\"toy:2\"").await, ["two"]);
    watching.await;
    assert_eq!(journal.lines("Toy is").len(), 4, "{}", journal.text());
}

/// A store need not keep reservations.
#[tokio::test]
async fn a_store_that_keeps_no_reservations_says_so() {
    let toy = Arc::default();
    let engine = engine(&toy);
    let error = engine
        .reserve(&request("shop", Cost::ONE))
        .await
        .unwrap_err();
    assert!(
        error.to_string().contains("keeps no reservation"),
        "{error}"
    );
    assert_eq!(allowed(&engine, "shop", 9).await, 6, "nothing was charged");
    let unknown = "0123456789abcdef0123456789abcdef".parse().unwrap();
    let error = engine.settle(unknown, 1).await.unwrap_err();
    assert!(matches!(error, SettleError::Unknown), "{error}");
}
