//! Confirmations that fail in one slot, and whose outcome is unknown in another.

use std::future::poll_fn;
use std::task::Poll;

use tollgate_behaviour::{Subject, Taste};
use tollgate_core::{Charge, Cost, Key, Limit, Moment, Now, OnDenial, Span, StoreError};
use tollgate_testbed as testbed;

use super::Driven;
use crate::config::{Config, InvalidConfig};
use crate::keys;
use crate::store::under_test::TimedRedis;

/// The timeout of a decision whose confirmation is to be too late.
const TIMEOUT: Span = Span::from_millis(500);
/// The timeout of one whose confirmation fails: longer than any check of the servers.
const LONG_TIMEOUT: Span = Span::from_secs(30);
/// Keys to choose from: some are in the first and in the last third of the slots.
const NAMES: u32 = 100;
/// How often to retry until Redis replies, each time with [`TIMEOUT`].
const TRIES: usize = 100;
/// The ends of the first and of the second third.
const THIRDS: [u16; 2] = [5_000, 11_000];

/// A key of the first third and one of the last, in this order in a commit.
fn keys_far_apart(subject: &mut Driven) -> [Key; 2] {
    let keys: Vec<Key> = (0..NAMES)
        .map(|name| subject.key(&name.to_string()))
        .collect();
    let find = |holds: &dyn Fn(u16) -> bool| {
        let found = keys.iter().find(|key| holds(keys::slot(**key)));
        *found.expect("there are many keys")
    };
    [
        find(&|slot| slot < THIRDS[0]),
        find(&|slot| slot > THIRDS[1]),
    ]
}

/// A request for units of a key in each of two slots, whose primaries fail once both have reserved,
/// or charged.
struct Trouble {
    timeout: Span,
    connect: fn(&Config) -> Result<TimedRedis, InvalidConfig>,
    limit: Limit,
    cost: Cost,
    now: Now,
}

/// What there is of it once both slots have reserved, or charged.
struct Reserved<'r> {
    masters: [&'r testbed::Redis; 2],
    keys: [Key; 2],
    store: &'r TimedRedis,
    config: &'r Config,
}

/// If a decision charged nothing in one slot, and its outcome in another is unknown, its outcome is
/// unknown: its caller gets that error.
#[test]
fn one_fails_and_one_is_lost() {
    let trouble = Trouble {
        timeout: TIMEOUT,
        ..Trouble::new(Limit::fixed_window(10, Span::HOUR).expect("an hour is a window"))
    };
    let (error, remaining) = trouble.run(|reserved| {
        reserved.fail_first();
        reserved.masters[1].ask(&["CLIENT", "PAUSE", "60000", "WRITE"]);
    });
    assert_eq!(remaining, 9, "it was charged: {error}");
    assert!(matches!(error, StoreError::TimedOut { .. }), "{error}");
}

/// Units charged in one slot are refunded when another one cannot charge: nothing is charged.
#[test]
fn one_fails_and_the_other_takes_it_back() {
    for connect in [TimedRedis::connect, TimedRedis::connect_at_once] {
        let trouble = Trouble {
            connect,
            ..Trouble::new(Limit::fixed_window(10, Span::HOUR).expect("an hour is a window"))
        };
        let (error, remaining) = trouble.run(|reserved| reserved.fail_first());
        assert_eq!(remaining, 10, "it was given back: {error}");
        assert!(matches!(error, StoreError::Rejected { .. }), "{error}");
    }
}

/// A denied request was charged for the reserved units, and its window is over: the confirmation
/// charges nothing, so nothing is refunded. The units that count now are those of another request.
#[test]
fn units_that_were_not_charged_are_not_taken_from_others() {
    let window = Span::MINUTE;
    let start = Taste::MICROSECONDS.start.utc.as_nanos();
    let start = Moment::from_nanos(start - start % window.as_nanos());
    let later = Now::at(start + window + window);
    for limit in [
        Limit::fixed_window(10, window),
        Limit::sliding_window(10, window, 1),
        Limit::sliding_log(10, window),
        Limit::token_bucket(10, window),
    ] {
        let limit = limit.expect("a minute is a window");
        let trouble = Trouble {
            cost: Cost::Take(5),
            now: Now::at(start),
            ..Trouble::new(limit)
        };
        let now = trouble.now;
        let (error, remaining) = trouble.run(|reserved| {
            let penalty = Charge {
                on_denial: OnDenial::Charge,
                ..Charge::new(reserved.keys[1], &limit, Cost::Take(11))
            };
            let all = Charge::new(reserved.keys[1], &limit, Cost::Take(10));
            let is_allowed = reserved.ask_elsewhere([(now, penalty), (later, all)]);
            assert_eq!(is_allowed, [false, true], "{limit}");
            reserved.store.set_now(later.monotonic.as_nanos() / 1_000);
            reserved.fail_first();
        });
        assert_eq!(remaining, 0, "{limit}: {error}");
        assert!(matches!(error, StoreError::Rejected { .. }), "{error}");
    }
}

// === impl Reserved ===

impl Reserved<'_> {
    /// The first slot cannot charge.
    fn fail_first(&self) {
        self.masters[0].ask(&["CONFIG", "SET", "maxmemory", "1"]);
    }

    /// Has another instance decide, while this one stands still.
    fn ask_elsewhere<const N: usize>(&self, asked: [(Now, Charge<'_>); N]) -> [bool; N] {
        // A runtime does not start another one on its own thread.
        let decide = || {
            let mut other = Driven::new(self.config);
            asked.map(|(now, charge)| other.decide(now, &[charge]).is_allowed())
        };
        std::thread::scope(|scope| scope.spawn(decide).join().expect("it is decided"))
    }
}

// === impl Trouble ===

impl Trouble {
    fn new(limit: Limit) -> Trouble {
        Trouble {
            timeout: LONG_TIMEOUT,
            connect: TimedRedis::connect,
            limit,
            cost: Cost::ONE,
            now: Taste::MICROSECONDS.start,
        }
    }

    /// Returns the error, and what remains of the second key.
    fn run(self, trouble: impl Fn(&Reserved<'_>)) -> (StoreError, u32) {
        let cluster = testbed::Cluster::start();
        let config = Config::cluster(cluster.addresses());
        let mut subject = Driven {
            crosses_slots: true,
            ..Driven::new(&config)
        };
        let config = Config {
            timeout: self.timeout,
            ..config
        };
        subject.store = {
            let _inside = subject.runtime.enter();
            (self.connect)(&config).expect("the config is valid")
        };
        let keys = keys_far_apart(&mut subject);
        let charges = keys.map(|key| Charge::new(key, &self.limit, self.cost));
        let peeks = keys.map(|key| Charge::new(key, &self.limit, Cost::Peek(1)));
        subject.store.set_now(self.now.monotonic.as_nanos() / 1_000);
        // The connections are open, and the scripts are loaded.
        let peek =
            |peeks: &[Charge<'_>]| subject.runtime.block_on(subject.store.decide(peeks)).ok();
        assert!((0..TRIES).any(|_| peek(&peeks).is_some()));
        let masters = keys.map(|key| cluster.master_of(keys::slot(key)));
        let names = keys.map(|key| subject.store.name_of(key));
        let error = subject.runtime.block_on(async {
            let mut asking = Box::pin(subject.store.decide(&charges));
            loop {
                let once = poll_fn(|context| Poll::Ready(asking.as_mut().poll(context)));
                assert!(once.await.is_pending(), "nothing is confirmed yet");
                // No further step until both slots have reserved, and each has failed.
                let is_reserved =
                    |place: usize| masters[place].ask(&["EXISTS", &names[place]]) == "1";
                if is_reserved(0) && is_reserved(1) {
                    break;
                }
                tokio::task::yield_now().await;
            }
            trouble(&Reserved {
                masters,
                keys,
                store: &subject.store,
                config: &config,
            });
            asking.await.expect_err("nothing can be confirmed")
        });
        masters[1].ask(&["CLIENT", "UNPAUSE"]);
        let snapshot = (0..TRIES).find_map(|_| peek(&peeks[1..]));
        let remaining = snapshot.expect("it answers again").decisions[0].remaining();
        (error, remaining)
    }
}
