//! The rules are replaced while a request waits for a shared store that does not answer: the
//! request is resolved again, and does not wait a second time.
#![allow(clippy::unwrap_used)]

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock, Weak};

use tollgate_core::{
    Charge, ChargeDenied, Clock, Cost, Descriptor, Entry, Key, KeyHasher, NewReservation, Request,
    ReserveVerdict, SharedStore, Span, Store, StoreError, Verdict,
};
use tollgate_engine::{AnyShared, Engine, Stores};
use tollgate_memory::{Memory, RandomKeys, SystemClock};
use tollgate_rules::{Loaded, Options, RuleSet, Source};

/// A store that never answers. While the first request waits, the rules are replaced, and another
/// request is decided under them.
struct Silent {
    keys: RandomKeys,
    asked: Arc<AtomicU64>,
    engine: Arc<OnceLock<Weak<Engine>>>,
    later: RuleSet,
}

/// An engine over [`Silent`], and how often that was asked.
struct Service {
    engine: Arc<Engine>,
    asked: Arc<AtomicU64>,
}

// === impl Silent ===

impl Silent {
    async fn time_out(&self) -> StoreError {
        if self.asked.fetch_add(1, Ordering::Relaxed) == 0 {
            let engine = self.engine.get().unwrap().upgrade().unwrap();
            engine.replace_rules(self.later.clone());
            let request = request();
            let other = Box::pin(engine.decide(&request)).await.unwrap();
            assert!(other.answer.is_allowed());
        }
        StoreError::TimedOut {
            after: Span::from_millis(15),
        }
    }
}

impl KeyHasher for Silent {
    fn key<'p>(&self, parts: impl Iterator<Item = &'p [u8]>) -> Key {
        self.keys.key(parts)
    }
}

impl Store for Silent {
    async fn decide(&self, _charges: &[Charge<'_>]) -> Result<Verdict, StoreError> {
        Err(self.time_out().await)
    }
}

impl SharedStore for Silent {
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
        Err(self.time_out().await)
    }

    async fn close(&self) {}
}

// === impl Service ===

impl Service {
    /// With rules that allow 6 a day, and later ones that allow 5.
    fn new() -> Service {
        let first = load("6/day").rules;
        let later = load("5/day").succeed(&first).0;
        let (asked, cell) = (Arc::default(), Arc::<OnceLock<_>>::default());
        let silent = Silent {
            keys: RandomKeys::with_secret(1, 2),
            asked: Arc::clone(&asked),
            engine: Arc::clone(&cell),
            later,
        };
        let clock: Arc<dyn Clock> = Arc::new(SystemClock::new());
        let memory = Memory::builder().max_keys(100).clock(clock).build();
        let stores = Stores::new(memory).with_default(AnyShared::new("Silent", silent));
        let engine = Arc::new(Engine::new(stores));
        engine.replace_rules(first);
        cell.set(Arc::downgrade(&engine)).unwrap();
        Service { engine, asked }
    }

    /// Once for each of the two requests.
    fn is_asked_twice(&self) -> bool {
        self.asked.load(Ordering::Relaxed) == 2
    }
}

fn load(rate_limit: &str) -> Loaded {
    let text = format!(
        "
domain: shop
descriptors:
  - key: user
    rate_limit: {rate_limit}
"
    );
    let loaded = RuleSet::parse(&[Source::new("shop.yaml", text)], &Options::default());
    assert!(!loaded.has_errors(), "{:?}", loaded.diagnostics);
    loaded
}

fn request() -> Request<'static> {
    Request {
        domain: b"shop",
        descriptors: vec![Descriptor {
            entries: vec![Entry {
                key: b"user",
                value: b"ann",
            }]
            .into(),
            ..Descriptor::default()
        }]
        .into(),
        cost: Cost::ONE,
        charge_denied: ChargeDenied::Never,
    }
}

#[tokio::test]
async fn a_decision_waits_once() {
    let service = Service::new();
    let decided = service.engine.decide(&request()).await.unwrap();
    assert!(decided.answer.is_allowed());
    assert!(service.is_asked_twice());
    let fallbacks = service.engine.shared_stores()[0].fallbacks;
    assert_eq!((fallbacks.local, fallbacks.total()), (2, 2));
    for is_allowed in [true, true, true, false] {
        let decided = service.engine.decide(&request()).await.unwrap();
        assert_eq!(decided.answer.is_allowed(), is_allowed);
    }
}

#[tokio::test]
async fn a_batch_waits_once() {
    let service = Service::new();
    let decided = service.engine.decide_batch(&[request()]).await;
    assert!(decided[0].as_ref().unwrap().answer.is_allowed());
    assert!(service.is_asked_twice());
}

#[tokio::test]
async fn a_reservation_waits_once() {
    let service = Service::new();
    let (decided, receipt) = service.engine.reserve(&request()).await.unwrap();
    assert!(decided.answer.is_allowed() && receipt.is_none());
    assert!(service.is_asked_twice());

    let service = Service::new();
    let (decided, owned) = service.engine.reserve_owned(&request()).await.unwrap();
    assert!(decided.answer.is_allowed() && owned.is_none());
    assert!(service.is_asked_twice());
}

#[tokio::test]
async fn an_explanation_waits_once() {
    let service = Service::new();
    let explained = service.engine.explain(&request()).await.unwrap();
    assert!(explained.answer.is_allowed());
    assert!(service.is_asked_twice());
}
