#![allow(clippy::unwrap_used)]

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::pin::Pin;
use std::sync::Barrier;
use std::sync::atomic::AtomicU32;
use std::task::{Context, Poll, Waker};
use std::thread;

use tokio::task::yield_now;
use tollgate_behaviour::{Random, check};

use super::*;

fn want(key: &str, most: u32) -> PermitRequest {
    PermitRequest {
        key: key.as_bytes().into(),
        most,
        gauge: Gauge::default(),
    }
}

#[test]
fn a_key_has_as_many_permits_as_its_limit_and_is_gone_after_the_last() {
    let table = PermitTable::new(KEYS_MAX);
    let request = [want("a", 2)];
    let first = table.acquire(&request).unwrap();
    let second = table.acquire(&request).unwrap();
    assert_eq!(request[0].gauge.get(), 2);
    assert_eq!(table.acquire(&request).unwrap_err(), NoPermit::Taken(0));
    assert_eq!(table.keys(), 1);
    let _other = table.acquire(&[want("b", 1)]).unwrap();
    drop(first);
    let third = table.acquire(&request).unwrap();
    drop((second, third));
    assert_eq!((table.keys(), request[0].gauge.get()), (1, 0));
}

#[test]
fn a_request_has_all_of_its_permits_or_none() {
    let table = PermitTable::new(KEYS_MAX);
    let both = [want("a", 1), want("b", 1)];
    let b = table.acquire(&both[1..]).unwrap();
    assert_eq!(table.acquire(&both).unwrap_err(), NoPermit::Taken(1));
    assert_eq!((table.keys(), both[0].gauge.get()), (1, 0));
    drop(b);
    let held = table.acquire(&both).unwrap();
    assert_eq!(table.acquire(&both[..1]).unwrap_err(), NoPermit::Taken(0));
    drop(held);
    assert_eq!(table.keys(), 0);
}

#[test]
fn a_full_table_takes_no_new_key() {
    let table = PermitTable::new(2);
    let a = table.acquire(&[want("a", 2)]).unwrap();
    let beyond = [want("b", 2), want("c", 2)];
    assert_eq!(table.acquire(&beyond).unwrap_err(), NoPermit::TableFull);
    let _again = table.acquire(&[want("a", 2)]).unwrap();
    let _b = table.acquire(&beyond[..1]).unwrap();
    assert_eq!(
        table.acquire(&beyond[1..]).unwrap_err(),
        NoPermit::TableFull
    );
    drop((a, _again));
    let _c = table.acquire(&beyond[1..]).unwrap();
    assert_eq!(table.keys(), 2);
}

#[test]
fn threads_never_hold_more_than_the_limit_nor_wait_for_each_other() {
    const THREADS: usize = 8;
    let table = PermitTable::new(KEYS_MAX);
    let start = Barrier::new(THREADS);
    let held = [const { AtomicU32::new(0) }; 2];
    thread::scope(|scope| {
        for index in 0..THREADS {
            let (table, start, held) = (&table, &start, &held);
            scope.spawn(move || {
                let mut both = [want("a", 3), want("b", 2)];
                if index % 2 == 0 {
                    both.reverse();
                }
                start.wait();
                for _ in 0..2000 {
                    let Ok(permits) = table.acquire(&both) else {
                        continue;
                    };
                    for count in held {
                        // At most what the scarcer of the two allows.
                        assert!(count.fetch_add(1, Ordering::Relaxed) < 2);
                    }
                    thread::yield_now();
                    for count in held {
                        count.fetch_sub(1, Ordering::Relaxed);
                    }
                    drop(permits);
                }
            });
        }
    });
    assert_eq!(table.keys(), 0);
}

/// A request as the gateway makes it: permits, and then awaits, at some of which it may panic.
async fn answer(
    table: Arc<PermitTable>,
    wanted: Vec<PermitRequest>,
    awaits: u64,
    panics_at: u64,
    in_flight: Arc<AtomicU32>,
) -> Result<(), NoPermit> {
    struct Counted(Arc<AtomicU32>);
    impl Drop for Counted {
        fn drop(&mut self) {
            self.0.fetch_sub(1, Ordering::Relaxed);
        }
    }

    let _permits = table.acquire(&wanted)?;
    in_flight.fetch_add(1, Ordering::Relaxed);
    let _counted = Counted(in_flight);
    for step in 0..awaits {
        yield_now().await;
        if step == panics_at {
            // A panic without its message.
            resume_unwind(Box::new(()));
        }
    }
    Ok(())
}

type Answering = Pin<Box<dyn Future<Output = Result<(), NoPermit>>>>;

/// Requests at once, each of which ends, is cancelled at any await, or panics at any.
fn play(random: &mut Random) {
    let table = PermitTable::new(KEYS_MAX);
    let most = random.small(1, 4);
    let in_flight: Arc<AtomicU32> = Arc::default();
    let mut running: Vec<Answering> = Vec::new();
    for _ in 0..random.between(1, 60) {
        let mut cx = Context::from_waker(Waker::noop());
        if random.chance(40) {
            let mut wanted = vec![want("all", most)];
            if random.chance(30) {
                wanted.push(want("more", most + 1));
            }
            let (awaits, panics_at) = (random.between(0, 5), random.between(0, 12));
            let (table, in_flight) = (Arc::clone(&table), Arc::clone(&in_flight));
            running.push(Box::pin(answer(
                table, wanted, awaits, panics_at, in_flight,
            )));
        }
        if running.is_empty() {
            continue;
        }
        let end = u64::try_from(running.len() - 1).unwrap();
        let index = usize::try_from(random.between(0, end)).unwrap();
        if random.chance(20) {
            // Cancelled, wherever it is.
            drop(running.swap_remove(index));
        } else {
            let before = in_flight.load(Ordering::Relaxed);
            let one = &mut running[index];
            let polled = catch_unwind(AssertUnwindSafe(|| one.as_mut().poll(&mut cx)));
            match polled {
                Ok(Poll::Pending) => {}
                Ok(Poll::Ready(result)) => {
                    // Denied only if all permits are taken.
                    let expected = Err(NoPermit::Taken(0));
                    assert!(result.is_ok() || (result == expected && before == most));
                    drop(running.swap_remove(index));
                }
                Err(_) => drop(running.swap_remove(index)),
            }
        }
        let now = in_flight.load(Ordering::Relaxed);
        assert!(now <= most, "{now} of {most}");
        assert_eq!(table.keys() > 0, now > 0);
    }
    drop(running);
    assert_eq!(table.keys(), 0);
}

#[test]
fn no_permit_is_lost_by_an_end_a_cancellation_or_a_panic_at_any_await() {
    check("permits", 2000, play);
}
