//! Instances that share limits, predicted: what they allow beside a single one, and what it costs.
#![allow(missing_docs, clippy::unwrap_used, clippy::tests_outside_test_module)]

use std::ops::ControlFlow;

use tollgate_core::{Mode, Moment, OnStoreError, Sharing, Span};
use tollgate_replay::{
    Deviation, EVENTS_MAX, Error, Memories, Report, Simulation, Traffic, WorkloadTotals, replay,
};
use tollgate_rules::{Options, RuleSet, Source};
use tollgate_simulation::{Fleet, INSTANCE_EVENTS_MAX, Incident, Load, RedisMemory};

const ALGORITHMS: [&str; 6] = [
    "algorithm: fixed_window",
    "{algorithm: fixed_window, anchor: first_request}",
    "algorithm: sliding_window",
    "algorithm: sliding_log",
    "algorithm: token_bucket",
    "algorithm: leaky_bucket",
];

/// What instances and what a single one did with the same traffic.
struct Both {
    report: Report,
    workloads: Vec<WorkloadTotals>,
    exact_report: Report,
    exact_workloads: Vec<WorkloadTotals>,
    deviation: Deviation,
    load: Load,
}

fn rules(text: &str, mode: Mode, on_store_error: OnStoreError) -> RuleSet {
    let options = Options {
        sharing: Sharing {
            mode,
            on_store_error,
            ..Sharing::default()
        },
        ..Options::default()
    };
    let loaded = RuleSet::parse(&[Source::new("rules.yaml", text)], &options);
    assert!(!loaded.has_errors(), "{:?}", loaded.diagnostics);
    loaded.rules
}

/// A limit for each client, of this algorithm.
fn per_client(limit: &str, algorithm: &str) -> String {
    let algorithm = algorithm.trim_start_matches('{').trim_end_matches('}');
    format!("{{domain: web, descriptors: [{{key: client, rate_limit: {{{limit}, {algorithm}}}}}]}}")
}

const TEN_A_SECOND: &str = "unit: second, requests_per_unit: 10";

fn simulation(workloads: &[&str], seed: u64) -> Simulation {
    Simulation {
        workloads: workloads.iter().map(|text| text.parse().unwrap()).collect(),
        seed,
        start: Moment::ZERO,
        domain: "web".to_owned(),
        descriptors: vec!["client={client}".parse().unwrap()],
        memories: Memories::Unbounded,
        events_max: INSTANCE_EVENTS_MAX,
    }
}

fn report(mut traffic: Traffic, rules: &RuleSet) -> (Report, Traffic, Vec<u8>) {
    let mut lines = Vec::new();
    let go_on = &mut |_| ControlFlow::Continue(());
    let options = tollgate_replay::Options::default();
    let out: Option<&mut dyn std::io::Write> = Some(&mut lines);
    let report = replay(&mut traffic, rules, options, out, go_on).unwrap();
    (report, traffic, lines)
}

fn play(fleet: &Fleet, simulation: &Simulation, rules: &RuleSet) -> Both {
    let go_on = &mut |_| ControlFlow::Continue(());
    let played = fleet.predict(simulation, rules, go_on).unwrap();
    let (exact, exact_workloads) = simulation.run(rules, go_on).unwrap();
    let deviation = Deviation::of(rules, &played.traffic).unwrap();
    Both {
        report: report(played.traffic, rules).0,
        workloads: played.workloads,
        exact_report: report(exact, rules).0,
        exact_workloads,
        deviation,
        load: played.load,
    }
}

/// Three instances and five clients of twice their limit for six seconds.
fn usual(mode: Mode, change: impl FnOnce(&mut Fleet)) -> Both {
    let mut fleet = Fleet::new(3);
    change(&mut fleet);
    let rules = per_client(TEN_A_SECOND, "algorithm: fixed_window");
    let simulation = simulation(&["poisson 100/s keys 5 for 6s"], 1);
    play(
        &fleet,
        &simulation,
        &self::rules(&rules, mode, OnStoreError::Allow),
    )
}

fn over(both: &Both) -> u64 {
    both.deviation.rules.iter().map(|rule| rule.over).sum()
}

fn under(both: &Both) -> u64 {
    both.deviation.rules.iter().map(|rule| rule.under).sum()
}

/// Asserts that the same came of workloads. Redis's clock has microseconds, so waits may differ by
/// two.
fn assert_same(ours: &[WorkloadTotals], exact: &[WorkloadTotals]) {
    for (ours, exact) in ours.iter().zip(exact) {
        for (ours, exact) in [
            (ours.longest_wait, exact.longest_wait),
            (ours.longest_delay, exact.longest_delay),
        ] {
            assert!(ours.as_nanos().abs_diff(exact.as_nanos()) <= 2_000);
        }
        let counts = |totals: &WorkloadTotals| (totals.requests, totals.attempts, totals.allowed);
        assert_eq!(counts(ours), counts(exact), "{}", exact.text);
    }
}

/// One strict instance, beside Redis and without faults, is a single instance.
#[test]
fn one_strict_instance_decides_as_a_single_one() {
    let alone = Fleet {
        delay_ms: 0,
        ..Fleet::new(1)
    };
    let traffic = [
        "poisson 60/s keys 3 for 5s retry backoff 1s",
        "bursts 30 every 2s keys 2 for 5s as b retry every 70ms",
        "botnet 3 clients 9/s for 4s from 500ms retry retry-after",
    ];
    for algorithm in ALGORITHMS {
        let rules = per_client(TEN_A_SECOND, algorithm);
        let rules = self::rules(&rules, Mode::Strict, OnStoreError::Allow);
        for (seed, start) in [(1, 0), (2, 1_700_000_000_123_456_789)] {
            let simulation = Simulation {
                start: Moment::from_nanos(start),
                ..simulation(&traffic, seed)
            };
            let both = play(&alone, &simulation, &rules);
            assert!(both.report.denied > 100, "{algorithm}: {:?}", both.report);
            assert_eq!(both.report, both.exact_report, "{algorithm} {seed}");
            assert_same(&both.workloads, &both.exact_workloads);
            assert_eq!((over(&both), under(&both)), (0, 0), "{algorithm} {seed}");
            assert_eq!((both.load.without_redis, both.load.failed), (0, 0));
        }
    }
}

/// A wait is a microsecond longer than that of a single instance, so its `Retry-After` may be a
/// second longer, and other attempts come than to a single instance. Of those that come, one strict
/// instance allows what a single one does.
#[test]
fn retries_that_come_at_other_times_are_no_over_admission() {
    let alone = Fleet {
        delay_ms: 0,
        ..Fleet::new(1)
    };
    let rules = per_client(
        "unit: minute, requests_per_unit: 5",
        "algorithm: sliding_log",
    );
    let mut moved = false;
    for seed in [1, 2] {
        let traffic = ["botnet 3 clients 3/s for 20s retry retry-after"];
        let both = play(&alone, &simulation(&traffic, seed), &rules_of(&rules));
        moved |= both.report.allowed != both.exact_report.allowed;
        assert_eq!(both.deviation.allowed, both.report.allowed);
        assert_eq!((over(&both), under(&both)), (0, 0), "{seed}");
    }
    assert!(moved, "all retries came at the same times");
}

#[test]
fn strict_instances_allow_what_one_would_and_ask_for_each_request() {
    let both = usual(Mode::Strict, |_| {});
    // Two requests within a message's delay may change places, at the edge of a limit.
    let exact = both.deviation.exact;
    assert!(over(&both) + under(&both) <= exact / 50);
    let report = &both.report;
    assert!(report.allowed > 0 && report.allowed < report.events);
    assert_eq!((both.load.failed, both.load.without_redis), (0, 0));
    // Denials are cached, so not every request is sent.
    assert!((report.allowed..=report.events).contains(&both.load.to_redis));
}

#[test]
fn local_counts_allow_more_and_send_less_the_rarer_they_are_reported() {
    let strict = usual(Mode::Strict, |_| {});
    let often = usual(Mode::WriteBack, |_| {});
    let rarely = usual(Mode::WriteBack, |fleet| fleet.sync_ms = 1_000);
    assert!(over(&strict) < over(&often) && over(&often) < over(&rarely));
    let sent = [&strict, &often, &rarely].map(|both| both.load.to_redis);
    assert!(sent.is_sorted_by(|more, less| more > less), "{sent:?}");
    // Of a larger limit, instances lease units.
    let of_minutes = |mode| {
        let rules = per_client("unit: minute, requests_per_unit: 100", ALGORITHMS[0]);
        let rules = rules_in(&rules, mode);
        let simulation = simulation(&["poisson 50/s keys 5 for 6s"], 1);
        play(&Fleet::new(3), &simulation, &rules)
    };
    let (strict, leased) = (of_minutes(Mode::Strict), of_minutes(Mode::Leased));
    assert!(leased.load.to_redis < strict.load.to_redis * 3 / 4);
    assert_eq!(over(&leased), 0);
}

#[test]
fn faults_allow_more_and_are_reported() {
    let quiet = usual(Mode::Strict, |_| {});
    for incident in [
        Incident::Outage(Span::from_secs(2)),
        Incident::Failover(Span::from_millis(500)),
    ] {
        let at = Span::from_secs(2);
        let both = usual(Mode::Strict, |fleet| fleet.incidents = vec![(at, incident)]);
        assert!(
            both.load.without_redis > 20,
            "{incident:?}: {:?}",
            both.load
        );
        assert!(over(&both) > over(&quiet), "{incident:?}");
        assert_eq!(both.load.failed, 0);
    }
}

/// Redis answers again when the last of the outages has ended, and the replica is promoted.
#[test]
fn incidents_that_overlap_last_until_the_last_of_them_ends() {
    let rules = per_client(
        "unit: second, requests_per_unit: 1000",
        "algorithm: fixed_window",
    );
    let rules = self::rules(&rules, Mode::Strict, OnStoreError::Deny);
    let simulation = simulation(&["constant 50/s for 9s"], 1);
    let outage = |at, length| {
        (
            Span::from_secs(at),
            Incident::Outage(Span::from_millis(length)),
        )
    };
    let failover = |at| (Span::from_secs(at), Incident::Failover(Span::ZERO));
    for (incidents, [from, to]) in [
        (vec![outage(1, 2_000), outage(2, 5_000)], [1, 7]),
        (vec![outage(1, 6_000), outage(2, 1_000)], [1, 7]),
        (vec![outage(1, 2_000), outage(3, 4_000)], [1, 7]),
        (vec![outage(1, 2_500), failover(3)], [1, 4]),
        (vec![failover(1), outage(2, 1_000)], [1, 3]),
        (vec![outage(1, 6_000), failover(3)], [1, 7]),
    ] {
        let shown = format!("{incidents:?}");
        let fleet = Fleet {
            incidents,
            ..Fleet::new(1)
        };
        let denied = play(&fleet, &simulation, &rules).report.denied;
        // An instance takes a moment to find Redis again.
        let least = 50 * (to - from);
        assert!((least..least + 25).contains(&denied), "{shown}: {denied}");
    }
}

/// What a primary forgets in a failover is allowed again: a long window shows it.
#[test]
fn a_failover_that_loses_writes_allows_them_again() {
    let rules = per_client(
        "unit: hour, requests_per_unit: 40",
        "algorithm: fixed_window",
    );
    let rules = self::rules(&rules, Mode::Strict, OnStoreError::Deny);
    let simulation = simulation(&["constant 40/s keys 2 for 6s"], 1);
    let with_lag = |lag| {
        let failover = Incident::Failover(Span::from_millis(lag));
        let fleet = Fleet {
            incidents: vec![(Span::from_secs(1), failover)],
            ..Fleet::new(3)
        };
        play(&fleet, &simulation, &rules)
    };
    let (without, with) = (with_lag(0), with_lag(500));
    assert_eq!(over(&without), 0);
    // Half a second of 40 requests a second.
    assert!((15..=25).contains(&over(&with)), "{:?}", with.deviation);
}

#[test]
fn clocks_that_differ_change_what_local_counts_allow() {
    let together = usual(Mode::WriteBack, |_| {});
    let apart = usual(Mode::WriteBack, |fleet| {
        fleet.skew_ms = 400;
        fleet.incidents = vec![(Span::from_secs(1), Incident::Outage(Span::from_secs(3)))];
    });
    assert_ne!(together.report, apart.report);
    // On their own share, without Redis, instances count in windows of their own clocks.
    let local = |skew_ms| {
        let fleet = Fleet {
            skew_ms,
            incidents: vec![(Span::from_secs(1), Incident::Outage(Span::from_secs(3)))],
            ..Fleet::new(3)
        };
        let rules = per_client(TEN_A_SECOND, "algorithm: fixed_window");
        let rules = rules_of(&rules);
        play(
            &fleet,
            &simulation(&["poisson 100/s keys 5 for 6s"], 1),
            &rules,
        )
    };
    let (equal, skewed) = (local(0), local(400));
    assert!(equal.load.without_redis > 0);
    assert_ne!(equal.report, skewed.report);
}

fn rules_of(text: &str) -> RuleSet {
    rules(text, Mode::Strict, OnStoreError::Local)
}

fn rules_in(text: &str, mode: Mode) -> RuleSet {
    rules(text, mode, OnStoreError::Local)
}

#[test]
fn a_request_that_finds_no_instance_has_failed() {
    let fleet = Fleet {
        incidents: vec![(Span::from_secs(2), Incident::Crash)],
        ..Fleet::new(1)
    };
    let rules = rules_of(&per_client(TEN_A_SECOND, "algorithm: fixed_window"));
    let both = play(
        &fleet,
        &simulation(&["poisson 100/s keys 5 for 6s"], 1),
        &rules,
    );
    assert!((50..150).contains(&both.load.failed), "{:?}", both.load);
    let report = both.report;
    assert_eq!(report.failed, both.load.failed);
    assert_eq!(
        report.events,
        report.allowed + report.denied + report.failed
    );
    assert_eq!(report.rules[0].judged + report.failed, report.events);
}

/// Several limits for each request, each with a mode of its own, and overrides.
#[test]
fn each_rule_of_a_file_has_its_own_mode() {
    let text = "
domain: web
descriptors:
  - key: client
    rate_limit: {unit: second, requests_per_unit: 5, mode: leased}
  - key: client
    value: client-1
    rate_limit: {unit: second, requests_per_unit: 10, mode: write_back}
  - key: all
    shadow_mode: true
    rate_limit: {unit: second, requests_per_unit: 15, algorithm: token_bucket, mode: write_back}
";
    let rules = rules_of(text);
    let mut over = 0;
    for seed in 0..10 {
        let simulation = Simulation {
            descriptors: vec![
                "client={client}".parse().unwrap(),
                "all=yes".parse().unwrap(),
            ],
            ..simulation(&["poisson 100/s keys 4 for 5s"], seed)
        };
        let both = play(&Fleet::new(3), &simulation, &rules);
        let [of_clients, of_one, of_all] = &both.deviation.rules[..] else {
            panic!("{:?}", both.deviation);
        };
        assert!(of_clients.exact > 0 && of_all.exact > 0);
        assert_eq!(of_clients.over, 0);
        over += of_one.over;
        assert_eq!(of_all.allowed, both.report.allowed);
        assert!(both.report.shadow_keys.count > 0);
        assert!(both.load.redis_end.keys >= 5);
    }
    // Which seeds allow too much depends on everything that is sent, such as the scripts' length.
    assert!(over > 0, "no local count ever allowed more than one would");
}

#[test]
fn redis_has_a_key_for_each_client_and_waits_out_a_storm() {
    let rules = per_client(TEN_A_SECOND, "algorithm: token_bucket");
    let rules = rules_of(&rules);
    let with = |words: &str| {
        let simulation = simulation(&[words], 1);
        play(&Fleet::new(3), &simulation, &rules)
    };
    let once = with("bursts 40 every 1h keys 2");
    // Two clients have 10 at once and 10 a second.
    assert_eq!((once.report.events, once.report.allowed), (40, 20));
    assert_eq!(once.load.redis_end.keys, 2);
    let storm = with("bursts 40 every 1h keys 2 retry every 100ms attempts 20");
    assert_eq!(
        (storm.workloads[0].requests, storm.workloads[0].allowed),
        (40, 40)
    );
    assert_eq!((over(&storm), under(&storm)), (0, 0));
    // 20 are denied at first. Every 100 ms, each client has one more allowed: 20, 18, ... 2.
    assert_eq!(storm.report.events, 40 + 110);
    let patient = with("bursts 40 every 1h keys 2 retry retry-after");
    assert!(patient.report.events < storm.report.events);
}

/// The bytes that are computed from the sizes in the simulated Redis are those of a real one, which
/// `cargo xtask bench constants` has measured for `tollgate plan`.
#[test]
fn a_key_takes_the_bytes_that_were_measured() {
    let constants = include_str!("../../cli/src/plan/constants.json");
    let constants: serde_json::Value = serde_json::from_str(constants).unwrap();
    let constant = |name: &str| {
        let found = &constants["constants"][format!("redis.bytes.{name}")]["value"];
        found.as_u64().unwrap()
    };
    let names = [
        "fixed_window",
        "fixed_window_first",
        "sliding_window",
        "sliding_log",
        "token_bucket",
        "leaky_bucket",
    ];
    for (algorithm, name) in ALGORITHMS.into_iter().zip(names) {
        let rules = rules_of(&per_client("unit: day, requests_per_unit: 100", algorithm));
        let simulation = simulation(&["bursts 3 every 1h keys 3"], 1);
        let load = play(&Fleet::new(1), &simulation, &rules).load;
        let tables = 4 * 16;
        let bytes = 3 * (constant(name) + constant("overhead")) + tables;
        let expected = RedisMemory { keys: 3, bytes };
        assert_eq!(load.redis_end, expected, "{name}");
        assert_eq!(load.redis_most, expected, "{name}");
    }
}

/// Redis needs memory for the most keys that it has at once, which expire before the traffic ends.
#[test]
fn the_most_keys_are_those_of_the_busiest_moment() {
    let rules = rules_of(&per_client(TEN_A_SECOND, "algorithm: fixed_window"));
    let words = ["new-keys 100/s for 2s", "constant 1/s for 10s"];
    let load = play(&Fleet::new(2), &simulation(&words, 1), &rules).load;
    // A key lives for at most its window and the one that a message may be late by.
    let most = load.redis_most;
    assert!((100..=201).contains(&most.keys), "{load:?}");
    assert!(load.redis_end.keys <= 3, "{load:?}");
    assert!(most.bytes > 50 * load.redis_end.bytes, "{load:?}");
}

#[test]
fn a_fleet_has_one_prediction_on_any_thread() {
    let lines = |seed| {
        let fleet = Fleet {
            skew_ms: 7,
            incidents: vec![
                (Span::from_secs(1), Incident::Crash),
                (
                    Span::from_secs(2),
                    Incident::Failover(Span::from_millis(100)),
                ),
                (Span::from_secs(4), Incident::Outage(Span::from_millis(300))),
            ],
            ..Fleet::new(3)
        };
        let rules = per_client(TEN_A_SECOND, "algorithm: sliding_window");
        let rules = self::rules(&rules, Mode::WriteBack, OnStoreError::Local);
        let words = "poisson 100/s keys 5 for 6s retry backoff 1s";
        let go_on = &mut |_| ControlFlow::Continue(());
        let played = fleet.predict(&simulation(&[words], seed), &rules, go_on);
        let played = played.unwrap();
        (
            report(played.traffic, &rules).2,
            played.workloads,
            played.load,
        )
    };
    let first = lines(7);
    assert!(first == lines(7));
    assert_ne!(first.0, lines(8).0);
    assert!(first == std::thread::spawn(move || lines(7)).join().unwrap());
}

#[test]
fn a_simulation_has_a_bound_and_can_be_stopped() {
    let rules = rules_of(&per_client(TEN_A_SECOND, "algorithm: fixed_window"));
    let bounded = Simulation {
        events_max: 150,
        ..simulation(&["constant 100/s for 3s retry every 10ms"], 1)
    };
    let predict = |go_on: ControlFlow<()>| {
        let predicted = Fleet::new(2).predict(&bounded, &rules, &mut |_| go_on);
        predicted.unwrap_err()
    };
    let many = predict(ControlFlow::Continue(()));
    assert!(matches!(many, Error::ManyEvents { max: 150 }), "{many}");
    assert!(matches!(
        predict(ControlFlow::Break(())),
        Error::Stopped { decided: 0 }
    ));
    const { assert!(INSTANCE_EVENTS_MAX < EVENTS_MAX) };
}
