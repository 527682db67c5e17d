//! Limits that change, and limits that disagree about one key: two versions of a rule on two
//! instances, and requests with different limits.

use tollgate_behaviour::{Random, Rule, Subject, Taste, algorithms, check, with_grain};
use tollgate_core::{
    Algorithm, Charge, Cost, Key, Ledger, Limit, Mode, Now, OnDenial, Sharing, Span, Verdict,
};

use super::{Driven, SINGLE};
use crate::config::{Config, SYNC_INTERVAL_MAX};
use crate::fit::{FittedLimit, GRAIN};
use crate::names::reservation_name;
use crate::script_reply::Status;
use crate::script_request::Step;

/// A way to charge units of the smaller limit that were not judged together with those of the
/// larger.
type Unjudged = fn(&mut Driven, Now, [Charge<'_>; 2]);

pub(super) fn limit(algorithm: Algorithm, count: u32, window: Span) -> Limit {
    Limit::new(algorithm, count, window).expect("valid for every algorithm")
}

pub(super) fn instance() -> Driven {
    Driven::new(&Config::single(SINGLE.address()))
}

/// The state that Redis stores for a key.
fn stored_state(instance: &Driven, key: Key) -> String {
    let hex = "local s = redis.call('GET', KEYS[1]) \
        return s and (s:gsub('.', function(c) return string.format('%02x', c:byte()) end)) or ''";
    SINGLE.ask(&["EVAL", hex, "1", &instance.store.name_of(key)])
}

/// An old instance allows 100 a day and a new one 10, or requests have either limit.
#[test]
fn a_smaller_limit_never_erases_what_a_larger_one_counted() {
    for algorithm in algorithms() {
        let (mut old, mut new) = (instance(), instance());
        let key = old.key("only");
        let now = Taste::MICROSECONDS.start;
        let [large, small] = [100, 10].map(|count| limit(algorithm, count, Span::DAY));
        let ask = |instance: &mut Driven, limit, cost| -> Verdict {
            instance.decide(now, &[Charge::new(key, limit, cost)])
        };
        let mut allowed = 0;
        for _ in 0..60 {
            let units = 1 + u64::from(allowed % 3);
            if ask(&mut old, &large, Cost::Take(units)).is_allowed() {
                allowed += u32::try_from(units).expect("at most three");
            }
            let before = stored_state(&old, key);
            if ask(&mut new, &small, Cost::ONE).is_allowed() {
                allowed += 1;
            } else {
                assert_eq!(
                    stored_state(&old, key),
                    before,
                    "a denial stored: {large:?}"
                );
            }
            let before = stored_state(&old, key);
            let _replied = ask(&mut new, &small, Cost::Peek(1));
            assert_eq!(stored_state(&old, key), before, "a peek stored: {large:?}");
        }
        assert!((98..=100).contains(&allowed), "{allowed}: {large:?}");
    }
}

/// Three versions of a rule: a bucket that is smaller than the count of a window does not hide
/// it from a larger bucket.
#[test]
fn a_smaller_bucket_hides_no_units_of_another_algorithm() {
    let window = Limit::fixed_window(12, Span::DAY).expect("valid");
    let small = Limit::token_bucket(1, Span::HOUR).expect("valid");
    let faster = Limit::token_bucket(18, Span::HOUR).expect("valid");
    let burst = small.with_burst(18).expect("valid");
    for large in [faster, burst] {
        let mut instance = instance();
        let key = instance.key("only");
        let now = Taste::MICROSECONDS.start;
        let mut ask = |limit, cost| {
            let charge = Charge::new(key, limit, cost);
            instance.decide(now, &[charge]).is_allowed()
        };
        assert!(ask(&small, Cost::ONE));
        assert!(ask(&window, Cost::Take(11)));
        assert!(!ask(&window, Cost::ONE));
        // The small bucket is stored in its own terms.
        assert!(ask(&small, Cost::Refund(1)));
        assert!(ask(&small, Cost::ONE));
        let allowed = (0..20).filter(|_| ask(&large, Cost::ONE)).count();
        assert_eq!(allowed, 18 - 12);
    }
}

/// The wait of the smaller limit's denial is exact, although the larger one has counted far more.
#[test]
fn a_smaller_limit_waits_for_what_a_larger_one_counted() {
    for algorithm in algorithms() {
        let mut instance = instance();
        let key = instance.key("only");
        let now = Now::at(Taste::MICROSECONDS.start.utc);
        let [large, small] = [1_000, 10].map(|count| limit(algorithm, count, Span::DAY));
        let taken = Charge::new(key, &large, Cost::Take(700));
        assert!(instance.decide(now, &[taken]).is_allowed());
        let charge = Charge::new(key, &small, Cost::Take(2));
        let denied = instance.decide(now, &[charge]).decisions[0];
        let wait = Span::from(denied.retry_after().expect("it fits one day"));
        assert!(wait <= Span::DAY + Span::DAY);
        let early = Now::at(now.utc + wait.minus(GRAIN));
        assert!(!instance.decide(early, &[charge]).is_allowed(), "{small:?}");
        let then = Now::at(now.utc + wait);
        assert!(instance.decide(then, &[charge]).is_allowed(), "{small:?}");
    }
}

/// The larger limit has counted 29 units, at two minutes each, and the smaller one then charges one
/// that it has not judged together with them. At its own twenty minutes each, they would lock the
/// key for ten hours, where neither limit's memory is longer than one.
#[test]
fn units_that_a_smaller_limit_did_not_judge_keep_their_time() {
    // Leaky buckets have no local counts.
    let cases: [(Algorithm, Unjudged); 3] = [
        (Algorithm::TokenBucket, confirm_beside),
        (Algorithm::LeakyBucket, confirm_beside),
        (Algorithm::TokenBucket, report_beside),
    ];
    for (algorithm, charge_unjudged) in cases {
        let [large, small] = [29, 3].map(|count| limit(algorithm, count, Span::HOUR));
        let mut instance = instance();
        let key = instance.key("only");
        let now = Taste::MICROSECONDS.start;
        charge_unjudged(
            &mut instance,
            now,
            [&large, &small].map(|limit| Charge::new(key, limit, Cost::ONE)),
        );
        let mut peek = |limit| {
            let peek = Charge::new(key, limit, Cost::Peek(1));
            instance.decide(now, &[peek]).decisions[0]
        };
        assert_eq!(peek(&large).remaining(), 0, "{large:?}");
        for limit in [&large, &small] {
            let wait = Span::from(peek(limit).retry_after().expect("it fits later"));
            let most = Span::HOUR + Span::from_secs(300);
            assert!(wait <= most, "{wait:?} of {limit:?}");
        }
    }
}

/// A larger limit of any kind has granted 20 units, which are charged to a bucket of two a day. All
/// of them count, but the key is not locked for the ten days that they would take there.
#[test]
fn a_bucket_is_not_locked_for_longer_than_it_remembers() {
    for (algorithm, small) in algorithms()
        .into_iter()
        .flat_map(|one| [Algorithm::TokenBucket, Algorithm::LeakyBucket].map(|small| (one, small)))
    {
        let (large, small) = (limit(algorithm, 28, Span::HOUR), limit(small, 2, Span::DAY));
        let mut instance = instance();
        let key = instance.key("only");
        let now = Taste::MICROSECONDS.start;
        let [large, small] = [&large, &small].map(|limit| Charge::new(key, limit, Cost::Take(20)));
        let lasts = 1_000_000;
        let name = reservation_name(lasts);
        let reserved = instance.step(now, Step::Reserve { name, lasts }, large);
        assert_eq!(reserved, Status::Allowed);
        let confirmed = instance.step(now, Step::Confirm { name }, small);
        assert_eq!(confirmed, Status::Allowed);
        let mut peek = |charge: Charge<'_>| {
            let cost = Cost::Peek(1);
            instance.decide(now, &[Charge { cost, ..charge }]).decisions[0]
        };
        let wait = Span::from(peek(small).retry_after().expect("it fits later"));
        assert!(wait <= Span::DAY, "{wait:?} of {small:?} after {large:?}");
        assert_eq!(peek(large).remaining(), 8, "{large:?} after {small:?}");
    }
}

/// Charges a unit of `small` that was reserved before `large` charged all of its own.
fn confirm_beside(instance: &mut Driven, now: Now, [large, small]: [Charge<'_>; 2]) {
    let lasts = 1_000_000;
    let name = reservation_name(lasts);
    let reserved = instance.step(now, Step::Reserve { name, lasts }, small);
    assert_eq!(reserved, Status::Allowed);
    let all = Charge {
        cost: Cost::Take(28),
        ..large
    };
    assert!(instance.decide(now, &[all]).is_allowed());
    let confirmed = instance.step(now, Step::Confirm { name }, small);
    assert_eq!(confirmed, Status::Allowed);
}

/// Reports a unit of `small` that another instance has allowed before it learned of those of
/// `large`.
fn report_beside(instance: &mut Driven, now: Now, [large, small]: [Charge<'_>; 2]) {
    let config = Config {
        sync_interval: SYNC_INTERVAL_MAX,
        ..Config::single(SINGLE.address())
    };
    let mut other = Driven::new(&config);
    let local = small.shared(Sharing::in_mode(Mode::WriteBack));
    // Redis decides the first, and the second is counted here.
    assert!(other.decide(now, &[local]).is_allowed());
    other.report();
    let before = stored_state(instance, large.key);
    assert!(other.decide(now, &[local]).is_allowed());
    assert_eq!(stored_state(instance, large.key), before);
    let all = Charge {
        cost: Cost::Take(28),
        ..large
    };
    assert!(instance.decide(now, &[all]).is_allowed());
    other.report();
    let denied = other.decide(now, &[local]).decisions[0];
    let wait = Span::from(denied.retry_after().expect("it fits later"));
    assert!(wait <= Span::HOUR + Span::from_secs(300), "{wait:?}");
}

/// Two instances with limits of the same algorithm and window, in any order, strict or leased.
#[test]
fn limits_that_disagree_never_allow_more_than_the_largest() {
    check("limits_that_disagree", 60, |random| {
        let (algorithm, window) = (random.pick(&algorithms()), Span::from_millis(600));
        let bursts = random.chance(50);
        let limits: Vec<Limit> = (0..3)
            .map(|_| {
                let count = |random: &mut Random| random.pick(&[1, 2, 4, 10, 20, 40, 60, 100]);
                let limit = limit(algorithm, count(random), window);
                let limit = limit.with_soft(random.pick(&[0, 0, 50])).expect("soft");
                match limit.is_bucket() && bursts {
                    true => limit.with_burst(count(random)).expect("a small burst"),
                    false => limit,
                }
            })
            .collect();
        let by = |of: fn(&Limit) -> u32| limits.iter().map(of).max().expect("three");
        let bound = match limits[0].is_bucket() {
            true => limit(algorithm, by(Limit::count), window).with_burst(by(Limit::capacity)),
            false => Ok(limit(algorithm, by(Limit::capacity), window)),
        };
        let bound = bound.expect("as large as one of them");
        let mode = random.pick(&[Mode::Strict, Mode::Leased]);
        let mut instances = [instance(), instance()];
        let key = instances[0].key("only");
        let mut largest = Ledger::default();
        let mut now = Taste::MICROSECONDS.start;
        for step in 0..100 {
            let limit = random.pick(&limits);
            let units = random.pick(&[0, 1, 1, 1, 2, 3, 7, 30]);
            let cost = match random.chance(10) {
                true => Cost::Peek(units),
                false => Cost::Take(units),
            };
            let charge = Charge::new(key, &limit, cost);
            let instance = &mut instances[usize::from(random.chance(50))];
            let got = instance.decide(now, &[charge.shared(Sharing::in_mode(mode))]);
            if got.is_allowed() {
                let bounded = Charge {
                    limit: &bound,
                    ..charge
                };
                let strict = largest.decide(now, &[bounded]).expect("one charge");
                assert!(strict.is_allowed(), "step {step}: {charge:?} of {limits:?}");
            }
            let pause = random.pick(&[0, 0, 0, 1_000, 5_000, 10_000, 100_000]);
            now = Now::at(now.utc + GRAIN.times(pause));
        }
    });
}

/// Two versions of a rule that differ in anything: whatever one of them allows fits the units that
/// both have allowed since both are in use.
#[test]
fn two_versions_of_a_rule_each_count_what_the_other_allows() {
    check("two_versions_of_a_rule", 60, |random| {
        // Longer than the trace: no state of any version expires.
        let any = |random: &mut Random| {
            let window = random.pick(&[Span::HOUR, Span::from_secs(7_200), Span::DAY]);
            let count = random.pick(&[20, 30, 60, 120]);
            Rule::new(limit(random.pick(&algorithms()), count, window))
        };
        let rules = [any(random), any(random)];
        if rules[0].limit.is_bucket() && rules[0].limit.algorithm() == rules[1].limit.algorithm() {
            // A bucket refills at one rate at a time: that of the limit that charges.
            return;
        }
        let mut instances = [instance(), instance()];
        let key = instances[0].key("only");
        let mut ledgers = [Ledger::default(), Ledger::default()];
        // Early in every window.
        let start = Taste::MICROSECONDS.start.utc.as_nanos();
        let start = start - start % Span::DAY.as_nanos();
        let mut now = Now::at(tollgate_core::Moment::from_nanos(start + 7_000));
        for step in 0..100 {
            let which = match step {
                0 | 1 => step,
                _ => usize::from(random.chance(50)),
            };
            let units = match step {
                0 | 1 => 1,
                _ => random.pick(&[1, 1, 1, 2, 3, 7]),
            };
            let charge = rules[which].charge(key, Cost::Take(units));
            let got = instances[which].decide(now, &[charge]);
            if got.is_allowed() {
                for (index, (ledger, rule)) in ledgers.iter_mut().zip(&rules).enumerate() {
                    let forced = Charge {
                        on_denial: OnDenial::Charge,
                        ..rule.charge(key, Cost::Take(units))
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

/// Changed limits, except between buckets: the fraction of a unit is kept there to the microsecond,
/// and to the nanosecond in core. And except back to an earlier algorithm or window, whose count
/// Redis still has, as it has the units for which a smaller limit had no room.
#[test]
fn changed_limits_keep_what_core_keeps() {
    let taste = Taste {
        changes: true,
        ..Taste::MICROSECONDS
    };
    check("changed_limits_keep_what_core_keeps", 300, |random| {
        let mut subject = Driven::new(&Config::single(SINGLE.address()));
        let mut ledger = Ledger::default();
        let mut rule = taste.rule(random);
        let mut shapes = vec![shape(&rule.limit)];
        let mut largest = rule.limit.capacity();
        let key = subject.key("only");
        let mut now = taste.start;
        for step in 0..60 {
            if random.chance(15) {
                let limit = taste.changed_limit(&rule.limit, random);
                let is_exact = FittedLimit::new(&limit)
                    .is_ok_and(|fitted| fitted.limit.interval() == limit.interval());
                let new = shape(&limit);
                let is_changed = new != shape(&rule.limit);
                let is_back = is_changed && shapes.contains(&new);
                let may_hide = rule.limit.capacity() < largest;
                let is_larger = is_changed || limit.capacity() > rule.limit.capacity();
                let is_kept = is_exact && !is_back && !(may_hide && is_larger);
                if is_kept && !(limit.is_bucket() && rule.limit.is_bucket()) {
                    rule.change(limit);
                    largest = largest.max(limit.capacity());
                    shapes.push(new);
                }
            }
            now.monotonic = now.monotonic + GRAIN.times(random.between(0, 8));
            now.utc = now.monotonic;
            let charge = rule.charge(key, taste.cost(&rule.limit, random));
            let got = subject.decide(now, &[charge]);
            let want = ledger.decide(now, &[charge]).expect("one charge");
            assert_eq!(got, with_grain(want, GRAIN), "step {step}: {charge:#?}");
        }
    });
}

/// The shape of a limit's state: buckets of one kind have one shape.
fn shape(limit: &Limit) -> (Algorithm, Span) {
    let window = match limit.is_bucket() {
        true => Span::ZERO,
        false => limit.window(),
    };
    (limit.algorithm(), window)
}
