//! Simulated traffic: what arrives, what is decided, and what denied clients do.
#![allow(clippy::unwrap_used, missing_docs)]

use std::num::NonZeroUsize;
use std::ops::ControlFlow;

use tollgate_behaviour::Model;
use tollgate_core::{Charge, Cost, Key, Limit, Moment, Now, Span, Wait};
use tollgate_replay::{
    Deviation, Error, Memories, Options, Simulation, Traffic, WorkloadTotals, compare, replay,
    survey,
};
use tollgate_rules::{RuleSet, Source};

const ALGORITHMS: [&str; 5] = [
    "fixed_window",
    "sliding_window",
    "sliding_log",
    "token_bucket",
    "leaky_bucket",
];

/// Ten a second for each client.
fn rules(algorithm: &str) -> RuleSet {
    let text = format!(
        "{{domain: web, descriptors: [{{key: client, rate_limit: {{unit: second, \
         requests_per_unit: 10, algorithm: {algorithm}}}}}]}}"
    );
    let loaded = RuleSet::parse(&[Source::new("rules.yaml", text)], &Default::default());
    assert!(!loaded.has_errors());
    loaded.rules
}

fn simulation(workloads: &[&str], seed: u64) -> Simulation {
    Simulation {
        workloads: workloads.iter().map(|text| text.parse().unwrap()).collect(),
        seed,
        start: Moment::ZERO,
        domain: "web".to_owned(),
        descriptors: vec!["client={client}".parse().unwrap()],
        memories: Memories::Unbounded,
        events_max: tollgate_replay::EVENTS_MAX,
    }
}

fn run(simulation: &Simulation, rules: &RuleSet) -> (Traffic, Vec<WorkloadTotals>) {
    let go_on = &mut |_| ControlFlow::Continue(());
    simulation.run(rules, go_on).unwrap()
}

fn totals(workload: &str) -> WorkloadTotals {
    let (_, totals) = run(&simulation(&[workload], 1), &rules("token_bucket"));
    totals.into_iter().next().unwrap()
}

/// The decisions of a replay of `traffic`, and how many are allowed and denied.
fn replayed(traffic: &mut Traffic, rules: &RuleSet) -> (Vec<u8>, [u64; 2]) {
    let mut lines = Vec::new();
    let go_on = &mut |_| ControlFlow::Continue(());
    let out: Option<&mut dyn std::io::Write> = Some(&mut lines);
    let report = replay(traffic, rules, Options::default(), out, go_on).unwrap();
    (lines, [report.allowed, report.denied])
}

#[test]
fn a_request_whose_descriptors_have_one_key_is_one_request() {
    let mut simulation = simulation(&["constant 4/s for 2s", "constant 20/s for 2s as other"], 1);
    let rules = rules("fixed_window");
    let deviation = |simulation: &Simulation| {
        let (traffic, _) = run(simulation, &rules);
        Deviation::of(&rules, &traffic).unwrap()
    };
    let of_one = deviation(&simulation);
    assert_eq!((of_one.exact, of_one.rules[0].exact), (28, 28));
    // Each request is charged twice.
    simulation
        .descriptors
        .push("client={client}".parse().unwrap());
    let of_both = deviation(&simulation);
    assert_eq!((of_both.exact, of_both.rules[0].exact), (18, 18));
    assert_eq!(of_both.rules[0].allowed, 18);
}

#[test]
fn constant_traffic_is_decided_as_the_specification_says() {
    for algorithm in ALGORITHMS {
        let limit = format!("10/s {algorithm}").parse::<Limit>().unwrap();
        for offered in [1_u64, 2, 5, 10, 20, 25, 50, 100] {
            let workload = format!("constant {offered}/s for 7s");
            let (_, totals) = run(&simulation(&[&workload], 1), &rules(algorithm));
            let mut model = Model::default();
            let mut expected = WorkloadTotals {
                text: workload,
                ..WorkloadTotals::default()
            };
            for number in 0..7 * offered {
                let at = Moment::from_nanos(number * 1_000_000_000 / offered);
                let charge = Charge::new(Key::from_bits(1), &limit, Cost::ONE);
                let verdict = model.decide(Now::at(at), &[charge]);
                expected.requests += 1;
                expected.attempts += 1;
                let delay = verdict.delay();
                match verdict.denial.map(|denial| denial.wait) {
                    None => {
                        expected.allowed += 1;
                        expected.longest_delay = expected.longest_delay.max(delay);
                    }
                    Some(Wait::For(wait)) => {
                        expected.longest_wait = expected.longest_wait.max(wait);
                    }
                    Some(Wait::Never) => panic!("one unit fits"),
                }
            }
            assert_eq!(totals, [expected], "{algorithm} {offered}");
        }
    }
}

#[test]
fn a_seed_makes_the_same_requests_and_a_replay_the_same_decisions() {
    let rules = rules("sliding_log");
    let workloads = [
        "poisson 100/s keys 5 for 20s retry retry-after",
        "botnet 20 clients 15/s for 10s from 5s",
        "new-keys 30/s retry backoff 1s",
        "bursts 50 every 7s retry every 100ms attempts 3",
    ];
    let (mut traffic, totals) = run(&simulation(&workloads, 7), &rules);
    let (mut same, same_totals) = run(&simulation(&workloads, 7), &rules);
    let (lines, [allowed, denied]) = replayed(&mut traffic, &rules);
    assert_eq!(lines, replayed(&mut same, &rules).0);
    assert_eq!(totals, same_totals);
    let sum = |of: fn(&WorkloadTotals) -> u64| totals.iter().map(of).sum::<u64>();
    assert_eq!(allowed, sum(|totals| totals.allowed));
    assert_eq!(allowed + denied, sum(|totals| totals.attempts));
    assert!(totals.iter().all(|totals| totals.allowed > 0));
    assert_eq!(totals[2].attempts, 1800, "new keys are never denied");
    let (mut other, _) = run(&simulation(&workloads, 8), &rules);
    assert_ne!(lines, replayed(&mut other, &rules).0);
}

#[test]
fn a_workload_is_the_same_beside_another() {
    let rules = rules("token_bucket");
    let poisson = "poisson 50/s keys 3 as own";
    let (_, alone) = run(&simulation(&[poisson], 7), &rules);
    let (_, beside) = run(&simulation(&[poisson, "botnet 9 clients 20/s"], 7), &rules);
    assert_eq!(alone[0], beside[0]);
}

#[test]
fn denied_clients_try_again_until_they_are_allowed_or_give_up() {
    // Ten are allowed at once and ten each second; in 9 pauses of 100 ms, nine more.
    let storm = totals("bursts 100 every 1h retry every 100ms");
    let counts = (storm.requests, storm.allowed, storm.given_up());
    assert_eq!(counts, (100, 19, 81));
    // 90 retry once, and one less each time.
    assert_eq!(storm.attempts, 100 + (82..=90).sum::<u64>());
    assert_eq!(totals("bursts 100 every 1h").attempts, 100);
    // A client that should wait 0.1 s waits whole seconds.
    let waiting = totals("bursts 11 every 1h retry retry-after");
    assert_eq!((waiting.attempts, waiting.allowed), (12, 11));
    let backing_off = totals("bursts 100 every 1h retry backoff 1s");
    assert!(backing_off.allowed > 90, "{backing_off:?}");
    assert!(backing_off.attempts < storm.attempts, "{backing_off:?}");
}

/// The last second before 2500, of which the client would try again for another one.
#[test]
fn no_client_tries_again_when_times_saturate() {
    let late = Simulation {
        start: Moment::from_nanos(16_725_225_599_000_000_000),
        ..simulation(
            &["bursts 30 every 1s for 1s retry every 400ms attempts 9"],
            1,
        )
    };
    let (mut traffic, totals) = run(&late, &rules("fixed_window"));
    // Twenty are denied, and come again after 0.4 s and 0.8 s.
    assert_eq!((totals[0].attempts, totals[0].given_up()), (70, 20));
    let (_, [allowed, denied]) = replayed(&mut traffic, &rules("fixed_window"));
    assert_eq!([allowed, denied], [10, 60]);
}

#[test]
fn what_can_never_be_allowed_has_no_wait() {
    let text = "{domain: web, descriptors: [{key: client, rate_limit: 0/minute}]}";
    let rules = RuleSet::parse(&[Source::new("rules.yaml", text)], &Default::default()).rules;
    let (_, totals) = run(&simulation(&["constant 1/s retry retry-after"], 1), &rules);
    assert_eq!((totals[0].attempts, totals[0].given_up()), (60, 60));
    assert_eq!(totals[0].longest_wait, Span::ZERO);
}

#[test]
fn a_store_that_the_system_has_no_memory_for_is_an_error() {
    let max_keys = NonZeroUsize::new(usize::MAX / 1_000).unwrap();
    let memories = Memories::Bounded { max_keys };
    let rules = rules("token_bucket");
    let simulation = simulation(&["constant 1/s for 3s"], 1);
    let (mut traffic, _) = run(&simulation, &rules);
    let options = Options {
        memories,
        ..Options::default()
    };
    let go_on = &mut |_| ControlFlow::Continue(());
    let bounded = Simulation {
        memories,
        ..simulation
    };
    let errors = [
        memories.check().unwrap_err(),
        bounded.run(&rules, go_on).unwrap_err(),
        replay(&mut traffic, &rules, options, None, go_on).unwrap_err(),
        survey(&mut traffic, &rules, options, None, go_on).unwrap_err(),
        compare(&mut traffic, &rules, &rules, options, None, go_on).unwrap_err(),
    ];
    for error in errors {
        assert!(
            matches!(error, Error::LargeStore { max_keys: keys, bytes }
                if keys == max_keys && bytes > keys.get()),
            "{error:?}"
        );
    }
}
