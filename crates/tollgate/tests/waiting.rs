//! `until_ready` in virtual time: in turn, at the moment, and for nothing if dropped.

#![cfg(feature = "async")]
#![allow(clippy::unwrap_used)]

use std::cell::{Cell, RefCell};
use std::future::ready;
use std::rc::Rc;
use std::time::Duration;

use tokio::task::{JoinHandle, LocalSet, spawn_local};
use tokio::time::{Instant, advance, sleep};
use tollgate::{
    Algorithm, Anchor, ChargeDenied, Clock, Limit, Limiter, ManualClock, Moment, NotReady, Now,
    Segments, Span, TokioClock, until_all_ready,
};

const TASKS: usize = 8;

fn limiter(limit: Limit) -> Limiter<TokioClock> {
    let builder = Limiter::builder(limit).max_keys(100);
    builder.clock(TokioClock::new()).build()
}

/// Tasks that wait, in the order in which they were started, and who was served when.
struct Queue {
    limiter: Rc<Limiter<TokioClock>>,
    served: Rc<RefCell<Vec<(usize, Duration)>>>,
    sleeps: Rc<Cell<u32>>,
    tasks: Vec<JoinHandle<()>>,
}

// === impl Queue ===

impl Queue {
    async fn of(limiter: Limiter<TokioClock>, tasks: usize) -> Queue {
        let mut queue = Queue {
            limiter: Rc::new(limiter),
            served: Rc::default(),
            sleeps: Rc::default(),
            tasks: Vec::new(),
        };
        for number in 0..tasks {
            queue.join(number);
            tokio::task::yield_now().await;
        }
        queue
    }

    fn join(&mut self, number: usize) {
        let (limiter, served) = (Rc::clone(&self.limiter), Rc::clone(&self.served));
        let (sleeps, began) = (Rc::clone(&self.sleeps), Instant::now());
        self.tasks.push(spawn_local(async move {
            let counted = |span| {
                sleeps.set(sleeps.get() + 1);
                sleep(span)
            };
            limiter.until_n_ready_with("key", 1, counted).await.unwrap();
            served.borrow_mut().push((number, began.elapsed()));
        }));
    }

    /// Who was served after how many milliseconds, once all are.
    async fn finished(&mut self) -> Vec<(usize, u128)> {
        for task in self.tasks.drain(..) {
            let _ended_or_dropped = task.await;
        }
        let served = self.served.borrow();
        let in_millis = |(number, after): &(usize, Duration)| (*number, after.as_millis());
        served.iter().map(in_millis).collect()
    }
}

/// Runs a test with its tasks on this thread; time stands still until all of them sleep.
macro_rules! in_virtual_time {
    ($($(#[$meta:meta])* async fn $name:ident() $body:block)*) => {$(
        $(#[$meta])*
        #[tokio::test(start_paused = true)]
        async fn $name() {
            LocalSet::new().run_until(async $body).await;
        }
    )*};
}

in_virtual_time! {
    async fn first_come_first_served_at_the_moment_and_one_sleep_each() {
        let mut queue = Queue::of(limiter(Limit::per_second(10).burst(2)), TASKS).await;
        let expected = [0, 0, 100, 200, 300, 400, 500, 600];
        let expected: Vec<(usize, u128)> = expected.into_iter().enumerate().collect();
        assert_eq!(queue.finished().await, expected);
        assert_eq!(queue.sleeps.get(), 6, "no polling");
    }

    async fn a_leaky_bucket_lets_one_go_at_a_time() {
        let leaky = Limit::per_second(2).counted_by(Algorithm::LeakyBucket).burst(3);
        let mut queue = Queue::of(limiter(leaky), TASKS).await;
        let expected: Vec<(usize, u128)> = (0..TASKS).zip((0..).step_by(500)).collect();
        assert_eq!(queue.finished().await, expected);
        let held = 2;
        let in_line = 5;
        assert_eq!(queue.sleeps.get(), held + 2 * in_line, "one for room, one for the turn");
    }

    async fn every_algorithm_serves_in_order() {
        let log = Limit::per_second(2).counted_by(Algorithm::SlidingLog);
        let mut queue = Queue::of(limiter(log), 6).await;
        let expected = [0, 0, 1_000, 1_000, 2_000, 2_000];
        let expected: Vec<(usize, u128)> = expected.into_iter().enumerate().collect();
        assert_eq!(queue.finished().await, expected);
    }

    async fn the_dropped_give_their_turn_to_the_next() {
        let mut queue = Queue::of(limiter(Limit::per_second(10).burst(1)), TASKS).await;
        // 0 has gone; 1 sleeps at the head; 4 stands in the middle, 7 at the end.
        for dropped in [1, 4, 7] {
            queue.tasks[dropped].abort();
        }
        let expected = vec![(0, 0), (2, 100), (3, 200), (5, 300), (6, 400)];
        assert_eq!(queue.finished().await, expected);
        assert_eq!(queue.limiter.peek("key", 1).remaining(), 0);
        advance(Duration::from_millis(100)).await;
        assert_eq!(queue.limiter.peek("key", 1).remaining(), 1, "nothing was lost");
    }

    async fn a_held_request_that_is_dropped_gives_its_units_back() {
        let leaky = Limit::per_second(2).counted_by(Algorithm::LeakyBucket).burst(3);
        let mut queue = Queue::of(limiter(leaky), 4).await;
        // 1 is held until 500 ms, 2 until 1 s, and 3 is in line.
        assert_eq!(queue.limiter.peek("key", 1).remaining(), 0);
        queue.tasks[1].abort();
        tokio::task::yield_now().await;
        let expected = vec![(0, 0), (2, 500), (3, 1_000)];
        assert_eq!(queue.finished().await, expected);
        queue.limiter.until_ready("key").await.unwrap();
        assert_eq!(queue.limiter.peek("key", 1).remaining(), 2);
    }

    async fn all_who_wait_may_be_dropped() {
        let mut queue = Queue::of(limiter(Limit::per_second(10).burst(1)), TASKS).await;
        for task in &queue.tasks[1..] {
            task.abort();
        }
        assert_eq!(queue.finished().await, [(0, 0)]);
        let began = Instant::now();
        queue.limiter.until_ready("key").await.unwrap();
        assert_eq!(began.elapsed().as_millis(), 100, "no one stands in the way");
    }

    async fn a_newcomer_stands_behind_those_who_wait() {
        let mut queue = Queue::of(limiter(Limit::per_second(10).burst(1)), 3).await;
        sleep(Duration::from_millis(150)).await;
        queue.join(99);
        let expected = vec![(0, 0), (1, 100), (2, 200), (99, 150)];
        assert_eq!(queue.finished().await, expected);
    }

    async fn keys_do_not_wait_for_each_other() {
        let queue = Queue::of(limiter(Limit::per_second(10).burst(1)), TASKS).await;
        let began = Instant::now();
        queue.limiter.until_ready("other").await.unwrap();
        assert!(began.elapsed().is_zero());
    }

    async fn several_units_wait_for_all_of_them() {
        let limiter = limiter(Limit::per_second(10).burst(5));
        let began = Instant::now();
        limiter.until_n_ready("key", 5).await.unwrap();
        limiter.until_n_ready("key", 5).await.unwrap();
        assert_eq!(began.elapsed().as_millis(), 500);
        let never = limiter.until_n_ready("key", 6).await;
        assert!(matches!(never, Err(NotReady::NeverFits)));
    }

    async fn no_more_wait_than_may() {
        let builder = Limiter::builder(Limit::per_second(1).burst(1)).max_waiting(2);
        let limiter = builder.max_keys(100).clock(TokioClock::new()).build();
        let mut queue = Queue::of(limiter, 3).await;
        let full = queue.limiter.until_ready("key").await;
        assert!(matches!(full, Err(NotReady::TooManyWaiting { max: 2 })));
        queue.limiter.until_ready("other").await.unwrap();
        assert_eq!(queue.finished().await, [(0, 0), (1, 1_000), (2, 2_000)]);
    }

    async fn without_waiting_a_leaky_bucket_charges_nothing() {
        let leaky = Limit::per_second(1).counted_by(Algorithm::LeakyBucket).burst(3);
        let builder = Limiter::builder(leaky).max_waiting(0).max_keys(100);
        let limiter = builder.clock(TokioClock::new()).build();
        limiter.until_ready("key").await.unwrap();
        let full = limiter.until_ready("key").await;
        assert!(matches!(full, Err(NotReady::TooManyWaiting { max: 0 })));
        assert_eq!(limiter.peek("key", 1).remaining(), 2);
    }

    async fn a_check_may_come_between_and_the_first_sleeps_again() {
        let mut queue = Queue::of(limiter(Limit::per_second(10).burst(1)), 2).await;
        sleep(Duration::from_millis(50)).await;
        assert!(!queue.limiter.check("key").is_allowed());
        assert_eq!(queue.limiter.refund("key", 1), 1);
        assert!(queue.limiter.check("key").is_allowed());
        assert_eq!(queue.finished().await, [(0, 0), (1, 150)]);
        assert_eq!(queue.sleeps.get(), 2);
    }
    async fn a_refund_serves_the_first_in_line_at_once() {
        let mut queue = Queue::of(limiter(Limit::per_hour(1).burst(1)), 2).await;
        sleep(Duration::from_secs(1)).await;
        assert_eq!(queue.limiter.refund("key", 1), 1);
        assert_eq!(queue.finished().await, [(0, 0), (1, 1_000)]);
    }

    async fn no_request_leaves_early_if_the_timer_fires_early() {
        let leaky = Limit::per_second(2).counted_by(Algorithm::LeakyBucket).burst(3);
        let limiter = limiter(leaky);
        assert!(limiter.check("key").is_allowed());
        let (began, rang) = (Instant::now(), Cell::new(0));
        let early = |span: Duration| {
            rang.set(rang.get() + 1);
            sleep((span / 2).max(Duration::from_millis(1)))
        };
        limiter.until_n_ready_with("key", 1, early).await.unwrap();
        assert!(rang.get() > 1);
        assert_eq!(began.elapsed().as_millis(), 500);
    }

    async fn turns_that_are_shorter_than_a_tick_share_the_ticks() {
        let leaky = Limit::per_second(20_000).counted_by(Algorithm::LeakyBucket).burst(1_000);
        let mut queue = Queue::of(limiter(leaky), 1_000).await;
        let served = queue.finished().await;
        let last = served.iter().map(|(_, after)| *after).max();
        // The last is due after 49.95 ms; a timer of tokio's fires up to a tick later.
        assert!((50..=51).contains(&last.unwrap()), "{last:?}");
        assert_eq!(queue.sleeps.get(), 999, "each sleeps once");
    }

    async fn what_never_fits_does_not_stand_in_line() {
        let queue = Queue::of(limiter(Limit::per_hour(1).burst(1)), 2).await;
        let began = Instant::now();
        let never = queue.limiter.until_n_ready("key", 2).await;
        assert!(matches!(never, Err(NotReady::NeverFits)));
        assert!(began.elapsed().is_zero());
    }

    async fn those_behind_one_who_leaves_move_up_and_no_turn_is_given_twice() {
        let leaky = Limit::per_second(2).counted_by(Algorithm::LeakyBucket).burst(10);
        let mut queue = Queue::of(limiter(leaky), 4).await;
        sleep(Duration::from_millis(100)).await;
        queue.tasks[1].abort();
        tokio::task::yield_now().await;
        // 2 has the turn at 500 ms now and 3 that at 1 s, so the next one is at 1.5 s.
        assert_eq!(queue.limiter.check("key").delay(), Duration::from_millis(1_400));
        assert_eq!(queue.finished().await, [(0, 0), (2, 500), (3, 1_000)]);
    }

    async fn a_turn_before_one_that_was_promised_is_not_given_back() {
        let leaky = Limit::per_second(2).counted_by(Algorithm::LeakyBucket).burst(10);
        let mut queue = Queue::of(limiter(leaky), 2).await;
        assert_eq!(queue.limiter.check("key").delay(), Duration::from_secs(1));
        queue.tasks[1].abort();
        tokio::task::yield_now().await;
        let next = queue.limiter.check("key").delay();
        assert_eq!(next, Duration::from_millis(1_500), "one second is another's");
        assert_eq!(queue.finished().await, [(0, 0)]);
    }

    async fn a_late_timer_costs_no_units() {
        for per_second in [50, 500, 700, 1_000, 5_000] {
            // A tick of tokio's timer, and as much again until the task runs.
            let late = |span| sleep(span + Duration::from_millis(1));
            let builder = Limiter::builder(Limit::per_second(per_second).burst(1));
            let builder = builder.max_waiting(10_000).max_keys(100);
            let limiter = Rc::new(builder.clock(TokioClock::new()).build());
            advance(Duration::from_micros(300)).await;
            let began = Instant::now();
            let tasks: Vec<_> = (0..=per_second).map(|_| {
                let limiter = Rc::clone(&limiter);
                spawn_local(async move { limiter.until_ready_with("key", late).await.map(drop) })
            }).collect();
            for task in tasks {
                task.await.unwrap().unwrap_or_else(|error| panic!("{error}"));
            }
            let took = began.elapsed();
            assert!(took >= Duration::from_secs(1), "{per_second}/s: {took:?}");
            assert!(took <= Duration::from_millis(1_020), "98 % of {per_second}/s: {took:?}");
        }
    }

    async fn a_task_that_waits_again_and_again_reaches_the_rate() {
        let limiter = limiter(Limit::per_second(500).burst(1));
        let late = |span| sleep(span + Duration::from_millis(1));
        advance(Duration::from_micros(300)).await;
        let began = Instant::now();
        for _ in 0..=500 {
            limiter.until_ready_with("key", late).await.unwrap();
        }
        assert!(began.elapsed() >= Duration::from_secs(1));
        assert!(began.elapsed() <= Duration::from_millis(1_020), "{:?}", began.elapsed());
    }

    async fn a_stall_is_not_caught_up_with_beyond_ten_milliseconds() {
        let mut queue = Queue::of(limiter(Limit::per_second(1_000).burst(1)), 100).await;
        advance(Duration::from_millis(60)).await;
        let stalled = Instant::now();
        let served = queue.finished().await;
        assert_eq!(served.len(), 100);
        // 99 were due until 99 ms; of the 60 during the stall 11 are served at its end.
        assert_eq!(stalled.elapsed().as_millis(), 99 - 11);
    }

    async fn another_limit_wakes_those_who_wait() {
        let mut queue = Queue::of(limiter(Limit::per_hour(1).burst(1)), 3).await;
        sleep(Duration::from_secs(1)).await;
        queue.limiter.set_limit(Limit::per_second(1).burst(3));
        // One unit was used a second ago, so two are there at once.
        assert_eq!(queue.finished().await, [(0, 0), (1, 1_000), (2, 1_000)]);
        queue.limiter.set_limit(Limit::per_hour(5));
        let never = queue.limiter.until_n_ready("key", 6).await;
        assert!(matches!(never, Err(NotReady::NeverFits)));
    }

    async fn units_of_another_limit_are_there_at_once() {
        let limiter = limiter(Limit::per_hour(1).burst(1));
        limiter.set_limit(Limit::per_hour(1).burst(2));
        let began = Instant::now();
        limiter.until_ready("key").await.unwrap();
        limiter.until_ready("key").await.unwrap();
        assert!(began.elapsed().is_zero());
        assert!(!limiter.check("key").is_allowed());
    }

    async fn several_limits_are_waited_for_together() {
        let second = limiter(Limit::per_second(2).burst(1));
        let minute = second.sibling("minute", Limit::per_minute(3));
        let began = Instant::now();
        let mut taken = Vec::new();
        for _ in 0..5 {
            let asks = [second.ask("key"), minute.ask("key")];
            assert!(until_all_ready(&asks).await.unwrap().is_allowed());
            taken.push(began.elapsed().as_secs_f32());
        }
        assert_eq!(taken, [0.0, 0.5, 1.0, 20.0, 40.0]);
        let never = until_all_ready(&[second.ask_n("key", 1), minute.ask_n("key", 4)]).await;
        assert!(matches!(never, Err(NotReady::NeverFits)));
    }

    async fn a_joint_wait_notices_a_refund_and_another_limit_within_a_second() {
        for has_refund in [true, false] {
            let hour = Rc::new(limiter(Limit::per_hour(1).burst(1)));
            let day = Rc::new(hour.sibling("day", Limit::per_day(100)));
            assert!(hour.check("key").is_allowed());
            let (own_hour, own_day, began) = (Rc::clone(&hour), Rc::clone(&day), Instant::now());
            let waiting = spawn_local(async move {
                let asks = [own_hour.ask("key"), own_day.ask("key")];
                until_all_ready(&asks).await.map(|_| began.elapsed())
            });
            sleep(Duration::from_millis(1500)).await;
            match has_refund {
                true => assert_eq!(hour.refund("key", 1), 1),
                false => hour.set_limit(Limit::per_second(100)),
            }
            assert_eq!(waiting.await.unwrap().unwrap(), Duration::from_secs(2));
        }
    }

    async fn a_joint_wait_is_not_a_denial_each_time_that_it_asks() {
        let slow = limiter(Limit::per_minute(6).burst(1));
        let day = slow.sibling("day", Limit::per_day(100));
        assert!(slow.check("key").is_allowed());
        let began = Instant::now();
        let charged = [&slow, &day].map(|limit| {
            limit.ask("key").charge_denied(ChargeDenied::Always)
        });
        let allowed = tokio::time::timeout(Duration::from_secs(60), until_all_ready(&charged));
        assert!(allowed.await.unwrap().unwrap().is_allowed());
        assert_eq!(began.elapsed(), Duration::from_secs(10));
        assert_eq!(day.peek("key", 1).remaining(), 99);
    }

    async fn a_joint_wait_that_is_dropped_while_it_is_held_gives_back() {
        let leaky = Limit::per_second(1).counted_by(Algorithm::LeakyBucket).burst(3);
        let leaky = Rc::new(limiter(leaky));
        let hour = Rc::new(leaky.sibling("hour", Limit::per_hour(10)));
        assert!(leaky.check("key").is_allowed());
        let (own_leaky, own_hour) = (Rc::clone(&leaky), Rc::clone(&hour));
        let held = spawn_local(async move {
            let asks = [own_leaky.ask("key"), own_hour.ask("key")];
            until_all_ready(&asks).await.map(drop)
        });
        tokio::task::yield_now().await;
        assert_eq!((leaky.peek("key", 1).remaining(), hour.peek("key", 1).remaining()), (1, 9));
        held.abort();
        tokio::task::yield_now().await;
        assert_eq!((leaky.peek("key", 1).remaining(), hour.peek("key", 1).remaining()), (2, 10));
    }

    async fn a_joint_wait_that_is_dropped_gives_back_nothing_of_what_others_consumed() {
        let leaky = Limit::per_minute(6).counted_by(Algorithm::LeakyBucket).burst(3);
        let leaky = Rc::new(limiter(leaky));
        let window = Limit::per_second(2).counted_by(Algorithm::FixedWindow(Anchor::Clock));
        let window = Rc::new(leaky.sibling("window", window));
        let log = Limit::per_minute(2).counted_by(Algorithm::SlidingLog);
        let log = Rc::new(leaky.sibling("log", log));
        let bucket = Rc::new(leaky.sibling("bucket", Limit::per_second(1).burst(5)));
        let trial = Rc::new(leaky.sibling("trial", Limit::per_hour(3)));
        assert!(trial.check_n("key", 3).is_allowed());
        assert!(leaky.check("key").is_allowed());
        let own = [&leaky, &window, &log, &bucket, &trial].map(Rc::clone);
        let held = spawn_local(async move {
            let [leaky, window, log, bucket, trial] = &own;
            let [leaky, window, log, bucket] =
                [leaky, window, log, bucket].map(|limiter| limiter.ask("key"));
            let asks = [leaky, window, log, bucket, trial.ask("key").shadow()];
            until_all_ready(&asks).await.map(drop)
        });
        tokio::task::yield_now().await;
        advance(Duration::from_millis(5_200)).await;
        // Another window, a later unit in the log, and the bucket is full again.
        assert!(window.check_n("key", 2).is_allowed());
        assert!(log.check("key").is_allowed());
        assert!(bucket.check_n("key", 5).is_allowed());
        held.abort();
        tokio::task::yield_now().await;
        assert_eq!(leaky.peek("key", 1).remaining(), 2);
        for limiter in [&window, &bucket, &trial] {
            assert_eq!(limiter.peek("key", 1).remaining(), 0, "{}", limiter.name());
        }
        // Its own unit of the log is free, and the other one counts for a minute.
        assert!(log.check("key").is_allowed());
        advance(Duration::from_millis(54_900)).await;
        assert!(!log.check("key").is_allowed());
    }
}

#[tokio::test]
async fn a_held_request_keeps_its_turn_when_the_limit_becomes_a_window() {
    let leaky = Limit::per_second(1)
        .burst(9)
        .counted_by(Algorithm::LeakyBucket);
    // The clock of windows is ahead of that of buckets, as it is in every process.
    let mut now = Now::at(Moment::ZERO + Span::DAY);
    now.utc = now.utc + Span::DAY;
    let clock = ManualClock::default();
    clock.set(now);
    let limiter = Limiter::builder(leaky).max_keys(100).clock(clock).build();
    limiter
        .until_ready_with("key", |_| ready(()))
        .await
        .unwrap();
    let sleeps = Cell::new(0);
    let sleep = |span| {
        sleeps.set(sleeps.get() + 1);
        match sleeps.get() {
            // A timer that fires early.
            1 => limiter.set_limit(
                Limit::per_second(9).counted_by(Algorithm::SlidingWindow(Segments::ONE)),
            ),
            _ => limiter.clock().advance(span),
        }
        ready(())
    };
    limiter.until_ready_with("key", sleep).await.unwrap();
    let waited = limiter.clock().now().monotonic.since(now.monotonic);
    assert_eq!((sleeps.get(), waited), (2, Span::SECOND));
}

#[tokio::test(start_paused = true)]
async fn for_no_units_one_has_to_fit_and_none_is_consumed() {
    let limiter = limiter(Limit::per_second(1));
    let began = Instant::now();
    assert!(limiter.check("key").is_allowed());
    limiter.until_n_ready("key", 0).await.unwrap();
    assert_eq!(began.elapsed(), Duration::from_secs(1));
    assert!(limiter.check("key").is_allowed());
    let joint = until_all_ready(&[limiter.ask_n("key", 0)]).await;
    assert!(joint.unwrap().is_allowed());
    assert_eq!(began.elapsed(), Duration::from_secs(2));
    assert!(limiter.check("key").is_allowed());
}
