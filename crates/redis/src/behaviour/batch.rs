//! Independent requests in one call of the store.

use tollgate_behaviour::{
    Rule, Subject, Taste, a_batch_equals_its_requests_one_by_one, check, with_grain,
};
use tollgate_core::{Charge, Cost, Ledger, Limit, Now, Span, Store, StoreError, Verdict};
use tollgate_testbed as testbed;

use super::{CLUSTER, Driven, SINGLE};
use crate::config::Config;
use crate::fit::GRAIN;
use crate::script_reply;
use crate::script_request::{ScriptKind, ScriptRequest, fit_all};

fn decide(subject: &mut Driven, now: Now, batch: &[&[Charge<'_>]]) -> Vec<Verdict> {
    subject.store.set_now(now.monotonic.as_nanos() / 1_000);
    let decided = subject.runtime.block_on(subject.store.decide_batch(batch));
    let decided: Result<Vec<Verdict>, StoreError> = decided.into_iter().collect();
    decided.unwrap_or_else(|error| panic!("{error}"))
}

/// Over several connections, over slots of several nodes, and in calls of several scripts.
#[test]
fn a_batch_is_decided_in_its_order() {
    let taste = Taste::MICROSECONDS;
    let alone = || Driven::new(&Config::single(SINGLE.address()));
    a_batch_equals_its_requests_one_by_one(&taste, 100, alone, decide);
    let cluster = || Driven::new(&Config::cluster(CLUSTER.addresses()));
    a_batch_equals_its_requests_one_by_one(&taste, 40, cluster, decide);
    a_batch_equals_its_requests_one_by_one(&taste, 40, Driven::apart, decide);
}

/// Requests on different keys, and requests on one key that a script can decide in their order,
/// share the calls of one round trip.
#[test]
fn a_batch_is_one_round_trip() {
    let mut subject = Driven::new(&Config {
        connections: 1,
        ..Config::single(SINGLE.address())
    });
    let limit = Limit::fixed_window(70, Span::HOUR).expect("an hour is a window");
    let keys = ["one", "two", "two", "two"].map(|name| subject.key(name));
    let charges: Vec<_> = (0..100)
        .map(|at| [Charge::new(keys[at % keys.len()], &limit, Cost::ONE)])
        .collect();
    let batch: Vec<&[Charge<'_>]> = charges.iter().map(|one| &one[..]).collect();
    let before = subject.store.counts();
    let verdicts = decide(&mut subject, Taste::MICROSECONDS.start, &batch);
    let allowed = verdicts.iter().filter(|one| one.is_allowed()).count();
    assert_eq!(allowed, 25 + 70);
    let last = verdicts.iter().rposition(Verdict::is_allowed);
    assert_eq!(last, Some(96), "the last ones of key two are denied");
    let after = subject.store.counts();
    // 64 requests share a call.
    assert_eq!(after.calls - before.calls, 2);
    assert_eq!(after.writes - before.writes, 1);
}

/// More requests on one key than a connection sends at once, or than a call has room for.
#[test]
fn a_long_batch_on_one_key_is_decided_in_its_order() {
    let mut subject = Driven::new(&Config::single(SINGLE.address()));
    for (name, count) in [("some", 600), ("many", 2_000)] {
        assert_eq!(
            which_pass(&mut subject, name, count),
            (0..100).collect::<Vec<_>>()
        );
    }
}

/// Redis executes none of the calls that were sent before it has the scripts again.
#[test]
fn a_batch_that_is_sent_again_is_decided_in_its_order() {
    let server = testbed::Redis::start();
    let mut subject = Driven::new(&Config::single(server.address()));
    for (name, count) in [("few", 300), ("many", 2_000)] {
        assert_eq!(server.ask(&["SCRIPT", "FLUSH"]), "OK");
        assert_eq!(
            which_pass(&mut subject, name, count),
            (0..100).collect::<Vec<_>>()
        );
    }
}

/// Which of `count` equal requests on a limit of 100 are allowed.
fn which_pass(subject: &mut Driven, name: &str, count: usize) -> Vec<usize> {
    let limit = Limit::fixed_window(100, Span::DAY).expect("a day is a window");
    let charge = [Charge::new(subject.key(name), &limit, Cost::ONE)];
    let batch: Vec<&[Charge<'_>]> = vec![&charge; count];
    let verdicts = decide(subject, Taste::MICROSECONDS.start, &batch);
    let allowed = |at: &usize| verdicts[*at].is_allowed();
    (0..count).filter(allowed).collect()
}

/// Requests that share a call are decided in order.
#[test]
fn a_batch_equals_its_requests_in_order() {
    check("a_batch_equals_its_requests_in_order", 200, |random| {
        // Requests with several keys are in order with all of them over one connection only.
        let mut subject = Driven::new(&Config {
            connections: 1,
            ..Config::single(SINGLE.address())
        });
        let mut ledger = Ledger::default();
        let taste = Taste::MICROSECONDS;
        let rules: Vec<Rule> = (0..4).map(|_| taste.rule(random)).collect();
        let keys = [0, 1, 2, 3].map(|name| subject.key(&format!("{name}")));
        let mut now = taste.start;
        for step in 0..20 {
            now.monotonic = now.monotonic + GRAIN.times(random.between(0, 8));
            now.utc = now.monotonic;
            let mut requests: Vec<Vec<Charge<'_>>> = Vec::new();
            for _ in 0..random.between(1, 12) {
                let charges = (0..random.pick(&[1, 1, 1, 2, 3])).map(|_| {
                    let index = random.pick(&[0, 1, 2, 3]);
                    rules[index].charge(keys[index], taste.cost(&rules[index].limit, random))
                });
                requests.push(charges.collect());
            }
            // Plain requests are called first, peeks have separate calls, and so has each script.
            requests.sort_by_key(|charges| {
                let script = script_of(charges);
                (script != ScriptKind::Plain, writes(charges), script)
            });
            let got = subject.decide_together(now, &requests);
            for (charges, got) in requests.iter().zip(got) {
                let want = ledger.decide(now, charges).expect("a few charges");
                assert_eq!(got, with_grain(want, GRAIN), "step {step}: {charges:#?}");
            }
        }
        let counts = subject.store.counts();
        assert!(
            counts.calls < counts.requests,
            "nothing was batched: {counts:?}"
        );
    });
}

fn writes(charges: &[Charge<'_>]) -> bool {
    let writes = |charge: &Charge<'_>| match charge.cost {
        Cost::Take(units) | Cost::Refund(units) => units > 0,
        Cost::Peek(_) => false,
    };
    charges.iter().any(writes)
}

/// The script that decides a request on keys without holds, whose limits have not changed.
fn script_of(charges: &[Charge<'_>]) -> ScriptKind {
    let fitted = fit_all(charges).expect("the taste's limits are whole");
    if let [charge] = charges {
        return ScriptRequest::of_one(charge, &fitted[0]).script();
    }
    let (bill, fitted) = script_reply::bill(charges, &fitted).expect("a few charges");
    let joint = ScriptRequest::joint(&bill, &fitted);
    joint.map_or(ScriptKind::General, |joint| joint.script())
}
