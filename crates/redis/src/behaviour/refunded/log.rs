//! Refunds of sliding logs: what they write, and what they leave behind.

use tollgate_behaviour::{Random, Subject, Taste, check, with_grain};
use tollgate_core::{Charge, Cost, Key, Ledger, Limit, NewReservation, Now, SettledCharge, Span};
use tollgate_testbed as testbed;

use crate::behaviour::log_entries::APPEND;
use crate::behaviour::{Driven, SINGLE};
use crate::config::Config;
use crate::fit::GRAIN;

/// Entries of a large log.
const ENTRIES: u32 = 100_000;
/// The most entries without units at the end of a log, as in `sliding_log.lua`.
const SPARE_MAX: u64 = 1_000;
/// Bytes of an entry, and of the commands that a script executes without their strings.
const ENTRY: u64 = 11;
const COMMANDS: u64 = 1_000;

/// The options of a server that appends all that it writes to a file.
const APPENDING: [&str; 6] = [
    "--appendonly",
    "yes",
    "--appendfsync",
    "no",
    "--auto-aof-rewrite-percentage",
    "0",
];

/// A log on a server of its own, where what is written can be measured.
struct LargeLog {
    server: testbed::Redis,
    redis: Driven,
    limit: Limit,
    key: Key,
    now: Now,
}

// === impl LargeLog ===

impl LargeLog {
    /// A log of [`ENTRIES`] entries of one unit each.
    fn new() -> LargeLog {
        let server = testbed::Redis::start_with(&testbed::Setup::with(&APPENDING));
        let mut redis = Driven::new(&Config::single(server.address()));
        let limit = Limit::sliding_log(2 * ENTRIES, Span::HOUR).expect("an hour is a window");
        let (key, start) = (redis.key("large"), Taste::MICROSECONDS.start);
        let first = Charge::new(key, &limit, Cost::ONE);
        assert!(redis.decide(start, &[first]).is_allowed());
        let (name, more) = (redis.store.name_of(key), (ENTRIES - 1).to_string());
        server.ask(&["EVAL", APPEND, "1", &name, &more]);
        LargeLog {
            server,
            redis,
            limit,
            key,
            now: Now::at(start.utc + Span::SECOND),
        }
    }

    /// The bytes that `change` has Redis write.
    fn count_bytes(&mut self, change: impl FnOnce(&mut LargeLog)) -> u64 {
        let size = |log: &LargeLog| {
            let info = log.server.ask(&["INFO", "persistence"]);
            let size = info
                .lines()
                .find_map(|line| line.strip_prefix("aof_current_size:"));
            size.and_then(|size| size.trim().parse::<u64>().ok())
                .expect("a size")
        };
        let before = size(self);
        change(self);
        size(self) - before
    }

    /// Decides, and returns how many units remain.
    fn decide(&mut self, cost: Cost) -> u32 {
        self.now = Now::at(self.now.utc + GRAIN);
        let charge = Charge::new(self.key, &self.limit, cost);
        let verdict = self.redis.decide(self.now, &[charge]);
        assert!(verdict.is_allowed(), "{cost:?}");
        verdict.decisions[0].remaining()
    }

    fn used(&mut self) -> u32 {
        2 * ENTRIES - self.decide(Cost::Peek(1))
    }

    /// Reserves and settles to nothing.
    fn reserve_in_vain(&mut self) {
        self.decide(Cost::Peek(1));
        let charge = Charge::new(self.key, &self.limit, Cost::ONE);
        let new = NewReservation {
            secret: self.now.utc.as_nanos().into(),
            lifetime: Span::HOUR,
            memo: b"",
        };
        let store = &self.redis.store;
        let settled = self.redis.runtime.block_on(async {
            let reserved = store.reserve_kept(&[charge], &new).await;
            let record = reserved.expect("Redis answers").reservation;
            let charge = Charge::new(self.key, &self.limit, Cost::Take(0));
            let line = SettledCharge { line: 0, charge };
            store
                .settle_kept(record.expect("it is allowed"), &[line])
                .await
        });
        let settled = settled.expect("Redis answers").expect("it is not settled");
        assert_eq!(settled[0].charged, 0);
    }
}

/// Whatever the size of the log: neither a refund, nor a charge after it, nor a settlement writes
/// more than the entries of the units concerned.
#[test]
fn a_refund_writes_only_the_newest_entries() {
    let mut log = LargeLog::new();
    let refunded = log.count_bytes(|log| _ = log.decide(Cost::Refund(1)));
    assert!(refunded < COMMANDS, "{refunded}");
    assert_eq!(log.used(), ENTRIES - 1);
    let refunded = log.count_bytes(|log| _ = log.decide(Cost::Refund(100)));
    assert!(refunded < COMMANDS + 102 * ENTRY, "{refunded}");
    assert_eq!(log.used(), ENTRIES - 101);
    let charged = log.count_bytes(|log| _ = log.decide(Cost::Take(2)));
    assert!(charged < COMMANDS + 102 * ENTRY, "{charged}");
    assert_eq!(log.used(), ENTRIES - 99);
    let settled = log.count_bytes(LargeLog::reserve_in_vain);
    assert!(settled < 2 * (COMMANDS + 102 * ENTRY), "{settled}");
    assert_eq!(log.used(), ENTRIES - 99);
}

/// Nor do many of them: only after every [`SPARE_MAX`] units, the log is written as a whole.
#[test]
fn the_whole_log_is_written_once_for_many_refunds() {
    let mut log = LargeLog::new();
    let whole = u64::from(ENTRIES) * ENTRY;
    let refunded = log.count_bytes(|log| (0..2_100).for_each(|_| _ = log.decide(Cost::Refund(1))));
    let most = 2 * whole + 2_100 * (COMMANDS + SPARE_MAX / 2 * ENTRY);
    assert!(
        refunded > 2 * whole && refunded < most,
        "{refunded} of {most}"
    );
    assert_eq!(log.used(), ENTRIES - 2_100);
}

/// The length of a log's state, in entries.
fn entries(redis: &Driven, key: Key) -> u64 {
    let size = SINGLE.ask(&["STRLEN", &redis.store.name_of(key)]);
    size.trim().parse::<u64>().expect("a length") / ENTRY
}

/// Refunded entries are used again, so that the log does not grow by pairs of charge and refund.
#[test]
fn a_log_does_not_grow_by_units_that_are_refunded() {
    let mut redis = Driven::new(&Config::single(SINGLE.address()));
    let limit = Limit::sliding_log(100, Span::HOUR).expect("an hour is a window");
    let (key, mut now) = (redis.key("pairs"), Taste::MICROSECONDS.start);
    let mut decide = |redis: &mut Driven, cost| {
        now = Now::at(now.utc + GRAIN);
        let verdict = redis.decide(now, &[Charge::new(key, &limit, cost)]);
        assert!(verdict.is_allowed(), "{cost:?}");
    };
    (0..10).for_each(|_| decide(&mut redis, Cost::ONE));
    let before = entries(&redis, key);
    for _ in 0..100 {
        (0..3).for_each(|_| decide(&mut redis, Cost::ONE));
        decide(&mut redis, Cost::Refund(3));
    }
    assert_eq!(entries(&redis, key), before + 3);
}

/// Charges, refunds and settlements in any order, as many as make the log be written as a whole:
/// as the in-memory algorithm decides, and with few entries that have no units.
#[test]
fn refunds_of_a_log_agree_with_the_ledger() {
    check("refunds_of_a_log_agree_with_the_ledger", 30, |random| {
        let mut redis = Driven::new(&Config::single(SINGLE.address()));
        let mut expected = Ledger::default();
        let window = Span::from_millis(random.pick(&[2, 20]));
        let limit = Limit::sliding_log(400, window).expect("a limit");
        let (key, mut now) = (redis.key("only"), Taste::MICROSECONDS.start);
        for step in 0..150 {
            let (times, cost) = pick_requests(random);
            for _ in 0..times {
                now = Now::at(now.utc + GRAIN.times(random.pick(&[0, 1, 1, 1, 2])));
                let charge = [Charge::new(key, &limit, cost)];
                let expected = expected.decide(now, &charge).expect("one charge");
                let expected = with_grain(expected, GRAIN);
                assert_eq!(
                    redis.decide(now, &charge),
                    expected,
                    "step {step}: {cost:?}"
                );
            }
            now = Now::at(now.utc + GRAIN.times(random.pick(&[0, 0, 10, 500, 5_000])));
        }
        // Those with units, as many dead ones, and those without units.
        let most = 2 * 400 + 400 / 8 + 40;
        assert!(entries(&redis, key) < most, "{}", entries(&redis, key));
    });
}

/// Some requests, one after the other, that have the same cost.
fn pick_requests(random: &mut Random) -> (u64, Cost) {
    match random.between(0, 5) {
        0 => (1, Cost::Refund(random.between(1, 60))),
        1 => (random.between(1, 50), Cost::Refund(1)),
        2 => (random.between(1, 5), Cost::Refund(random.between(1, 5))),
        3 => (1, Cost::Take(random.between(1, 60))),
        _ => (random.between(1, 60), Cost::ONE),
    }
}
