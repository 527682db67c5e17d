//! Several limits on one key in one request.

use tollgate_behaviour::{Random, Subject, Taste, algorithms, check, with_grain};
use tollgate_core::{
    Algorithm, Charge, Cost, Decision, Ledger, Limit, Now, OnDenial, Span, Verdict, Wait,
};

use super::Driven;
use super::disagree::{instance, limit};
use crate::fit::GRAIN;

/// Limits that come with a request, as Envoy's overrides, may be different in one request, and
/// those of refunds judge nothing. On one server and in different slots.
#[test]
fn two_limits_on_one_key_in_one_request_are_charged_as_the_ledger_charges() {
    check("two_limits_on_one_key", 160, |random| {
        let algorithm = random.pick(&algorithms());
        let mut subject = random.pick(&[instance, Driven::apart])();
        let mut ledger = Ledger::default();
        let [key, other] = ["only", "other"].map(|name| subject.key(name));
        let day = limit(algorithm, 12, Span::DAY);
        let mut limits = [(); 2].map(|()| any_limit(algorithm, random));
        let mut now = Taste::MICROSECONDS.start;
        for step in 0..12 {
            // A bucket's debt is kept at the price of the limit that has charged it last.
            if !day.is_bucket() {
                limits = [(); 2].map(|()| any_limit(algorithm, random));
            }
            let mut charges = vec![Charge::new(other, &day, Cost::ONE)];
            charges.extend(limits.iter().map(|limit| Charge {
                on_denial: random.pick(&[OnDenial::Keep, OnDenial::Charge]),
                ..Charge::new(key, limit, any_cost(random))
            }));
            let got = subject.decide(now, &charges);
            let want = with_grain(ledger.decide(now, &charges).expect("three charges"), GRAIN);
            let context = format!("step {step}: {charges:#?}");
            if algorithm == Algorithm::SlidingLog {
                assert_eq!(without_waits(&got), without_waits(&want), "{context}");
            } else {
                assert_eq!(got, want, "{context}");
            }
            now = Now::at(now.utc + Span::from_secs(random.pick(&[0, 0, 60, 3_600])));
        }
    });
}

/// Units that the smaller bucket has charged alone keep their price when the larger one reads them.
#[test]
fn units_of_the_smaller_bucket_keep_their_price_in_the_larger_one() {
    for algorithm in [Algorithm::TokenBucket, Algorithm::LeakyBucket] {
        for fresh in [instance, Driven::apart] {
            let (mut subject, mut ledger) = (fresh(), Ledger::default());
            let [key, other] = ["only", "other"].map(|name| subject.key(name));
            let now = Taste::MICROSECONDS.start;
            let [small, large] = [10, 40].map(|count| limit(algorithm, count, Span::DAY));
            let charge = |limit, cost| Charge::new(key, limit, cost);
            for charges in [
                vec![charge(&small, Cost::Take(5))],
                vec![
                    charge(&small, Cost::ONE),
                    charge(&large, Cost::ONE),
                    Charge::new(other, &large, Cost::ONE),
                ],
            ] {
                let got = subject.decide(now, &charges);
                let want = ledger.decide(now, &charges).expect("few charges");
                assert_eq!(got, with_grain(want, GRAIN), "{charges:#?}");
            }
        }
    }
}

/// The wait of a request, and what remains of each limit. A reply has one time for a log: when the
/// units fit the smallest limit, which the request waits for.
fn without_waits(verdict: &Verdict) -> (Option<Wait>, Vec<u32>) {
    let decisions = verdict.decisions.iter();
    let wait = verdict.denial.map(|denial| denial.wait);
    (wait, decisions.map(Decision::remaining).collect())
}

fn any_cost(random: &mut Random) -> Cost {
    match random.chance(25) {
        true => Cost::Refund(random.between(0, 3)),
        false => Cost::Take(random.between(1, 6)),
    }
}

fn any_limit(algorithm: Algorithm, random: &mut Random) -> Limit {
    let limit = limit(algorithm, random.pick(&[3, 10, 40]), Span::DAY);
    let share = random.pick(&[0, 0, 30]);
    limit.with_priority_share(share).expect("at most 100")
}
