//! Real threads on one store, and exact accounts of what it allowed.
//!
//! Nothing refills while these run: windows are days, and the clock, which the threads advance
//! themselves, passes some seconds. So a key is allowed exactly its limit, plus what evictions that
//! the store counts have erased. `cargo xtask stress` runs them in
//! release and for a minute; otherwise they take a second each.
#![allow(clippy::unwrap_used)]

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use tollgate_behaviour::Random;
use tollgate_core::{Algorithm, Anchor, Charge, Clock, Cost, Key, Limit, Moment, Segments, Span};
use tollgate_memory::{ManualClock, Memory};

/// Far from the end of any day or segment of one.
const NOON: Moment = Moment::from_nanos(1_763_730_000_000_000_001);
const THREADS: u64 = 64;
/// The limits of the random workloads, one for each key in turn.
const COUNTS: [u32; 6] = [1, 2, 3, 10, 100, 1000];

type Store = Memory<ManualClock>;

fn store(max_keys: usize) -> Store {
    let clock = ManualClock::at(NOON);
    Memory::builder().max_keys(max_keys).clock(clock).build()
}

fn algorithms() -> [Algorithm; 8] {
    [
        Algorithm::FixedWindow(Anchor::Clock),
        Algorithm::FixedWindow(Anchor::FirstRequest),
        Algorithm::SlidingLog,
        Algorithm::SlidingWindow(Segments::ONE),
        Algorithm::SlidingWindow(Segments::new(10).unwrap()),
        Algorithm::SlidingWindow(Segments::new(60).unwrap()),
        Algorithm::TokenBucket,
        Algorithm::LeakyBucket,
    ]
}

fn a_day(algorithm: Algorithm, count: u32) -> Limit {
    Limit::new(algorithm, count, Span::DAY).unwrap()
}

/// How long one random workload goes on: a share of `TOLLGATE_STRESS_SECONDS`.
fn share_of_time(share: u32) -> Duration {
    let seconds = std::env::var("TOLLGATE_STRESS_SECONDS").ok();
    let seconds = seconds.map_or(4, |seconds| seconds.parse().unwrap());
    Duration::from_secs(seconds) / share
}

/// Runs `work` on so many threads at once, each with its own random numbers.
fn together<T: Send>(threads: u64, work: impl Fn(&mut Random) -> T + Sync) -> Vec<T> {
    let start = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let run = |thread| {
            let (start, work) = (&start, &work);
            scope.spawn(move || {
                while !start.load(Ordering::Acquire) {
                    std::thread::yield_now();
                }
                work(&mut Random::new(thread))
            })
        };
        let running: Vec<_> = (0..threads).map(run).collect();
        start.store(true, Ordering::Release);
        running
            .into_iter()
            .map(|thread| thread.join().unwrap())
            .collect()
    })
}

fn used(store: &Store, key: Key, limit: &Limit) -> u64 {
    let charge = Charge::new(key, limit, Cost::Peek(1));
    let remaining = store.check(&charge).unwrap().remaining();
    u64::from(limit.capacity() - remaining)
}

#[test]
fn a_thousand_and_not_one_more() {
    for algorithm in algorithms() {
        let (store, limit) = (store(1_000), a_day(algorithm, 1_000));
        let charge = Charge::new(store.key_of("one"), &limit, Cost::ONE);
        let allowed = together(THREADS, |_| {
            let ask = |_: &u64| store.check(&charge).unwrap().is_allowed();
            (0..100).filter(ask).count()
        });
        assert_eq!(allowed.into_iter().sum::<usize>(), 1_000, "{algorithm:?}");
    }
}

#[test]
fn two_limits_all_or_nothing() {
    for (first, second) in algorithms()
        .into_iter()
        .flat_map(|one| algorithms().map(|two| (one, two)))
    {
        let store = store(1_000);
        let (wide, narrow) = (a_day(first, 1_000), a_day(second, 300));
        let (one, two) = (store.key_of("one"), store.key_of("two"));
        let forth = [
            Charge::new(one, &wide, Cost::ONE),
            Charge::new(two, &narrow, Cost::ONE),
        ];
        let back = [forth[1], forth[0]];
        let allowed = together(THREADS, |random| {
            let charges = random.pick(&[forth, back]);
            let ask = |_: &u64| store.decide_now(&charges).unwrap().is_allowed();
            (0..10).filter(ask).count()
        });
        assert_eq!(
            allowed.into_iter().sum::<usize>(),
            300,
            "{first:?} and {second:?}"
        );
        assert_eq!(used(&store, one, &wide), 300, "{first:?} beside {second:?}");
        assert_eq!(used(&store, two, &narrow), 300);
    }
}

/// A key, its limit, and an account of it that does not ask the store.
struct Account {
    key: Key,
    limit: Limit,
    /// Units let through, and never given back.
    allowed: AtomicU64,
    given_back: AtomicU64,
    /// Whether one unit alone was denied.
    was_full: AtomicBool,
}

/// What the threads do.
struct Load {
    /// How far each question moves the clock.
    tick: Span,
    /// Whether units are given back.
    refunds: bool,
}

impl Default for Load {
    fn default() -> Load {
        Load {
            tick: Span::NANOSECOND,
            refunds: false,
        }
    }
}

impl Account {
    fn open(store: &Store, count: usize) -> Vec<Account> {
        let algorithms = algorithms();
        let account = |number: usize| Account {
            key: store.key_of(&number),
            limit: a_day(
                algorithms[number % algorithms.len()],
                COUNTS[number / algorithms.len() % COUNTS.len()],
            ),
            allowed: AtomicU64::new(0),
            given_back: AtomicU64::new(0),
            was_full: AtomicBool::new(false),
        };
        (0..count).map(account).collect()
    }

    const fn charge(&self, cost: Cost) -> Charge<'_> {
        Charge::new(self.key, &self.limit, cost)
    }

    fn enter(&self, units: u64) {
        self.allowed.fetch_add(units, Ordering::Relaxed);
    }

    fn count(&self) -> u64 {
        u64::from(self.limit.count())
    }
}

/// Asks for one to three units of one key; gives some of them back if they may come back.
fn ask_for_one(store: &Store, accounts: &[Account], refunds: bool, random: &mut Random) {
    let account = &accounts[index(accounts.len(), random)];
    let units = random.pick(&[1, 1, 1, 2, 3]);
    if store
        .check(&account.charge(Cost::Take(units)))
        .unwrap()
        .is_allowed()
    {
        account.enter(units);
        if refunds && random.chance(30) {
            let back = random.between(1, units);
            assert!(
                store
                    .check(&account.charge(Cost::Refund(back)))
                    .unwrap()
                    .is_allowed()
            );
            account.given_back.fetch_add(back, Ordering::Relaxed);
        }
    } else if units == 1 {
        account.was_full.store(true, Ordering::Relaxed);
    }
}

/// Asks for a unit each of up to four keys, all or nothing.
fn ask_for_several(store: &Store, accounts: &[Account], random: &mut Random) {
    let count = random.between(2, 4);
    let chosen: Vec<_> = (0..count)
        .map(|_| &accounts[index(accounts.len(), random)])
        .collect();
    let charges: Vec<_> = chosen
        .iter()
        .map(|account| account.charge(Cost::ONE))
        .collect();
    if store.decide_now(&charges).unwrap().is_allowed() {
        chosen.iter().for_each(|account| account.enter(1));
    }
}

/// Asks for a unit each of twenty keys that have nothing to do with each other.
fn ask_for_a_batch(store: &Store, accounts: &[Account], random: &mut Random) {
    let chosen: Vec<_> = (0..20)
        .map(|_| &accounts[index(accounts.len(), random)])
        .collect();
    let charges: Vec<_> = chosen
        .iter()
        .map(|account| account.charge(Cost::ONE))
        .collect();
    let mut answers = Vec::new();
    store.check_batch(&charges, &mut answers);
    for (account, answer) in chosen.iter().zip(answers) {
        if answer.unwrap().is_allowed() {
            account.enter(1);
        }
    }
}

/// A key's number, low ones more often.
fn index(count: usize, random: &mut Random) -> usize {
    let last = u64::try_from(count).unwrap() - 1;
    let most = random.between(0, last);
    usize::try_from(random.between(0, most)).unwrap()
}

fn work(store: &Store, accounts: &[Account], load: &Load) {
    let end = Instant::now() + Duration::from_millis(400);
    together(8, |random| {
        while Instant::now() < end {
            for _ in 0..100 {
                store.clock().advance(load.tick);
                match random.between(0, 9) {
                    0 => ask_for_a_batch(store, accounts, random),
                    1..4 => ask_for_several(store, accounts, random),
                    _ => ask_for_one(store, accounts, load.refunds, random),
                }
            }
        }
    });
    // No bucket has won back a unit: the shortest time for one is that of 1000 a day.
    let passed = store.clock().now().monotonic.since(NOON);
    assert!(passed < Span::from_secs(86), "{passed} have passed");
}

#[test]
fn below_the_bound_every_unit_is_accounted_for() {
    let deadline = Instant::now() + share_of_time(4);
    while Instant::now() < deadline {
        for refunds in [false, true] {
            let store = store(100_000);
            let accounts = Account::open(&store, 2_000);
            let load = Load {
                refunds,
                ..Load::default()
            };
            work(&store, &accounts, &load);
            assert_eq!(store.evicted_keys(), 0);
            for account in &accounts {
                let given_back = account.given_back.load(Ordering::Relaxed);
                let kept = account.allowed.load(Ordering::Relaxed) - given_back;
                let limit = &account.limit;
                assert!(kept <= account.count(), "{kept} units of {limit:?}");
                assert_eq!(used(&store, account.key, limit), kept, "{limit:?}");
                // Denied although there was room: a charge that was never made has been counted.
                let denied_early = account.was_full.load(Ordering::Relaxed) && !refunds;
                assert!(
                    !denied_early || kept == account.count(),
                    "{kept} of {limit:?}"
                );
            }
        }
    }
}

#[test]
fn at_the_bound_the_eviction_counter_owns_up() {
    let deadline = Instant::now() + share_of_time(4);
    while Instant::now() < deadline {
        let store = store(100);
        let accounts = Account::open(&store, 3_000);
        work(&store, &accounts, &Load::default());
        let evicted = store.evicted_keys();
        // A key that was evicted e times has had its limit at most 1 + e times.
        let evicted_min = accounts.iter().map(|account| {
            let allowed = account.allowed.load(Ordering::Relaxed);
            allowed.div_ceil(account.count()).saturating_sub(1)
        });
        let evicted_min: u64 = evicted_min.sum();
        assert!(
            evicted_min <= evicted,
            "{evicted_min} at least, but {evicted} were counted"
        );
        assert!(evicted > 0, "more keys than slots, and none was evicted");
    }
}

/// With limits of 1 the account is an equation: each allowed request makes a key live, and only an
/// eviction that is counted erases it. While the clock advances the counter may be too high: a slot
/// that a denied request has left may look live to a thread that read the clock before.
#[test]
fn at_the_bound_of_single_units_the_account_is_an_equation() {
    let deadline = Instant::now() + share_of_time(4);
    while Instant::now() < deadline {
        let store = store(100);
        let mut accounts = Account::open(&store, 1_000);
        for account in &mut accounts {
            account.limit = a_day(account.limit.algorithm(), 1);
        }
        let load = Load {
            tick: Span::ZERO,
            ..Load::default()
        };
        work(&store, &accounts, &load);
        let allowed = accounts
            .iter()
            .map(|account| account.allowed.load(Ordering::Relaxed));
        let stats = store.stats();
        assert_eq!(allowed.sum::<u64>(), stats.live_keys + stats.evicted_keys);
    }
}

/// Windows that begin and end all the time: no window lets more than its limit through.
#[test]
fn no_window_lets_more_through() {
    const WINDOW: Span = Span::from_nanos(6_000);
    const WINDOWS: u64 = 4_000;
    const COUNT: u32 = 5;
    let exact = [Algorithm::FixedWindow(Anchor::Clock), Algorithm::SlidingLog];
    for algorithm in exact {
        let limit = Limit::new(algorithm, COUNT, WINDOW).unwrap();
        let store = store(1_000);
        let begin = NOON.as_nanos() / WINDOW.as_nanos();
        let window_of = |moment: Moment| moment.as_nanos() / WINDOW.as_nanos() - begin;
        let windows: Vec<AtomicU64> = (0..=WINDOWS).map(|_| AtomicU64::new(0)).collect();
        let charge = Charge::new(store.key_of("one"), &limit, Cost::ONE);
        together(8, |random| {
            loop {
                // The limit's own clock: while another thread advances them, the two differ.
                let before = window_of(store.clock().on(limit.timeline()));
                if before >= WINDOWS {
                    return;
                }
                let is_allowed = store.check(&charge).unwrap().is_allowed();
                // Only where it is certain in which window it was decided.
                if is_allowed && window_of(store.clock().on(limit.timeline())) == before {
                    windows[usize::try_from(before).unwrap()].fetch_add(1, Ordering::Relaxed);
                }
                store
                    .clock()
                    .advance(Span::from_nanos(random.between(0, 200)));
            }
        });
        let most = windows
            .iter()
            .map(|window| window.load(Ordering::Relaxed))
            .max();
        assert_eq!(most, Some(u64::from(COUNT)), "{algorithm:?}");
    }
}
