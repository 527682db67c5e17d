#![allow(clippy::unwrap_used)]

use super::*;

const LIFETIME: Span = Span::MINUTE;

fn table(max: usize) -> ReservationTable<u32> {
    ReservationTable::new(ReservationBounds {
        max,
        lifetime: LIFETIME,
    })
}

fn at(seconds: u64) -> Moment {
    Moment::ZERO + Span::from_secs(seconds)
}

const fn id(bits: u128) -> ReservationId {
    ReservationId::from_bits(bits)
}

/// Makes a reservation of these parts at a moment.
fn reserve(table: &ReservationTable<u32>, bits: u128, now: Moment, parts: &[u32]) {
    let place = table.claim(now).unwrap();
    let expires = now + LIFETIME;
    let parts = parts.iter().copied().collect();
    place.fill(id(bits), OpenReservation { expires, parts });
}

/// The parts that are settled now; `None` if there is no such reservation.
fn settle(table: &ReservationTable<u32>, bits: u128, now: Moment) -> Option<Vec<u32>> {
    let taken = table.take(id(bits), now)?;
    let settled: Result<_, ()> = taken.settle(|part| Ok(*part));
    Some(settled.unwrap())
}

#[test]
fn a_reservation_is_settled_once() {
    let table = table(2);
    reserve(&table, 7, at(0), &[1, 2]);
    assert_eq!(settle(&table, 8, at(1)), None);
    assert_eq!(settle(&table, 7, at(1)), Some(vec![1, 2]));
    assert_eq!(settle(&table, 7, at(1)), None);
    assert_eq!(table.open(at(1)), 0);
}

#[test]
fn a_reservation_expires() {
    let table = table(2);
    reserve(&table, 1, at(0), &[1]);
    reserve(&table, 2, at(30), &[2]);
    assert!(table.claim(at(59)).is_err());
    assert_eq!(table.open(at(60)), 1);
    assert_eq!(settle(&table, 1, at(60)), None);
    assert_eq!(settle(&table, 2, at(89)), Some(vec![2]));
}

#[test]
fn a_full_table_evicts_nothing() {
    let table = table(2);
    reserve(&table, 1, at(0), &[1]);
    let place = table.claim(at(0)).unwrap();
    assert!(table.claim(at(0)).is_err(), "its request is being decided");
    drop(place);
    reserve(&table, 2, at(0), &[2]);
    assert!(table.claim(at(1)).is_err());
    let taken = table.take(id(1), at(1)).unwrap();
    assert!(table.claim(at(1)).is_err(), "it may come back");
    assert!(taken.settle(|_| Ok::<(), ()>(())).is_ok());
    drop(table.claim(at(1)).unwrap());
    assert_eq!(settle(&table, 2, at(1)), Some(vec![2]));
    assert_eq!(table.lock().claimed, 0);
}

#[test]
fn what_could_not_be_settled_is_settled_later() {
    let table = table(1);
    reserve(&table, 1, at(0), &[1, 2, 3]);
    let taken = table.take(id(1), at(0)).unwrap();
    let fails_at_2 = |part: &u32| if *part == 2 { Err("no") } else { Ok(*part) };
    assert_eq!(taken.settle(fails_at_2), Err("no"));
    assert_eq!(settle(&table, 1, at(59)), Some(vec![2, 3]));
    assert_eq!(settle(&table, 1, at(59)), None);
}

#[test]
fn what_was_taken_and_not_settled_goes_back_and_still_expires() {
    let table = table(1);
    reserve(&table, 1, at(0), &[1]);
    drop(table.take(id(1), at(30)).unwrap());
    assert_eq!(table.open(at(59)), 1);
    assert_eq!(settle(&table, 1, at(60)), None);
    assert!(table.claim(at(60)).is_ok());
}

#[test]
fn a_part_is_not_settled_again_after_a_panic() {
    let table = table(1);
    reserve(&table, 1, at(0), &[1, 2]);
    let panic = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        let taken = table.take(id(1), at(0)).unwrap();
        let _ = taken.settle(|_| -> Result<(), ()> { std::panic::resume_unwind(Box::new(())) });
    }));
    assert!(panic.is_err());
    assert_eq!(settle(&table, 1, at(0)), Some(vec![2]));
}

#[test]
fn of_two_who_settle_at_once_one_does() {
    for round in 0..200 {
        let table = table(1);
        reserve(&table, round, at(0), &[1]);
        let winners = std::thread::scope(|scope| {
            let settle = || scope.spawn(|| settle(&table, round, at(1)).is_some());
            let threads = [settle(), settle(), settle()];
            let won = threads.map(|thread| thread.join().unwrap());
            won.into_iter().filter(|won| *won).count()
        });
        assert_eq!(winners, 1);
    }
}
