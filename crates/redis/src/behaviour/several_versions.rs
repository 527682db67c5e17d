//! Three and more versions of a rule on one key at once, which differ in window, algorithm or N:
//! none of them forgets what the others have allowed.

use tollgate_behaviour::{Random, Rule, Subject, Taste, algorithms, check};
use tollgate_core::{Charge, Cost, Ledger, Limit, Moment, Now, OnDenial, Span, Wait};

use super::disagree::{instance, limit};
use crate::fit::GRAIN;

const FIXED: fn(u32, Span) -> Limit =
    |count, window| Limit::fixed_window(count, window).expect("a window");

/// Early in every window.
fn start() -> Now {
    let start = Taste::MICROSECONDS.start.utc.as_nanos();
    let start = start - start % Span::DAY.as_nanos();
    Now::at(Moment::from_nanos(start + 7_000))
}

/// The units that these limits allow when each in turn is asked for single units until it denies.
fn exhaust_in_turn(limits: &[Limit]) -> Vec<u64> {
    let mut instance = instance();
    let key = instance.key("only");
    let mut exhaust = |limit| {
        let one = Charge::new(key, limit, Cost::ONE);
        let mut allowed = 0;
        while instance.decide(start(), &[one]).is_allowed() {
            allowed += 1;
        }
        allowed
    };
    limits.iter().map(&mut exhaust).collect()
}

/// Each is asked at the same moment, so together they allow no more than the largest.
#[test]
fn a_smaller_version_hides_nothing_from_a_third_one() {
    let log = |count| Limit::sliding_log(count, Span::MINUTE).expect("a minute is a window");
    let sliding = |count| Limit::sliding_window(count, Span::MINUTE, 1).expect("a window");
    let (hour, day) = (FIXED(100, Span::HOUR), FIXED(100, Span::DAY));
    let minute = |count| FIXED(count, Span::MINUTE);
    for limits in [
        // Two of them count in the same window.
        [hour, minute(50), minute(100)],
        [hour, log(50), log(100)],
        [hour, sliding(50), sliding(100)],
        [hour, minute(1), day],
        [hour, log(1), day],
        [hour, sliding(5), day],
        [hour, sliding(5), log(100)],
        [hour, minute(0), minute(100)],
        [hour, minute(0), day],
    ] {
        let allowed = exhaust_in_turn(&limits);
        assert_eq!(allowed, [100, 0, 0], "{limits:?}");
    }
}

/// What other shapes have counted beside a bucket includes what it has refilled since, so it passes
/// on no more than it holds.
#[test]
fn a_bucket_in_between_passes_on_no_more_than_it_holds() {
    for first in [
        FIXED(1_000, Span::DAY),
        Limit::sliding_log(1_000, Span::DAY).expect("a day is a window"),
    ] {
        let mut instance = instance();
        let key = instance.key("only");
        let mut ask = |now, limit: &Limit, cost| {
            let charge = Charge::new(key, limit, cost);
            instance.decide(now, &[charge]).decisions[0]
        };
        let mut now = start();
        assert!(ask(now, &first, Cost::Take(500)).is_allowed());
        let bucket = Limit::token_bucket(10, Span::MINUTE).expect("a minute is a window");
        let mut allowed = 0;
        for _ in 0..100 {
            now = Now::at(now.utc + Span::MINUTE);
            allowed += u32::from(ask(now, &bucket, Cost::Take(5)).is_allowed());
        }
        // It begins with all of its units used.
        assert_eq!(allowed, 99, "{first}");
        let last = FIXED(500, Span::HOUR);
        assert_eq!(ask(now, &last, Cost::Peek(1)).remaining(), 495, "{first}");
    }
}

/// The first of several versions has allowed its N, and others are used after it. Returns what it
/// allows later in its window, when the last one has nothing counted any more.
fn ask_first_again(first: &Limit, others: u64) -> u32 {
    let mut instance = instance();
    let key = instance.key("only");
    let mut take = |now, limit: &Limit, cost| {
        let charge = Charge::new(key, limit, cost);
        instance.decide(now, &[charge]).decisions[0]
    };
    assert!(take(start(), first, Cost::Take(10)).is_allowed());
    for days in 2..=others {
        let other = FIXED(100, Span::DAY.times(days));
        assert!(take(start(), &other, Cost::ONE).is_allowed());
    }
    let last = FIXED(100, Span::MINUTE);
    assert!(take(start(), &last, Cost::ONE).is_allowed());
    let later = Now::at(start().utc + Span::MINUTE);
    take(later, first, Cost::Peek(1)).remaining()
}

/// The bound: Redis keeps the counts of four shapes. A fifth one drops the count that ends first:
/// that shape then allows its N once more.
#[test]
fn a_fifth_shape_drops_the_count_that_ends_first() {
    let log = |window| Limit::sliding_log(10, window).expect("a window");
    let left = |window| [1, 2, 3, 4].map(|others| ask_first_again(&log(window), others));
    assert_eq!(left(Span::HOUR), [0, 0, 0, 10]);
    assert_eq!(left(Span::DAY.times(30)), [0; 4]);
}

/// Four versions have counted. A fifth one that denies or only asks drops none of these counts, and
/// one that charges drops that of a second.
#[test]
fn a_fifth_shape_keeps_the_count_of_the_longest_window() {
    let bucket = Limit::token_bucket(10, Span::MINUTE).expect("a minute is a window");
    for (cost, remaining) in [
        (None, 97),
        (Some(Cost::Peek(1)), 97),
        (Some(Cost::Take(100)), 97),
        (Some(Cost::Take(2)), 95),
    ] {
        let mut instance = instance();
        let key = instance.key("only");
        let mut ask = |now, limit: &Limit, cost| {
            let decided = instance.decide(now, &[Charge::new(key, limit, cost)]);
            decided.decisions[0]
        };
        let day = FIXED(1_000, Span::DAY);
        let windows = [Span::SECOND, Span::MINUTE, Span::HOUR].map(|window| FIXED(1_000, window));
        let now = Now::at(start().utc + Span::HOUR + Span::HOUR);
        for (now, of_day) in [(start(), 897), (now, 0)] {
            for window in &windows {
                assert!(ask(now, window, Cost::ONE).is_allowed());
            }
            assert!(ask(now, &day, Cost::Take(of_day)).is_allowed());
        }
        if let Some(cost) = cost {
            let _decided = ask(now, &bucket, cost);
        }
        let left = ask(now, &day, Cost::Peek(1)).remaining();
        assert_eq!(left, remaining, "{cost:?}");
    }
}

/// Four versions have counted, and a fifth one that they exhaust denies: its units count as used
/// from then on, so that it allows when it has said.
#[test]
fn a_fifth_shape_is_allowed_at_its_retry_time() {
    let mut instance = instance();
    let key = instance.key("only");
    let mut ask = |now, limit: &Limit, cost| instance.decide(now, &[Charge::new(key, limit, cost)]);
    let days = [5, 6, 7, 8].map(|days| FIXED(1_000, Span::DAY.times(days)));
    for limit in &days {
        assert!(ask(start(), limit, Cost::Take(30)).is_allowed());
    }
    let minute = FIXED(10, Span::MINUTE);
    let mut now = start();
    for _ in 0..3 {
        let denial = ask(now, &minute, Cost::ONE).denial.expect("120 are used");
        let Wait::For(wait) = denial.wait else {
            panic!("it allows nothing any more")
        };
        now = Now::at(now.utc + wait);
        for _ in 0..10 {
            assert!(ask(now, &minute, Cost::ONE).is_allowed(), "{wait}");
        }
        // Another one of the four is dropped by this charge, and counts again.
        assert!(ask(now, &days[0], Cost::Take(60)).is_allowed());
    }
}

/// Any three or four versions of a rule, windows and logs: whatever one of them allows fits its
/// limit, of all units that were allowed until then.
#[test]
fn several_versions_of_a_rule_each_count_what_the_others_allow() {
    check("several_versions_of_a_rule", 60, |random| {
        let rules: Vec<Rule> = (0..random.between(3, 4))
            .map(|_| any_rule(random))
            .collect();
        let mut instances: Vec<_> = rules.iter().map(|_| instance()).collect();
        let key = instances[0].key("only");
        let mut ledgers: Vec<Ledger> = rules.iter().map(|_| Ledger::default()).collect();
        let mut now = start();
        for step in 0..100 {
            let which = random.pick(&[0, 1, 2, 3]) % rules.len();
            let cost = Cost::Take(random.pick(&[1, 1, 1, 2, 3, 7, 20]));
            let charge = rules[which].charge(key, cost);
            if instances[which].decide(now, &[charge]).is_allowed() {
                for (index, (ledger, rule)) in ledgers.iter_mut().zip(&rules).enumerate() {
                    let forced = Charge {
                        on_denial: OnDenial::Charge,
                        ..rule.charge(key, cost)
                    };
                    let strict = ledger.decide(now, &[forced]).expect("one charge");
                    let fits = strict.is_allowed() || index != which;
                    assert!(fits, "step {step}: {charge:?} of {rules:#?}");
                }
            }
            now = Now::at(now.utc + GRAIN.times(random.pick(&[0, 0, 1_000, 1_000_000, 9_000_000])));
        }
    });
}

/// Longer than the trace: no state of any version expires.
fn any_rule(random: &mut Random) -> Rule {
    let window = random.pick(&[Span::HOUR, Span::from_secs(7_200), Span::DAY]);
    let count = random.pick(&[5, 20, 30, 60, 120]);
    loop {
        let limit = limit(random.pick(&algorithms()), count, window);
        if !limit.is_bucket() {
            return Rule::new(limit);
        }
    }
}
