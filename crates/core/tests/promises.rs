//! Promises of docs/semantics.md that need access to the state or a faulty clock, and so are tested
//! on the pure functions.

#![allow(clippy::unwrap_used)]

use tollgate_behaviour::{Naive, Plain, Random, Rule, Subject, Taste, algorithms, check};
use tollgate_core::{
    Account, Algorithm, Anchor, Bill, Bucket, Charge, Cost, Decision, Enforcement, FixedWindow,
    Key, LIMIT_HISTORY_MAX, Ledger, Limit, LimitHistory, LogEntry, Moment, Now, OnDenial,
    Resolution, SlidingWindow, Span, StoreError, Usage, Verdict, Wait, step,
};

const KEY: Key = Key::from_bits(1);

/// A key with a short history that ends at the moment returned.
fn lived(taste: Taste, limit: &Limit, random: &mut Random) -> (Account, Moment) {
    let mut account = Account::fresh(limit);
    let mut now = taste.start.on(limit.timeline());
    for _ in 0..random.between(1, 12) {
        now = now + taste.grain.times(random.between(0, 4));
        let on_denial = random.pick(&[OnDenial::Keep, OnDenial::Charge]);
        let _ = step(
            &mut account,
            limit,
            now,
            taste.cost(limit, random),
            on_denial,
        );
    }
    (account, now)
}

/// The longest that a key of this limit can be remembered.
fn memory(limit: &Limit) -> Span {
    let window = limit.window();
    match (limit.algorithm(), limit.interval()) {
        (Algorithm::TokenBucket | Algorithm::LeakyBucket, interval) => interval
            .map_or(Span::ZERO, |interval| {
                interval.times(limit.capacity().into())
            }),
        (Algorithm::SlidingWindow(segments), _) => {
            window + Span::from_nanos(window.as_nanos() / u64::from(segments.get()))
        }
        _ => window,
    }
}

#[test]
fn from_its_expiry_on_a_key_equals_one_never_seen() {
    for taste in [Taste::SMALL, Taste::EXTREME] {
        check(
            "from_its_expiry_on_a_key_equals_one_never_seen",
            2_000,
            |random| {
                let limit = taste.limit(random);
                let (mut account, last) = lived(taste, &limit, random);
                let mut now = account.expires_at(&limit).max(last);
                assert!(
                    now.since(last) <= memory(&limit),
                    "{limit:?} forgets too late"
                );
                let mut fresh = Account::fresh(&limit);
                for _ in 0..6 {
                    let cost = taste.cost(&limit, random);
                    let answers = [&mut account, &mut fresh]
                        .map(|one| step(one, &limit, now, cost, OnDenial::Charge));
                    assert_eq!(answers[0], answers[1], "{cost:?} of {limit:?} at {now:?}");
                    now = now + taste.grain.times(random.between(0, 4));
                }
            },
        );
    }
}

#[test]
fn time_that_goes_back_wins_nothing_and_locks_no_longer_than_the_memory() {
    for taste in [Taste::SMALL, Taste::EXTREME] {
        check("time_that_goes_back", 2_000, |random| {
            let limit = taste.limit(random);
            let (mut account, last) = lived(taste, &limit, random);
            let remaining = account.remaining(&limit, last);
            let back = Span::from_nanos(random.any_size(u64::MAX));
            let back = random.pick(&[back, taste.grain, limit.window(), memory(&limit)]);
            let now = last - back;
            account.settle(&limit, now);
            assert!(!account.is_ahead(&limit, now), "{limit:?} is not corrected");
            assert!(
                account.remaining(&limit, now) <= remaining,
                "{limit:?} wins by {back}"
            );
            let wait = account.wait(&limit, now, limit.available());
            assert!(
                wait <= memory(&limit),
                "{limit:?} locks for {wait} after {back} back"
            );
            // However far the clock went back, the key expires and then answers like a fresh one.
            let later = account.expires_at(&limit).max(now);
            assert!(later.since(now) <= memory(&limit));
            account.settle(&limit, later);
            assert_eq!(account.remaining(&limit, later), limit.available());
        });
    }
}

#[test]
fn a_state_from_far_ahead_is_seen_to_be_ahead() {
    check(
        "a_state_from_far_ahead_is_seen_to_be_ahead",
        500,
        |random| {
            let limit = Taste::SMALL.limit(random);
            let (account, last) = lived(Taste::SMALL, &limit, random);
            assert!(!account.is_ahead(&limit, last));
            let long_ago = last - (memory(&limit) + Span::HOUR);
            // A bucket or window that holds nothing has no date.
            if account.expires_at(&limit) > last {
                assert!(account.is_ahead(&limit, long_ago), "{limit:?}");
            }
        },
    );
}

#[test]
fn no_moment_no_cost_and_no_limit_panics() {
    check("no_moment_no_cost_and_no_limit_panics", 3_000, |random| {
        let mut ledger = Ledger::default();
        let mut rules = [Taste::EXTREME, Taste::SMALL].map(|taste| taste.rule(random));
        for _ in 0..30 {
            let now = Now {
                monotonic: any_moment(random),
                utc: any_moment(random),
            };
            let charges = [0, 1].map(|at: usize| {
                let cost = Taste::EXTREME.cost(&rules[at].limit, random);
                let value = random.pick(&[0, 2]) + u128::try_from(at).unwrap();
                rules[at].charge(Key::from_bits(value), cost)
            });
            let verdict = ledger.decide(now, &charges).unwrap();
            assert_eq!(verdict.decisions.len(), 2);
            let at: usize = random.pick(&[0, 1]);
            if random.chance(20) {
                let changed = Taste::EXTREME.changed_limit(&rules[at].limit, random);
                rules[at].change(changed);
            }
        }
    });
}

fn any_moment(random: &mut Random) -> Moment {
    let drawn = random.any_size(u64::MAX);
    Moment::from_nanos(random.pick(&[0, 1, u64::MAX - 1, u64::MAX, drawn, !drawn]))
}

#[test]
fn one_step_says_what_a_request_with_one_charge_says() {
    for taste in [Taste::SMALL, Taste::EXTREME] {
        check("one_step_says_what_a_request_says", 700, |random| {
            let rule = taste.rule(random);
            let (mut account, mut ledger) = (<Account>::fresh(&rule.limit), Ledger::default());
            let mut now = taste.start;
            for _ in 0..40 {
                now.monotonic = now.monotonic + taste.grain.times(random.between(0, 5));
                now.utc = now.monotonic + Span::HOUR;
                let charge = rule.charge(KEY, taste.cost(&rule.limit, random));
                let (limit, on_denial) = (charge.limit, charge.on_own_denial());
                let moment = now.on(limit.timeline());
                let one = step(&mut account, limit, moment, charge.cost, on_denial);
                let all = ledger.decide(now, &[charge]).unwrap();
                assert_eq!(all, Verdict::of_one(&charge, one), "{charge:?}");
            }
        });
    }
}

#[test]
fn a_bill_has_the_decision_of_each_line() {
    let [all, one] = [9, 1].map(|count| Limit::sliding_log(count, Span::HOUR).unwrap());
    let keys = [1, 2, 1].map(Key::from_bits);
    let charge = |at: usize, limit| Charge::new(keys[at], limit, Cost::Take(2));
    let bill = Bill::new(&[charge(0, &all), charge(1, &one), charge(2, &all)]).unwrap();
    let mut accounts: Vec<Account> = vec![Account::fresh(&all), Account::fresh(&one)];
    let verdict = bill.settle(&mut accounts, Now::default());
    let allowed: Vec<bool> = bill.decisions(&verdict).map(Decision::is_allowed).collect();
    assert_eq!(allowed, [true, false]);
    assert_eq!(
        verdict.denial.map(|denial| (denial.by, denial.wait)),
        Some((1, Wait::Never))
    );
}

#[test]
fn a_refund_is_not_the_decision_of_its_line() {
    let limit = Limit::sliding_log(1, Span::HOUR).unwrap();
    let charge = |key, cost| Charge::new(Key::from_bits(key), &limit, cost);
    let bill = Bill::new(&[
        charge(1, Cost::Refund(1)),
        charge(2, Cost::Refund(1)),
        charge(1, Cost::Take(2)),
    ]);
    let bill = bill.unwrap();
    let mut accounts: Vec<Account> = vec![Account::fresh(&limit), Account::fresh(&limit)];
    let verdict = bill.settle(&mut accounts, Now::default());
    let allowed: Vec<bool> = bill.decisions(&verdict).map(Decision::is_allowed).collect();
    assert_eq!(allowed, [false, true]);
}

/// Neither their limits nor their enforcement apply, whichever charge comes first.
#[test]
fn a_line_is_judged_by_none_of_its_refunds() {
    let [small, large] = [3, 7].map(|count| Limit::sliding_log(count, Span::HOUR).unwrap());
    let charge = |limit, enforcement, cost| Charge {
        enforcement,
        ..Charge::new(KEY, limit, cost)
    };
    let refund = charge(&small, Enforcement::Enforce, Cost::Refund(1));
    let take = charge(&large, Enforcement::Shadow, Cost::Take(1));
    for charges in [
        vec![refund, take],
        vec![take, refund],
        vec![refund, refund, take, refund],
    ] {
        let bill = Bill::new(&charges).unwrap();
        let [line] = bill.lines() else {
            panic!("one key")
        };
        assert_eq!(*line.charge.limit, large);
        assert_eq!(line.charge.enforcement, Enforcement::Shadow);
        assert_eq!(line.units_judged(), Some(1));
    }
}

/// A leaky bucket as a plain list: the moment at which each unit's turn is over.
#[test]
fn a_queue_is_a_list_of_turns() {
    check("a_queue_is_a_list_of_turns", 1_000, |random| {
        let limit = Limit::leaky_bucket(random.small(1, 9), Span::from_nanos(1_001)).unwrap();
        let limit = limit.with_burst(random.small(1, 12)).unwrap();
        let turn = limit.interval().unwrap();
        let (mut bucket, mut ends, mut now) = (Bucket::default(), Vec::new(), Moment::ZERO);
        for _ in 0..50 {
            now = now + Span::from_nanos(random.pick(&[0, 0, 1, 50, turn.as_nanos(), 700]));
            ends.retain(|end| *end > now);
            let units = random.small(1, 4);
            let fits = ends.len() + usize::try_from(units).unwrap()
                <= usize::try_from(limit.capacity()).unwrap();
            let first = ends.last().copied().unwrap_or(now);
            match step(&mut bucket, &limit, now, units.into(), OnDenial::Keep) {
                Decision::Allow(grant) => {
                    assert!(fits);
                    assert_eq!(grant.delay, first.since(now));
                    (1..=u64::from(units)).for_each(|n| ends.push(first + turn.times(n)));
                }
                Decision::Deny(_) => assert!(!fits),
            }
        }
    });
}

#[test]
fn the_word_of_a_window_reads_back_and_passes_once_it_spells_nothing() {
    check("the_word_of_a_window_reads_back", 3_000, |random| {
        let taste = random.pick(&[Taste::SMALL, Taste::EXTREME]);
        let limit = taste.limit(random);
        let aligned = limit.algorithm() == Algorithm::FixedWindow(Anchor::Clock);
        let fits = aligned && u64::from(limit.capacity()) < limit.window().as_nanos();
        assert_eq!(FixedWindow::fits_word(&limit), fits);
        if !fits {
            return;
        }
        let mut now = taste.start.utc;
        let mut window = FixedWindow::default();
        for _ in 0..8 {
            let _ = step(
                &mut window,
                &limit,
                now,
                taste.cost(&limit, random),
                OnDenial::Keep,
            );
            let mut read = FixedWindow::from_word(&limit, window.word());
            if window.used() == 0 {
                assert_eq!((window.word(), read), (0, FixedWindow::default()));
            } else {
                assert_eq!(read, window);
            }
            // The promise: from the moment that the word spells, nothing is remembered.
            let spelled = Moment::from_nanos(window.word()).max(now);
            read.settle(&limit, spelled);
            assert!(window.used() == 0 || read.used() == 0 || spelled == now);
            assert!(window.expires_at(&limit) <= Moment::from_nanos(window.word()));
            assert_eq!(read.remaining(&limit, spelled), limit.available());
            now = now + taste.grain.times(random.between(0, 5));
        }
    });
}

#[test]
fn every_algorithm_is_parsed_from_its_own_text() {
    for algorithm in algorithms() {
        let limit = Limit::new(algorithm, 60, Span::MINUTE).unwrap();
        assert_eq!(limit.to_string().parse(), Ok(limit));
    }
}

#[test]
fn every_rounding_goes_against_the_caller() {
    // 3 a second: a token takes 333 333 334 ns, so the third comes 2 ns after the second is over.
    let limit = Limit::token_bucket(3, Span::SECOND).unwrap();
    let mut bucket = Bucket::default();
    let mut ask = |nanos, cost| {
        step(
            &mut bucket,
            &limit,
            Moment::from_nanos(nanos),
            cost,
            OnDenial::Keep,
        )
    };
    assert_eq!(ask(0, Cost::Take(3)).remaining(), 0);
    assert_eq!(
        ask(333_333_333, Cost::ONE).wait(),
        Some(Wait::For(Span::NANOSECOND))
    );
    assert_eq!(ask(1_000_000_001, Cost::Peek(1)).remaining(), 2);
    assert_eq!(ask(1_000_000_002, Cost::Peek(1)).remaining(), 3);
    assert_eq!(Span::from_nanos(1).as_secs_ceil(), 1);
    assert_eq!(Span::from_secs(2).as_secs_ceil(), 2);
    assert_eq!(Span::ZERO.as_secs_ceil(), 0);
}

#[test]
fn a_refund_in_a_denied_request_is_part_of_the_wait() {
    let limit = Limit::sliding_log(4, Span::MINUTE).unwrap();
    let (mut ledger, at) = (Ledger::default(), |secs| {
        Now::at(Moment::ZERO + Span::from_secs(secs))
    });
    let ask = |cost| Charge::new(KEY, &limit, cost);
    for secs in [0, 10, 20] {
        let one = ledger.decide(at(secs), &[ask(Cost::ONE)]).unwrap();
        assert!(one.is_allowed());
    }
    let both = [ask(Cost::Take(4)), ask(Cost::Refund(1))];
    let denied = ledger.decide(at(30), &both).unwrap();
    // The unit of 20 s was refunded, so the one of 10 s is the last to leave.
    assert_eq!(denied.denial.unwrap().wait, Wait::For(Span::from_secs(40)));
    assert_eq!(denied.decisions[0].remaining(), 2);
}

#[test]
fn of_equal_waits_the_first_charge_is_named() {
    let limit = Limit::sliding_log(0, Span::MINUTE).unwrap();
    let charge = |bits, enforcement| Charge {
        enforcement,
        ..Charge::new(Key::from_bits(bits), &limit, Cost::ONE)
    };
    let charges = [
        charge(1, Enforcement::Quota),
        charge(2, Enforcement::Enforce),
    ];
    let verdict = Ledger::default().decide(Now::default(), &charges).unwrap();
    assert_eq!(verdict.denial.unwrap().by, 0);
}

#[test]
fn raising_a_sliding_window_loses_nothing_that_still_weighs() {
    let mut rule = Rule::new(Limit::sliding_window(10, Span::MINUTE, 1).unwrap());
    let mut plain = Plain::default();
    let key = plain.key("only");
    let mut ask = |rule: &Rule, secs, cost| {
        let now = Now::at(Moment::ZERO + Span::from_secs(secs));
        plain.decide(now, &[rule.charge(key, cost)]).decisions[0].remaining()
    };
    assert_eq!(ask(&rule, 30, Cost::Take(10)), 0);
    assert_eq!(ask(&rule, 90, Cost::Take(5)), 0);
    rule.change(Limit::sliding_window(12, Span::MINUTE, 1).unwrap());
    assert_eq!(ask(&rule, 90, Cost::Peek(1)), 2);
}

#[test]
fn a_state_is_converted_over_as_many_changes_as_are_remembered() {
    let limit_of = |count: usize| {
        let count = u32::try_from(count).unwrap();
        Limit::sliding_log(count, Span::HOUR).unwrap()
    };
    for changes in [1, 2, LIMIT_HISTORY_MAX - 1, LIMIT_HISTORY_MAX] {
        let mut rule = Rule::new(limit_of(10));
        let mut ledger = Ledger::default();
        let first = ledger.decide(Now::default(), &[rule.charge(KEY, Cost::Take(7))]);
        assert!(first.unwrap().is_allowed());
        // Far too small in between: an idle key never meets those limits.
        (1..changes).for_each(|n| rule.change(limit_of(n % 2)));
        rule.change(Limit::token_bucket(20, Span::HOUR).unwrap());
        let peek = ledger.decide(Now::default(), &[rule.charge(KEY, Cost::Peek(1))]);
        assert_eq!(
            peek.unwrap().decisions[0].remaining(),
            13,
            "{changes} changes"
        );
    }
}

#[test]
fn a_past_remembers_so_many_limits_and_no_more() {
    let limit_of = |count| Limit::sliding_log(count, Span::HOUR).unwrap();
    let mut history = LimitHistory::default();
    for count in 0..300 {
        history = history.and(limit_of(count));
    }
    assert_eq!(history.revision(), u8::try_from(300 % 256).unwrap());
    assert_eq!(history.limit_at(history.revision()), None);
    assert_eq!(
        history.limit_at(history.revision().wrapping_sub(1)),
        Some(&limit_of(299))
    );
    // Older limits are not remembered, and no answer depends on them.
    let recent = (173..300).fold(LimitHistory::default(), |history, count| {
        history.and(limit_of(count))
    });
    let older = (0..173).fold(LimitHistory::default(), |history, _| {
        history.and(limit_of(7))
    });
    let same = (173..300).fold(older, |history, count| history.and(limit_of(count)));
    assert_eq!(history, same);
    assert_ne!(history, recent, "the revision tells how often it changed");
    // The oldest that is remembered, and what a revision says beyond it.
    let back = |changes: u8| history.revision().wrapping_sub(changes);
    assert_eq!(history.limit_at(back(127)), Some(&limit_of(173)));
    assert!(history.has(back(127)) && history.has(back(0)));
    assert_eq!(history.limit_at(back(128)), None);
    assert!(!history.has(back(128)) && !history.has(history.revision().wrapping_add(1)));
}

#[test]
fn a_decision_under_older_rules_converts_nothing_backwards() {
    let mut rule = Rule::new(Limit::fixed_window(10, Span::HOUR).unwrap());
    let former = rule.clone();
    let mut ledger = Ledger::default();
    let mut ask = |rule: &Rule, resolution| {
        let charge = Charge {
            resolution,
            ..rule.charge(KEY, Cost::Take(6))
        };
        ledger.decide(Now::default(), &[charge])
    };
    assert!(ask(&former, Resolution::First).unwrap().is_allowed());
    rule.change(Limit::sliding_window(10, Span::HOUR, 2).unwrap());
    assert!(!ask(&rule, Resolution::First).unwrap().is_allowed());
    let superseded = ask(&former, Resolution::First);
    assert!(
        matches!(superseded, Err(StoreError::Superseded)),
        "{superseded:?}"
    );
    // Nothing was charged, and nothing was lost.
    assert!(!ask(&rule, Resolution::First).unwrap().is_allowed());
    // A caller that knows that there is no later rule gets an answer.
    assert!(ask(&former, Resolution::Latest).is_ok());
}

/// What two buckets that follow each other leave at `seconds`, and the wait there: the first was
/// emptied at 0, when the second was first asked.
fn after_a_change(from: Limit, to: Limit, seconds: u64) -> (u32, Option<Span>) {
    let mut ledger = Ledger::default();
    let mut rule = Rule::new(from);
    let mut ask = |rule: &Rule, seconds, cost| {
        let now = Now::at(Moment::ZERO + Span::from_secs(seconds));
        ledger.decide(now, &[rule.charge(KEY, cost)]).unwrap()
    };
    let all = Cost::Take(u64::from(from.capacity()));
    assert!(ask(&rule, 0, all).is_allowed());
    rule.change(to);
    assert!(!ask(&rule, 0, Cost::ONE).is_allowed());
    let verdict = ask(&rule, seconds, Cost::Peek(1));
    let wait = match verdict.denial.map(|denial| denial.wait) {
        Some(Wait::For(wait)) => Some(wait),
        _ => None,
    };
    (verdict.decisions[0].remaining(), wait)
}

#[test]
fn a_smaller_bucket_of_another_window_has_no_debt_beyond_its_capacity() {
    let bucket = |count, window| Limit::token_bucket(count, window).unwrap();
    let slower = [bucket(10, Span::MINUTE), bucket(5, Span::HOUR)];
    let wait = Span::from_secs(720 - 60);
    assert_eq!(after_a_change(slower[0], slower[1], 60), (0, Some(wait)));
    let faster = [bucket(100, Span::HOUR), bucket(10, Span::MINUTE)];
    assert_eq!(after_a_change(faster[0], faster[1], 6), (1, None));
}

/// The units beyond the capacity come back first, as they would have.
#[test]
fn a_smaller_bucket_of_the_same_window_keeps_all_that_was_consumed() {
    let [large, small] = [100, 10].map(|n| Limit::token_bucket(n, Span::MINUTE).unwrap());
    let wait = Span::from_millis(600);
    assert_eq!(after_a_change(large, small, 54), (0, Some(wait)));
    assert_eq!(after_a_change(large, small, 60), (10, None));
}

/// Row 5 of the worked examples, in the very state that the literature gives.
#[test]
fn nine_before_and_five_now_leave_no_room_of_ten() {
    let limit = Limit::sliding_window(10, Span::MINUTE, 1).unwrap();
    let now = Moment::ZERO + Span::from_secs(75);
    let mut usage: SlidingWindow = SlidingWindow::new(1, &[5, 9]);
    let decision = step(&mut usage, &limit, now, Cost::ONE, OnDenial::Keep);
    assert!(!decision.is_allowed());
    assert_eq!(decision.remaining(), 0);
    // 5 + 1 + floor(9 x rest) <= 10 once the rest is below 5/9 of the minute.
    let nanos = 60_000_000_000_u64 * 4 / 9 + 1 - 15_000_000_000;
    assert_eq!(decision.wait(), Some(Wait::For(Span::from_nanos(nanos))));
    assert_eq!(usage.counters(&limit), [5, 9]);
}

#[test]
fn a_log_notes_one_entry_a_moment() {
    let limit = Limit::sliding_log(9, Span::SECOND).unwrap();
    let mut account: Account = Account::fresh(&limit);
    for _ in 0..3 {
        let _ = step(
            &mut account,
            &limit,
            Moment::ZERO,
            Cost::Take(2),
            OnDenial::Keep,
        );
    }
    let Account::SlidingLog(log) = account else {
        panic!("a log's account is a log");
    };
    use tollgate_core::Entries;
    let entry = LogEntry {
        at: Moment::ZERO,
        units: 6,
    };
    assert_eq!(log.entries.iter().collect::<Vec<_>>(), [entry]);
}

#[test]
fn the_model_itself_knows_the_first_and_the_last_nanosecond() {
    let limit = Limit::sliding_log(1, Span::from_nanos(10)).unwrap();
    let (mut naive, at) = (Naive::new(&limit), |nanos| {
        Now::at(Moment::from_nanos(nanos))
    });
    naive.take(at(100), 1);
    assert_eq!(naive.wait(at(101), 1), Some(Wait::For(Span::from_nanos(9))));
    assert!(!naive.fits(at(109), 1) && naive.fits(at(110), 1));
}

#[test]
fn a_span_is_written_in_the_units_of_a_rules_file() {
    let shown = |span: Span| span.to_string();
    assert_eq!(shown(Span::ZERO), "0s");
    assert_eq!(shown(Span::from_secs(5_400)), "1h30m");
    assert_eq!(shown(Span::from_millis(500)), "500ms");
    assert_eq!(shown(Span::from_nanos(1_001_001_001)), "1s1ms1us1ns");
    assert_eq!(shown(Span::DAY.times(366) + Span::SECOND), "366d1s");
    assert_eq!(
        shown(Span::from_nanos(u64::MAX)),
        "213503d23h34m33s709ms551us615ns"
    );
}

/// Two versions of a rule, or requests with different limits, meet on one key in any order.
#[test]
fn limits_that_disagree_never_allow_more_than_the_largest() {
    let names = [
        "fixed", "first", "log", "sliding", "segments", "token", "leaky",
    ];
    for (algorithm, name) in algorithms().into_iter().zip(names) {
        check(name, 60, |random| {
            let window = Span::from_millis(600);
            let mut limits = [0; 3].map(|_| {
                let count = u32::try_from(random.between(1, 60)).unwrap();
                let limit = Limit::new(algorithm, count, window).unwrap();
                match limit.is_bucket() && random.chance(50) {
                    // The same rate, and less or more at once.
                    true => Limit::new(algorithm, 60, window).unwrap(),
                    false => limit,
                }
                .with_soft(random.pick(&[0, 0, 50]))
                .unwrap()
            });
            if limits[0].is_bucket() {
                limits = limits.map(|limit| {
                    limit
                        .with_burst(u32::try_from(random.between(1, 90)).unwrap())
                        .unwrap()
                });
            }
            let mut ledger = Ledger::default();
            let mut largest = Ledger::default();
            let bound = largest_of(&limits);
            let mut now = Taste::MICROSECONDS.start;
            for step in 0..200 {
                let limit = random.pick(&limits);
                let charge = Charge::new(KEY, &limit, Taste::SMALL.cost(&limit, random));
                if charge.cost.is_refund() {
                    continue;
                }
                let decide = |ledger: &mut Ledger, charge| ledger.decide(now, &[charge]).unwrap();
                let got = decide(&mut ledger, charge);
                if got.is_allowed() {
                    let alone = decide(
                        &mut largest,
                        Charge {
                            limit: &bound,
                            ..charge
                        },
                    );
                    assert!(alone.is_allowed(), "step {step}: {charge:?} of {limits:?}");
                }
                now.monotonic =
                    now.monotonic + Span::from_millis(random.pick(&[0, 0, 0, 1, 10, 100]));
                now.utc = now.monotonic;
            }
        });
    }
}

/// The limit that allows whatever any of these does.
fn largest_of(limits: &[Limit]) -> Limit {
    let by = |of: fn(&Limit) -> u32| limits.iter().map(of).max().unwrap();
    let limit = Limit::new(limits[0].algorithm(), by(Limit::count), limits[0].window()).unwrap();
    match limit.is_bucket() {
        true => limit.with_burst(by(Limit::capacity)).unwrap(),
        false => Limit::new(limit.algorithm(), by(Limit::capacity), limit.window()).unwrap(),
    }
}
