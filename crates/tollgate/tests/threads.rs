//! Sixty-four threads at once: as many are allowed as one thread would see, for every algorithm.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Barrier};

use tollgate::{Algorithm, Anchor, Limit, Limiter, ManualClock, Segments, Span, check_all};

const THREADS: usize = 64;
const ASKED_BY_EACH: u64 = 40;
const COUNT: u32 = 500;

fn algorithms() -> [Algorithm; 8] {
    let six = Segments::new(6).expect("six segments are allowed");
    [
        Algorithm::TokenBucket,
        Algorithm::LeakyBucket,
        Algorithm::FixedWindow(Anchor::Clock),
        Algorithm::FixedWindow(Anchor::FirstRequest),
        Algorithm::SlidingWindow(Segments::ONE),
        Algorithm::SlidingWindow(six),
        Algorithm::SlidingWindow(Segments::new(60).expect("sixty are allowed")),
        Algorithm::SlidingLog,
    ]
}

fn limiter(algorithm: Algorithm) -> Limiter<Arc<ManualClock>> {
    let clock = Arc::new(ManualClock::default());
    clock.advance(Span::DAY);
    let limit = Limit::per_hour(COUNT).counted_by(algorithm);
    Limiter::builder(limit).max_keys(1_000).clock(clock).build()
}

/// What `ask` allows of all that the threads ask, at once.
fn allowed(ask: impl Fn() -> u64 + Sync) -> u64 {
    let (start, allowed) = (Barrier::new(THREADS), AtomicU64::new(0));
    std::thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| {
                start.wait();
                let own: u64 = (0..ASKED_BY_EACH).map(|_| ask()).sum();
                allowed.fetch_add(own, Ordering::Relaxed);
            });
        }
    });
    allowed.into_inner()
}

#[test]
fn single_units() {
    for algorithm in algorithms() {
        let limiter = limiter(algorithm);
        let passed = allowed(|| u64::from(limiter.check("hot").is_allowed()));
        assert_eq!(passed, u64::from(COUNT), "{algorithm:?}");
        assert_eq!(limiter.failures(), 0);
    }
}

#[test]
fn several_units_and_refunds() {
    for algorithm in algorithms() {
        let limiter = limiter(algorithm);
        let passed = allowed(|| {
            if !limiter.check_n("hot", 5).is_allowed() {
                return 0;
            }
            let _left = limiter.refund("hot", 2);
            3
        });
        let left = limiter.peek("hot", 1).remaining();
        assert_eq!(passed + u64::from(left), u64::from(COUNT), "{algorithm:?}");
        assert!(
            left < 5,
            "{algorithm:?}: {left} are left, and 5 were denied"
        );
    }
}

#[test]
fn several_limits() {
    for algorithm in algorithms() {
        let wide = limiter(algorithm);
        let narrow = wide.sibling("narrow", Limit::per_hour(COUNT / 2).counted_by(algorithm));
        let passed = allowed(|| {
            // Both orders: a thread that took one and waited for the other would be stuck.
            let asks = [wide.ask("hot"), narrow.ask("hot")];
            let back = [narrow.ask("hot"), wide.ask("hot")];
            let joint = check_all(&asks).expect("the store answers").is_allowed();
            let other = check_all(&back).expect("the store answers").is_allowed();
            u64::from(joint) + u64::from(other)
        });
        assert_eq!(passed, u64::from(COUNT / 2), "{algorithm:?}");
        assert_eq!(wide.peek("hot", 1).remaining(), COUNT / 2, "{algorithm:?}");
    }
}

#[test]
fn batches() {
    for algorithm in algorithms() {
        let limiter = limiter(algorithm);
        let keys: Vec<u8> = (0..40).map(|number| number % 4).collect();
        let passed = allowed(|| {
            let decisions = limiter.check_batch(&keys);
            let allowed = decisions.iter().filter(|decision| decision.is_allowed());
            u64::try_from(allowed.count()).unwrap_or(0)
        });
        assert_eq!(passed, 4 * u64::from(COUNT), "{algorithm:?}");
    }
}

#[cfg(feature = "async")]
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_request_that_finds_the_line_full_charges_nothing() {
    let limit = Limit::per_hour(1_000_000).counted_by(Algorithm::LeakyBucket);
    let builder = Limiter::builder(limit).max_waiting(0).max_keys(100);
    let limiter = Arc::new(builder.clock(ManualClock::default()).build());
    let ask = |limiter: Arc<Limiter<ManualClock>>| async move {
        limiter.until_ready_with("key", std::future::ready).await
    };
    assert!(ask(Arc::clone(&limiter)).await.is_ok());
    let tasks = (0..4).map(|_| {
        let limiter = Arc::clone(&limiter);
        tokio::spawn(async move {
            for _ in 0..20_000 {
                assert!(ask(Arc::clone(&limiter)).await.is_err());
            }
        })
    });
    let tasks: Vec<_> = tasks.collect();
    for task in tasks {
        task.await.expect("no request is allowed");
    }
    assert_eq!(limiter.peek("key", 1).remaining(), 999_999);
}
