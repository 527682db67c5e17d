//! An explanation says what would be decided, and changes nothing: two engines get the same random
//! requests, and only one of them is asked to explain.
#![allow(clippy::unwrap_used)]

use std::fmt::Write as _;
use std::sync::Arc;

use tollgate_behaviour::{Random, check};
use tollgate_core::{
    Answer, ChargeDenied, Clock, Cost, Descriptor, Entry, Override, Request, Span, Status,
};
use tollgate_engine::{Decided, Engine, Stores};
use tollgate_memory::{ManualClock, Memory};
use tollgate_rules::{Finding, Options, RuleSet, Source};

const CASES: u64 = 60;
const REQUESTS: u64 = 60;
const LIMITS: [&str; 6] = [
    "3/minute",
    "{requests_per_unit: 4, unit: second, algorithm: token_bucket}",
    "{requests_per_unit: 2, unit: second, algorithm: leaky_bucket}",
    "{requests_per_unit: 3, unit: minute, algorithm: sliding_window}",
    "{requests_per_unit: 3, unit: second, algorithm: sliding_log, charge_denied: always}",
    "{unlimited: true}",
];

/// An engine in memory over a clock, with these rules.
fn engine(text: &str, clock: &Arc<ManualClock>) -> Engine {
    let clock: Arc<dyn Clock> = Arc::<ManualClock>::clone(clock);
    let memory = Memory::builder().max_keys(1_000).clock(clock).build();
    let engine = Engine::new(Stores::new(memory));
    let loaded = RuleSet::parse(&[Source::new("d.yaml", text)], &Options::default());
    assert!(!loaded.has_errors(), "{:?}", loaded.diagnostics);
    engine.replace_rules(loaded.rules);
    engine
}

/// Rules for one and for two of the keys `a` and `b`.
fn random_rules(random: &mut Random) -> String {
    let mut text = "domain: d\ndescriptors:\n".to_owned();
    for key in ["a", "b"] {
        let mode = random.pick(&[
            "",
            "",
            ", shadow_mode: true",
            ", quota_mode: true",
            ", enforce: 50%",
        ]);
        let (one, two) = (random.pick(&LIMITS), random.pick(&LIMITS));
        write!(
            text,
            "  - {{key: {key}, rate_limit: {one}{mode}, descriptors: [{{key: c, rate_limit: \
             {two}}}]}}\n  - {{key: {key}, value: never}}\n"
        )
        .unwrap();
    }
    text
}

fn random_request(random: &mut Random) -> Request<'static> {
    let descriptors = (0..random.between(1, 3)).map(|_| {
        let key: &[u8] = random.pick(&[&b"a"[..], b"b", b"other"]);
        let value: &[u8] = random.pick(&[&b"1"[..], b"2", b"\xff"]);
        let mut entries = vec![Entry { key, value }];
        if random.chance(30) {
            entries.push(Entry { key: b"c", value });
        }
        let limit = random.chance(10).then_some(Override {
            count: 2,
            window: Span::SECOND,
        });
        Descriptor {
            entries: entries.into(),
            limit,
            ..Descriptor::default()
        }
    });
    let descriptors = descriptors.collect();
    let units = random.between(0, 3);
    Request {
        domain: b"d",
        descriptors,
        cost: random.pick(&[Cost::ONE, Cost::Take(units), Cost::Peek(units)]),
        charge_denied: random.pick(&ChargeDenied::ALL),
    }
}

/// Whether a request is allowed, what denies it, and each descriptor's decision and rule.
type Outcome = (bool, Option<usize>, Vec<(Option<bool>, String)>);

/// What an answer says about the request as it is, before anything is charged.
fn outcome(answer: &Answer) -> Outcome {
    let statuses = answer.statuses.iter().map(|status| match status {
        Status::Limited(limited) => (
            Some(limited.decision.is_allowed()),
            limited.rule.path.clone(),
        ),
        Status::Unlimited { rule } => (None, rule.path.clone()),
        Status::NoLimit => (None, String::new()),
    });
    let by = answer.denial.map(|denial| denial.by);
    (answer.is_allowed(), by, statuses.collect())
}

#[test]
fn an_explanation_is_what_is_then_decided_and_changes_nothing() {
    let (mut allowed, mut denied) = (0, 0);
    let mut runtime = tokio::runtime::Builder::new_current_thread();
    let runtime = runtime.build().unwrap();
    check("explanation", CASES, |random| {
        let clock = Arc::new(ManualClock::default());
        clock.advance(Span::DAY);
        let text = random_rules(random);
        let (asked, other) = (engine(&text, &clock), engine(&text, &clock));
        for _ in 0..REQUESTS {
            clock.advance(Span::from_millis(random.between(0, 700)));
            let request = random_request(random);
            let (before, explained, decided, plain) = runtime.block_on(async {
                let before = asked.explain(&request).await.unwrap();
                let explained = asked.explain(&request).await.unwrap();
                let decided = asked.decide(&request).await.unwrap();
                (
                    before,
                    explained,
                    decided,
                    other.decide(&request).await.unwrap(),
                )
            });
            assert_eq!(before, explained, "{text}");
            assert_eq!(decided, plain, "{text}");
            let answer = decided.answer;
            // A denied request that is charged changes the state that its answer describes.
            if request.charge_denied == ChargeDenied::Never && !text.contains("always") {
                assert_eq!(outcome(&explained.answer), outcome(&answer), "{text}");
            }
            assert_eq!(explained.answer.is_allowed(), answer.is_allowed(), "{text}");
            for (status, (_, finding)) in answer.statuses.iter().zip(&explained.findings) {
                check_finding(status, finding);
            }
            *(if answer.is_allowed() {
                &mut allowed
            } else {
                &mut denied
            }) += 1;
        }
        assert_eq!(counts(&asked), counts(&other));
    });
    assert!(allowed > 500 && denied > 500, "{allowed}, {denied}");
}

fn check_finding(status: &Status, finding: &Finding) {
    match (status, finding) {
        (Status::Limited(limited), Finding::Rule(view)) => {
            assert_eq!(limited.rule, view.rule);
            assert_eq!(Some(limited.limit), view.limit);
            assert_eq!(limited.enforcement, view.enforcement);
        }
        (Status::Limited(limited), Finding::OwnLimit { limit, .. }) => {
            assert_eq!(limited.limit, *limit);
        }
        (Status::Unlimited { rule }, Finding::Rule(view)) => assert_eq!(*rule, view.rule),
        (Status::NoLimit, Finding::NoMatch | Finding::NoLimit) => {}
        pair => panic!("{pair:?}"),
    }
}

/// Every count of decisions.
fn counts(engine: &Engine) -> Vec<(String, String, &'static str, u64)> {
    let mut counts = Vec::new();
    let visited = engine.visit_decisions(|domain, rule, outcome, count| {
        counts.push((domain.to_owned(), rule.to_owned(), outcome, count));
        Ok::<(), ()>(())
    });
    visited.unwrap();
    counts
}

/// Decides on one unit of `key` of the domain `d`.
async fn decide(engine: &Engine, key: &[u8]) -> Decided {
    engine.decide(&request(key, Cost::ONE)).await.unwrap()
}

fn request(key: &[u8], cost: Cost) -> Request<'_> {
    let entry = Entry { key, value: b"v" };
    Request {
        domain: b"d",
        descriptors: vec![Descriptor {
            entries: vec![entry].into(),
            ..Descriptor::default()
        }]
        .into(),
        cost,
        charge_denied: ChargeDenied::Never,
    }
}

#[tokio::test]
async fn a_denial_is_explained_with_the_exact_time() {
    let clock = Arc::new(ManualClock::default());
    clock.advance(Span::DAY);
    let engine = engine(
        "{domain: d, descriptors: [{key: a, rate_limit: 2/minute}]}",
        &clock,
    );
    for _ in 0..2 {
        assert!(decide(&engine, b"a").await.answer.is_allowed());
    }
    clock.advance(Span::from_secs(13));
    let explained = engine.explain(&request(b"a", Cost::ONE)).await.unwrap();
    assert_eq!(explained.answer, decide(&engine, b"a").await.answer);
    assert_eq!(explained.answer.retry_after_secs(), Some(47));
    assert_eq!((&*explained.store, explained.is_shared), ("default", false));
    let more = engine.explain(&request(b"a", Cost::Take(3))).await.unwrap();
    assert_eq!(more.answer.retry_after(), None);
    assert!(!more.answer.is_allowed());
}

#[tokio::test]
async fn a_refund_is_not_refunded_by_its_explanation() {
    let clock = Arc::new(ManualClock::default());
    clock.advance(Span::DAY);
    let engine = engine(
        "{domain: d, descriptors: [{key: a, rate_limit: 1/minute}]}",
        &clock,
    );
    assert!(decide(&engine, b"a").await.answer.is_allowed());
    let refund = request(b"a", Cost::Refund(1));
    let explained = engine.explain(&refund).await.unwrap();
    assert!(explained.answer.is_allowed());
    assert!(!decide(&engine, b"a").await.answer.is_allowed());
}

#[tokio::test]
async fn a_domain_without_rules_is_explained() {
    let engine = engine("{domain: other, descriptors: []}", &Arc::default());
    let explained = engine.explain(&request(b"a", Cost::ONE)).await.unwrap();
    assert_eq!(explained.findings[0].1, Finding::UnknownDomain);
    assert!(explained.answer.is_allowed());
}
