//! The account is an equation: what is charged is what was settled, and what is still reserved.

use std::sync::atomic::{AtomicU64, Ordering};

use tollgate::{Limiter, Reservation};
use tollgate_behaviour::{Random, check};

use super::{TestClock, algorithms, hundred_an_hour};

const KEYS: u64 = 3;
const THREADS: u64 = 4;
const STEPS: u64 = 200;

/// The units of each key that were charged for good.
type Charged = [AtomicU64; 3];

/// A reservation and the index of its key.
type Open<'l> = (usize, Reservation<'l, TestClock>);

fn remaining(limiter: &Limiter<TestClock>, key: usize) -> u64 {
    limiter.peek(&key, 1).remaining().into()
}

/// Reserves, settles, drops or consumes, at random.
fn act<'l>(
    random: &mut Random,
    limiter: &'l Limiter<TestClock>,
    open: &mut Vec<Open<'l>>,
    charged: &Charged,
) {
    let key = usize::try_from(random.between(0, KEYS - 1)).unwrap();
    let charge = |key: usize, units| charged[key].fetch_add(units, Ordering::SeqCst);
    match random.between(0, 5) {
        0..=2 => open.extend(
            limiter
                .reserve(&key, random.between(0, 40))
                .map(|new| (key, new)),
        ),
        3 if limiter.check(&key).is_allowed() => drop(charge(key, 1)),
        4.. if !open.is_empty() => {
            let index = usize::try_from(random.word()).unwrap() % open.len();
            let (key, reservation) = open.swap_remove(index);
            if random.between(0, 2) > 0 {
                charge(key, reservation.settle(random.any_size(60)).charged);
            }
        }
        _ => {}
    }
}

#[test]
fn what_is_charged_is_what_was_settled_and_what_is_reserved() {
    check("reservations", 10, |random| {
        for algorithm in algorithms() {
            let (_, limiter) = hundred_an_hour(algorithm);
            let (mut open, charged) = (Vec::new(), Charged::default());
            for _ in 0..STEPS {
                act(random, &limiter, &mut open, &charged);
                for (key, settled) in charged.iter().enumerate() {
                    let of_key = open.iter().filter(|(of, _)| *of == key);
                    let reserved: u64 = of_key.map(|(_, open)| open.estimate()).sum();
                    let settled = settled.load(Ordering::SeqCst);
                    assert_eq!(100 - remaining(&limiter, key), settled + reserved);
                }
            }
        }
    });
}

#[test]
fn threads_that_reserve_at_once_leave_nothing_over() {
    check("reservations of threads", 2, |random| {
        for algorithm in algorithms() {
            let (_, limiter) = hundred_an_hour(algorithm);
            let charged = Charged::default();
            std::thread::scope(|scope| {
                for _ in 0..THREADS {
                    let (limiter, charged) = (&limiter, &charged);
                    let mut random = Random::new(random.word());
                    scope.spawn(move || {
                        let mut open = Vec::new();
                        (0..STEPS).for_each(|_| act(&mut random, limiter, &mut open, charged));
                    });
                }
            });
            for (key, charged) in charged.iter().enumerate() {
                let charged = charged.load(Ordering::SeqCst);
                assert_eq!(100 - remaining(&limiter, key), charged, "{algorithm:?}");
            }
            assert_eq!(limiter.failures(), 0);
        }
    });
}
