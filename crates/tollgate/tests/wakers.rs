//! Wakers that run code of their own: a queue calls and drops them without holding its lock.

#![allow(clippy::unwrap_used)]

use std::future::poll_fn;
use std::mem::{replace, take};
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{RecvTimeoutError, sync_channel};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Wake, Waker};
use std::thread;
use std::time::Duration;

use tollgate::{Algorithm, Grant, Limit, Limiter, ManualClock, NotReady};

/// Only if a lock is taken twice, which never ends.
const DEADLOCK_AFTER: Duration = Duration::from_secs(10);
const KEY: &str = "key";

type Waiting = Pin<Box<dyn Future<Output = Result<Grant, NotReady>> + Send>>;

/// A limiter, those who wait for its key, and what happened to their wakers.
struct Scene {
    limiter: Limiter<ManualClock>,
    /// Each waker that is called or dropped also drops the last of them.
    droppable: Mutex<Vec<Waiting>>,
    made: AtomicUsize,
    woken: AtomicUsize,
    dropped: AtomicUsize,
}

/// A waker that uses the limiter, as a runtime's may that drops a task when it wakes another.
struct Meddler(Arc<Scene>);

// === impl Scene ===

impl Scene {
    /// One in which the next request with the key has to wait.
    fn exhausted(limit: Limit) -> Arc<Scene> {
        let limiter = Limiter::builder(limit).max_keys(100);
        let limiter = limiter.clock(ManualClock::default()).build();
        assert!(limiter.check(KEY).is_allowed());
        Arc::new(Scene {
            limiter,
            droppable: Mutex::default(),
            made: AtomicUsize::new(0),
            woken: AtomicUsize::new(0),
            dropped: AtomicUsize::new(0),
        })
    }

    /// One that waits for a unit, with a waker of its own.
    fn wait(self: &Arc<Scene>) -> Waiting {
        let scene = Arc::clone(self);
        let mut waiting: Waiting = Box::pin(async move {
            // A timer that fires whenever it is polled again.
            let timer = |_span| {
                let mut is_again = false;
                poll_fn(move |_| match replace(&mut is_again, true) {
                    true => Poll::Ready(()),
                    false => Poll::Pending,
                })
            };
            scene.limiter.until_ready_with(KEY, timer).await
        });
        assert!(!self.poll(&mut waiting), "it has to wait");
        waiting
    }

    /// Polls with another waker than before; whether the request was allowed.
    fn poll(self: &Arc<Scene>, waiting: &mut Waiting) -> bool {
        self.made.fetch_add(1, Ordering::Relaxed);
        let waker = Waker::from(Arc::new(Meddler(Arc::clone(self))));
        let polled = waiting.as_mut().poll(&mut Context::from_waker(&waker));
        matches!(polled, Poll::Ready(Ok(_)))
    }

    /// More who wait, at the end of the line, and who may be dropped by any waker.
    fn add_droppable(self: &Arc<Scene>, count: usize) {
        for _ in 0..count {
            let waiting = self.wait();
            self.droppable.lock().unwrap().push(waiting);
        }
    }

    fn meddle(&self) {
        if self.limiter.check(KEY).is_allowed() {
            self.limiter.refund(KEY, 1);
        }
        self.limiter.refund(KEY, 0);
        let last = self.droppable.lock().unwrap().pop();
        drop(last);
    }

    fn woken(&self) -> usize {
        self.woken.load(Ordering::Relaxed)
    }

    /// Nobody waits any more, and no waker is left.
    fn end(&self) {
        let rest = take(&mut *self.droppable.lock().unwrap());
        drop(rest);
        let [made, dropped] =
            [&self.made, &self.dropped].map(|count| count.load(Ordering::Relaxed));
        assert_eq!(made, dropped);
    }
}

// === impl Meddler ===

impl Wake for Meddler {
    fn wake(self: Arc<Meddler>) {
        self.0.woken.fetch_add(1, Ordering::Relaxed);
        self.0.meddle();
    }
}

impl Drop for Meddler {
    fn drop(&mut self) {
        self.0.dropped.fetch_add(1, Ordering::Relaxed);
        self.0.meddle();
    }
}

/// Runs `script` with the only unit of an hour taken.
fn run(script: impl FnOnce(&Arc<Scene>) + Send + 'static) {
    run_with(Limit::per_hour(1).burst(1), script);
}

/// Runs `script` in a thread, which is left behind if it does not end. Then nobody waits any more,
/// and no waker is left.
fn run_with(limit: Limit, script: impl FnOnce(&Arc<Scene>) + Send + 'static) {
    // It ends once.
    let (ended, end) = sync_channel(1);
    let running = thread::spawn(move || {
        let scene = Scene::exhausted(limit);
        script(&scene);
        scene.end();
        ended.send(()).unwrap();
    });
    let end = end.recv_timeout(DEADLOCK_AFTER);
    let is_deadlocked = matches!(end, Err(RecvTimeoutError::Timeout));
    assert!(!is_deadlocked, "a waker ran under a lock");
    running.join().unwrap();
}

#[test]
fn a_refund_wakes_without_the_lock() {
    run(|scene| {
        let mut first = scene.wait();
        scene.add_droppable(6);
        assert_eq!(scene.limiter.refund(KEY, 1), 1);
        assert_eq!(scene.woken(), 1);
        assert!(scene.poll(&mut first));
    });
}

#[test]
fn a_waker_is_replaced_without_the_lock() {
    run(|scene| {
        let [mut first, mut second] = [scene.wait(), scene.wait()];
        scene.add_droppable(6);
        assert!(!scene.poll(&mut first) && !scene.poll(&mut second));
        drop((second, first));
    });
}

#[test]
fn the_next_is_woken_without_the_lock() {
    run(|scene| {
        let [first, second] = [scene.wait(), scene.wait()];
        drop(first);
        assert_eq!(scene.woken(), 1);
        drop(second);
    });
}

#[test]
fn another_limit_wakes_without_the_lock() {
    run(|scene| {
        let mut first = scene.wait();
        scene.add_droppable(6);
        scene.limiter.set_limit(Limit::per_hour(2).burst(2));
        assert_eq!(scene.woken(), 1);
        assert!(scene.poll(&mut first));
    });
}

#[test]
fn those_who_are_held_are_woken_without_the_lock() {
    let limit = Limit::per_second(1).counted_by(Algorithm::LeakyBucket);
    run_with(limit.burst(3), |scene| {
        let [held, mut behind] = [scene.wait(), scene.wait()];
        // No room is left for these, so they stand in line.
        let [mut first, second] = [scene.wait(), scene.wait()];
        drop(held);
        assert!(scene.woken() >= 1, "the one behind moved up");
        let woken = scene.woken();
        scene.limiter.clock().advance(Duration::from_secs(1));
        assert!(scene.poll(&mut behind));
        assert!(!scene.poll(&mut first), "it is held now");
        assert!(scene.woken() > woken, "the next in line may ask");
        drop((second, first));
    });
}
