//! The account is an equation: what is charged is what was settled, and what is still reserved.

use tollgate_behaviour::{Random, check};
use tollgate_core::Span;
use tollgate_engine::ReservationId;

use super::Bench;

const LIMITS: [&str; 7] = [
    "{unit: hour, requests_per_unit: 100, algorithm: token_bucket}",
    "{unit: hour, requests_per_unit: 100, algorithm: leaky_bucket}",
    "{unit: hour, requests_per_unit: 100, algorithm: fixed_window}",
    "{unit: hour, requests_per_unit: 100, algorithm: fixed_window, anchor: first_request}",
    "{unit: hour, requests_per_unit: 100, algorithm: sliding_window}",
    "{unit: hour, requests_per_unit: 100, algorithm: sliding_window, segments: 60}",
    "{unit: hour, requests_per_unit: 100, algorithm: sliding_log}",
];
const STEPS: u64 = 200;

/// A reservation that is not settled.
struct Open {
    id: ReservationId,
    units: u64,
    /// How often all that was charged had left the limit before it was made.
    epoch: u64,
}

/// What a limit has been charged, by the reservations that still count.
#[derive(Default)]
struct Account {
    open: Vec<Open>,
    /// Units that were charged for good in this epoch.
    settled: u64,
    epoch: u64,
}

// === impl Account ===

impl Account {
    async fn act(&mut self, random: &mut Random, bench: &Bench) {
        match random.between(0, 9) {
            0..=4 => {
                let units = random.between(0, 40);
                let epoch = self.epoch;
                let id = bench.reserve(&["a"], units).await;
                self.open.extend(id.map(|id| Open { id, units, epoch }));
            }
            9 if random.chance(10) => {
                // Until every unit has left, but not every reservation has expired.
                bench.clock.advance(Span::HOUR.times(2));
                (self.settled, self.epoch) = (0, self.epoch + 1);
            }
            _ if !self.open.is_empty() => {
                let index = usize::try_from(random.word()).unwrap() % self.open.len();
                let open = self.open.swap_remove(index);
                self.settle(open, random.any_size(60), bench).await;
            }
            _ => {}
        }
    }

    async fn settle(&mut self, open: Open, actual: u64, bench: &Bench) {
        let [(charged, remaining)] = bench.settle(open.id, actual).await[..] else {
            panic!("one limit");
        };
        if open.epoch == self.epoch {
            assert!(charged == actual || remaining == 0);
            self.settled += charged;
        } else {
            // Units of an earlier epoch are not refunded to this one, but it is charged the excess.
            assert!(charged >= open.units);
            self.settled += charged - open.units;
        }
        assert!(charged <= actual.max(open.units));
    }

    fn used(&self) -> u64 {
        let of_epoch = self.open.iter().filter(|open| open.epoch == self.epoch);
        let reserved: u64 = of_epoch.map(|open| open.units).sum();
        self.settled + reserved
    }
}

#[test]
fn what_is_charged_is_what_was_settled_and_what_is_reserved() {
    let runtime = tokio::runtime::Builder::new_current_thread();
    let runtime = { runtime }.build().unwrap();
    check("reservations of an engine", 10, |random| {
        for limit in LIMITS {
            let bench = Bench::bounded(
                &format!("- {{key: a, rate_limit: {limit}}}\n"),
                tollgate_engine::ReservationBounds {
                    max: 1_000,
                    lifetime: Span::DAY,
                },
            );
            let mut account = Account::default();
            runtime.block_on(async {
                for _ in 0..STEPS {
                    account.act(random, &bench).await;
                    let used = 100 - u64::from(bench.remaining("a").await);
                    assert_eq!(used, account.used(), "{limit}");
                }
            });
        }
    });
}
