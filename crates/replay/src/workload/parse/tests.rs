use super::*;
use crate::random::Random;

/// The milliseconds and the keys of a workload's arrivals.
fn arrivals(text: &str, seed: u64) -> Vec<(u64, u64)> {
    let workload: Workload = text.parse().unwrap();
    workload
        .arrivals(Random::new(seed, 0))
        .map(|arrival| (arrival.at.as_nanos() / 1_000_000, arrival.key))
        .collect()
}

#[test]
fn arrivals_are_as_described() {
    let constant = arrivals("constant 4/s for 1s keys 3 from 2s", 1);
    assert_eq!(constant, [(2000, 0), (2250, 1), (2500, 2), (2750, 0)]);
    let bursts = arrivals("bursts 2 every 10s for 11s", 1);
    assert_eq!(bursts, [(0, 0), (0, 0), (10_000, 0), (10_000, 0)]);
    let fresh = arrivals("new-keys 2/s for 2s", 1);
    assert_eq!(fresh, [(0, 0), (500, 1), (1000, 2), (1500, 3)]);
    assert_eq!(arrivals("constant 1/s", 1).len(), 60);
}

/// A rate is no limit: a bucket refills at most one unit in 100 ns.
#[test]
fn a_rate_can_be_higher_than_that_of_a_bucket() {
    for text in [
        "constant 20000000/s for 1ms",
        "new-keys 1200000000/m for 1ms",
        "bursts 20 every 1us for 1ms",
        "botnet 2 clients 1/100ns for 1ms",
        "botnet 20000 clients 2/ns for 1ns",
        "constant 20/us for 1ms",
        "constant 1/50ns for 1ms",
    ] {
        let found = arrivals(text, 1);
        let expected = match text.contains("2/ns") {
            true => 40_000,
            false => 20_000,
        };
        assert_eq!(found.len(), expected, "{text}");
    }
    let found = arrivals("poisson 20000000/s for 1ms", 1);
    assert!((19_500..20_500).contains(&found.len()), "{}", found.len());
}

#[test]
fn a_botnet_has_clients_that_are_regular_and_out_of_step() {
    let found = arrivals("botnet 100 clients 2/s for 10s", 7);
    assert!(found.is_sorted_by_key(|(at, _)| *at));
    for client in 0..100 {
        let own: Vec<u64> = found
            .iter()
            .filter(|(_, key)| *key == client)
            .map(|(at, _)| *at)
            .collect();
        assert_eq!(own.len(), 20);
        let distances = own.windows(2).map(|two| two[1] - two[0]);
        assert!(distances.into_iter().all(|distance| distance == 500));
    }
    let starts: std::collections::HashSet<u64> = found.iter().map(|(at, _)| at % 500).collect();
    assert!(starts.len() > 50, "{starts:?}");
}

#[test]
fn poisson_has_the_rate_its_spread_and_even_keys() {
    let found = arrivals("poisson 100/s keys 4 for 100s", 3);
    assert!((9_700..10_300).contains(&found.len()), "{}", found.len());
    let mut of_second = [0_u32; 100];
    let mut of_key = [0_u32; 4];
    for (at, key) in &found {
        of_second[usize::try_from(at / 1000).unwrap()] += 1;
        of_key[usize::try_from(*key).unwrap()] += 1;
    }
    // The variance of a Poisson distribution is its mean; regular arrivals have none.
    let distances = of_second.iter().map(|count| count.abs_diff(100).pow(2));
    let variance = distances.sum::<u32>() / 100;
    assert!((60..150).contains(&variance), "{variance}");
    assert!(
        of_key.iter().all(|count| (2_300..2_700).contains(count)),
        "{of_key:?}"
    );
    assert_eq!(found, arrivals("poisson 100/s keys 4 for 100s", 3));
    assert_ne!(found, arrivals("poisson 100/s keys 4 for 100s", 4));
}

#[test]
fn every_error_says_what_to_write() {
    for (text, why) in [
        (
            "",
            "`` is not a kind of traffic; kinds: constant, poisson, bursts, new-keys, botnet",
        ),
        (
            "poison 5/s",
            "`poison` is not a kind of traffic; did you mean `poisson`? kinds: constant, poisson, \
             bursts, new-keys, botnet",
        ),
        (
            "constant",
            "the text ends after `constant`; add a rate such as `20/s`",
        ),
        (
            "constant 20",
            "`20` is not a rate: write 20/s, 300/m or 5/10s",
        ),
        (
            "constant 0/s",
            "`0/s` is not a rate: write 20/s, 300/m or 5/10s",
        ),
        ("bursts 5 each 10s", "after `5` comes `every`, not `each`"),
        ("bursts 5", "the text ends after `5`; add `every`"),
        (
            "bursts -5 every 1s",
            "`-5` is not a valid number of requests: write 1 to 50000000, in digits",
        ),
        (
            "bursts 5 every 0s",
            "`0s` after `every`: it must be longer than zero",
        ),
        (
            "botnet 5 clients 1/s keys 3",
            "`botnet` has its own keys; leave out `keys`",
        ),
        (
            "constant 1/s forr 5s",
            "`forr` is not expected; did you mean `for`? what may follow: for, from, keys, as, \
             retry, attempts",
        ),
        (
            "constant 1/s for 5s for 6s",
            "`for` is there twice; leave one out",
        ),
        (
            "constant 1/s attempts 3",
            "`attempts` without `retry`: denied clients give up; add such as `retry backoff 1s`",
        ),
        (
            "constant 1/s retry soon",
            "`soon` after `retry`: write `every 100ms`, `backoff 1s` or `retry-after`",
        ),
        (
            "constant 1000000/s for 1h",
            "3600000000 requests; 50000000 is the most. Shorten it with `for`, or lower its rate",
        ),
        (
            "botnet 10000000 clients 1/s",
            "600000000 requests; 50000000 is the most. Shorten it with `for`, or lower its rate",
        ),
    ] {
        let error = text.parse::<Workload>().unwrap_err();
        assert_eq!(error.to_string(), why, "{text:?}");
    }
}
