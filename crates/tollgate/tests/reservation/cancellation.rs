//! Tasks that are cancelled while they use what they reserved.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::time::sleep;
use tollgate::{Algorithm, Anchor, Limit, Limiter, Segments, TokioClock};
use tollgate_behaviour::{Random, check};

const TASKS: usize = 30;
const CAPACITY: u32 = 1_000;

/// Those under which no unit is available again within the hour of a test.
fn algorithms() -> [Algorithm; 4] {
    [
        Algorithm::FixedWindow(Anchor::FirstRequest),
        Algorithm::SlidingWindow(Segments::ONE),
        Algorithm::SlidingWindow(Segments::new(24).unwrap()),
        Algorithm::SlidingLog,
    ]
}

/// Reserves, uses and settles, with a pause before each.
async fn request(
    limiter: Arc<Limiter<TokioClock>>,
    charged: Arc<AtomicU64>,
    [estimate, actual]: [u64; 2],
    pauses: [u64; 3],
) {
    let pause = |millis| sleep(Duration::from_millis(millis));
    pause(pauses[0]).await;
    let Ok(reservation) = limiter.reserve("ann", estimate) else {
        return;
    };
    pause(pauses[1]).await;
    let settlement = reservation.settle(actual);
    charged.fetch_add(settlement.charged, Ordering::SeqCst);
    pause(pauses[2]).await;
}

async fn cancel_some(random: &mut Random, algorithm: Algorithm) {
    let limit = Limit::per_day(CAPACITY).counted_by(algorithm);
    let builder = Limiter::builder(limit)
        .max_keys(100)
        .clock(TokioClock::new());
    let (limiter, charged) = (Arc::new(builder.build()), Arc::default());
    let mut tasks = Vec::new();
    for _ in 0..TASKS {
        let units = [random.between(0, 80), random.any_size(80)];
        let pauses = [(); 3].map(|()| random.between(0, 5));
        let request = request(Arc::clone(&limiter), Arc::clone(&charged), units, pauses);
        tasks.push(tokio::spawn(request));
    }
    for _ in 0..20 {
        sleep(Duration::from_millis(1)).await;
        let unlucky = usize::try_from(random.any_size(60)).unwrap() % TASKS;
        tasks[unlucky].abort();
    }
    for task in tasks {
        let _is_cancelled = task.await.is_err_and(|error| error.is_cancelled());
    }
    let used = u64::from(CAPACITY - limiter.peek("ann", 1).remaining());
    assert_eq!(used, charged.load(Ordering::SeqCst), "{algorithm:?}");
}

#[test]
fn what_is_charged_is_what_was_settled_wherever_tasks_are_cancelled() {
    check("cancelled reservations", 25, |random| {
        for algorithm in algorithms() {
            let builder = &mut tokio::runtime::Builder::new_current_thread();
            let runtime = builder.enable_time().start_paused(true).build().unwrap();
            runtime.block_on(cancel_some(random, algorithm));
        }
    });
}

#[tokio::test(start_paused = true)]
async fn a_settled_refund_wakes_the_first_that_waits() {
    let builder = Limiter::builder(Limit::per_hour(100)).max_keys(100);
    let limiter = Arc::new(builder.clock(TokioClock::new()).build());
    let reservation = limiter.reserve("ann", 100).unwrap();
    let dropped = Arc::clone(&limiter);
    let waiting = tokio::spawn(async move { dropped.until_n_ready("ann", 60).await.is_ok() });
    tokio::task::yield_now().await;
    assert_eq!(reservation.settle(40).charged, 40);
    let began = tokio::time::Instant::now();
    assert!(waiting.await.unwrap());
    assert!(began.elapsed().is_zero());
}
