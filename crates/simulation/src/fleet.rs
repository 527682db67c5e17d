//! Several instances that share a limit, given traffic, and what a single one would have allowed.

mod asking;

mod exact;

mod redis_memory;

mod predicted;

mod measured;

use std::collections::{BTreeMap, BTreeSet};

use tollgate_behaviour::Random;
use tollgate_core::{Enforcement, Limit, Mode, Moment, OnStoreError, Span, Wait};
use tollgate_redis::{SYNC_INTERVAL, TIMEOUT};
use tollgate_replay::{FirstAttempt, Workload, first_attempts};
use tollgate_rules::Loaded;

use crate::deployment::Topology;
use crate::instance::Instance;
use crate::outcome::Outcome;
use crate::plan::{Counter, Plan, Setup};
use crate::rules_file;

/// The most instances of a fleet.
pub const INSTANCES_MAX: usize = 100;
/// How long instances have to connect and to find each other before the first request.
const WARM_UP: Span = Span::SECOND;
/// The connections of an instance to Redis, as by default.
const CONNECTIONS: usize = tollgate_redis::CONNECTIONS;

/// Instances that share one limit for each client, and what happens to them.
#[derive(Clone, Debug)]
pub struct Fleet {
    /// How many there are, at most [`INSTANCES_MAX`].
    pub instances: usize,
    /// How they share the limit.
    pub mode: Mode,
    /// The limit of each client.
    pub limit: Limit,
    /// What happens while Redis does not answer.
    pub on_store_error: OnStoreError,
    /// The requests; each goes to an instance at random.
    pub workloads: Vec<Workload>,
    /// The longest delay of a message between an instance and Redis, in milliseconds; each message
    /// has one at random, of whole milliseconds.
    pub delay_ms: u64,
    /// How much further the wall clock of each instance is ahead than that of the one before it.
    pub skew_ms: i64,
    /// How often local counts are reported, in milliseconds.
    pub sync_ms: u64,
    /// What goes wrong, each at a time after the first request.
    pub incidents: Vec<(Span, Incident)>,
    /// The seed of all that is random.
    pub seed: u64,
}

/// What goes wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Incident {
    /// An instance ends without a goodbye, and starts again a second later.
    Crash,
    /// Redis does not answer for this long.
    Outage(Span),
    /// The primary ends; a second later its replica, which has missed this much, is promoted.
    Failover(Span),
}

/// What came of the requests.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// Requests: first attempts.
    pub offered: u64,
    /// Decisions: first attempts and retries.
    pub attempts: u64,
    /// Requests that the instances allowed.
    pub allowed: u64,
    /// Of the decisions, those that were made without Redis because it did not answer.
    pub without_redis: u64,
    /// Requests without a decision.
    pub failed: u64,
    /// Requests that a single exact instance allows.
    pub exact: u64,
    /// Over-admission: of each client, the requests beyond what the exact instance allows.
    pub over: u64,
    /// Under-admission: of each client, the requests that are missing from that.
    pub under: u64,
    /// Script calls that carried decisions or reports.
    pub calls: u64,
    /// Writes to connections: what the network carries at once.
    pub writes: u64,
    /// Decisions and reports that Redis was sent.
    pub to_redis: u64,
    /// Keys in Redis at the end of the requests, beyond those before.
    pub redis_keys: u64,
    /// What they take there, in bytes: of a prediction, computed from what a key was measured to
    /// take.
    pub redis_bytes: u64,
    /// From the first request to the last one, or to the last decision if clients retry.
    pub length: Span,
}

/// Requests that were allowed, by client.
type Allowed = BTreeMap<String, u64>;

/// What is counted while requests are decided.
#[derive(Debug, Default)]
struct Tally {
    allowed: Allowed,
    attempts: u64,
    without_redis: u64,
    failed: u64,
}

// === impl Fleet ===

impl Fleet {
    /// A fleet of the defaults of the service.
    pub fn new(instances: usize, mode: Mode, limit: Limit, workloads: Vec<Workload>) -> Fleet {
        Fleet {
            instances,
            mode,
            limit,
            on_store_error: OnStoreError::Allow,
            workloads,
            delay_ms: 1,
            skew_ms: 0,
            sync_ms: SYNC_INTERVAL.as_nanos() / 1_000_000,
            incidents: Vec::new(),
            seed: 1,
        }
    }

    /// The requests in order of time, each with the instance that decides it.
    fn requests(&self) -> Vec<(FirstAttempt, usize)> {
        let mut random = Random::new(self.seed);
        let last = u64::try_from(self.instances).unwrap_or(1).max(1) - 1;
        let attempts = first_attempts(&self.workloads, self.seed).into_iter();
        let assigned = attempts.map(|attempt| {
            let instance = usize::try_from(random.between(0, last)).unwrap_or(0);
            (attempt, instance)
        });
        assigned.collect()
    }

    /// The deployment and the one rule, as the world of the simulation describes them.
    fn plan(&self) -> Plan {
        let topology = match self.incidents.is_empty() {
            true => Topology::Single,
            false => Topology::Sentinel,
        };
        let quiet = Plan::quiet(topology);
        Plan {
            seed: self.seed,
            setup: Setup {
                instances: self.instances,
                timeout_ms: TIMEOUT.as_nanos() / 1_000_000,
                sync_ms: self.sync_ms,
                connections: CONNECTIONS,
                ..quiet.setup
            },
            counters: vec![Counter {
                limits: vec![self.limit],
                enforcements: vec![Enforcement::Enforce],
                charge_denied: None,
                is_override: false,
                modes: vec![self.mode],
                on_store_errors: vec![self.on_store_error],
                presence: vec![true],
                identity: 0,
            }],
            ..quiet
        }
    }

    fn rules(&self) -> Loaded {
        rules_file::load(&self.plan(), 0, false)
    }

    /// Compares what was allowed with what a single instance allows, whose first request could
    /// come at `begin`. The last decision was made so long after that.
    fn totals(
        &self,
        requests: &[(FirstAttempt, usize)],
        (begin, end): (Moment, Span),
        tally: &Tally,
    ) -> Totals {
        let exact = exact::allowed(&self.rules().rules, requests, begin);
        let mut totals = Totals {
            offered: u64::try_from(requests.len()).unwrap_or(u64::MAX),
            allowed: tally.allowed.values().sum(),
            attempts: tally.attempts,
            without_redis: tally.without_redis,
            failed: tally.failed,
            exact: exact.values().sum(),
            ..Totals::default()
        };
        if let (Some((first, _)), Some((last, _))) = (requests.first(), requests.last()) {
            totals.length = last.at - first.at;
            if self.workloads.iter().any(Workload::has_retries) {
                totals.length = end - first.at;
            }
        }
        let clients = tally.allowed.keys().chain(exact.keys());
        let clients: BTreeSet<&String> = clients.collect();
        for client in clients {
            let of = |counts: &Allowed| counts.get(client).copied().unwrap_or(0);
            let (allowed, exact) = (of(&tally.allowed), of(&exact));
            totals.over += allowed.saturating_sub(exact);
            totals.under += exact.saturating_sub(allowed);
        }
        totals
    }
}

// === impl Totals ===

impl Totals {
    /// A count per second of the requests' length, rounded down; the count if it is shorter.
    pub fn per_second(&self, count: u64) -> u64 {
        count * 1_000 / (self.length.as_nanos() / 1_000_000).max(1_000)
    }

    /// Adds what an instance has sent, less what it had sent `before`.
    fn add_sent(&mut self, instance: &Instance, before: [u64; 3]) {
        let [calls, writes, to_redis] = count_sent(instance);
        self.calls += calls - before[0];
        self.writes += writes - before[1];
        self.to_redis += to_redis - before[2];
    }
}

/// Script calls, writes, and requests of an instance so far.
fn count_sent(instance: &Instance) -> [u64; 3] {
    let counts = instance.redis.counts();
    [counts.calls, counts.writes, counts.requests]
}

// === impl Tally ===

impl Tally {
    /// Counts a decision; how long its client has to wait, if it is denied.
    fn add(&mut self, client: &str, outcome: &Outcome) -> Option<Wait> {
        self.attempts += 1;
        let answer = match outcome {
            Outcome::Failed(_) | Outcome::Cancelled => {
                self.failed += 1;
                return None;
            }
            Outcome::FellBack(answer) => {
                self.without_redis += 1;
                answer
            }
            Outcome::Decided(answer) => answer,
        };
        if answer.is_allowed() {
            *self.allowed.entry(client.to_owned()).or_default() += 1;
        }
        answer.denial.map(|denial| denial.wait)
    }

    /// Counts a request that found no instance.
    const fn fail(&mut self) {
        self.attempts += 1;
        self.failed += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fleet(mode: Mode) -> Fleet {
        let workload = "poisson 100/s keys 5 for 6s".parse().expect("it is valid");
        Fleet::new(3, mode, Limit::per_second(10), vec![workload])
    }

    #[test]
    fn strict_instances_allow_what_one_would_and_ask_for_each_request() {
        let totals = fleet(Mode::Strict).predict();
        // Two requests within a message's delay may change places, at the edge of a limit.
        let difference = totals.over + totals.under;
        assert!(difference <= totals.exact / 50, "{totals:?}");
        assert!(totals.allowed > 0 && totals.allowed < totals.offered);
        assert_eq!((totals.failed, totals.without_redis), (0, 0));
        // Denials are cached, so not every request is sent.
        assert!((totals.allowed..=totals.offered).contains(&totals.to_redis));
    }

    #[test]
    fn local_counts_allow_more_and_send_less_the_rarer_they_are_reported() {
        let strict = fleet(Mode::Strict).predict();
        let often = fleet(Mode::WriteBack).predict();
        let rarely = Fleet {
            sync_ms: 1_000,
            ..fleet(Mode::WriteBack)
        }
        .predict();
        assert!(strict.over < often.over && often.over < rarely.over);
        assert!(strict.to_redis > often.to_redis && often.to_redis > rarely.to_redis);
    }

    #[test]
    fn denied_clients_try_again_and_redis_keeps_a_key_for_each() {
        let with = |words: &str| {
            let workload = words.parse().expect("it is valid");
            let limit = "10/s token_bucket".parse().expect("it is a limit");
            Fleet::new(3, Mode::Strict, limit, vec![workload]).predict()
        };
        let once = with("bursts 40 every 1h keys 2");
        // Two clients have 10 at once and 10 a second.
        assert_eq!((once.offered, once.attempts, once.allowed), (40, 40, 20));
        assert!(
            once.redis_keys >= 2 && once.redis_bytes > 2 * 104,
            "{once:?}"
        );
        let storm = with("bursts 40 every 1h keys 2 retry every 100ms attempts 20");
        assert_eq!((storm.offered, storm.allowed), (40, 40));
        assert_eq!((storm.exact, storm.over, storm.under), (40, 0, 0));
        // 20 are denied at first. Every 100 ms, each client has one more allowed: 20, 18, ... 2.
        assert_eq!(storm.attempts, 40 + 110, "{storm:?}");
        assert!(storm.length > Span::from_millis(900), "{storm:?}");
        let patient = with("bursts 40 every 1h keys 2 retry retry-after");
        assert!(patient.attempts < storm.attempts, "{patient:?}");
    }

    #[test]
    fn a_request_that_finds_no_instance_has_failed() {
        let alone = Fleet {
            instances: 1,
            incidents: vec![(Span::from_secs(2), Incident::Crash)],
            ..fleet(Mode::Strict)
        };
        let totals = alone.predict();
        assert!(totals.failed > 50, "{totals:?}");
        assert_eq!(totals.attempts, totals.offered);
    }

    #[test]
    fn a_fleet_has_one_prediction_and_another_one_with_an_outage() {
        let quiet = fleet(Mode::Strict);
        assert_eq!(quiet.predict(), quiet.predict());
        for incident in [
            Incident::Outage(Span::from_secs(2)),
            Incident::Failover(Span::from_millis(500)),
        ] {
            let disturbed = Fleet {
                incidents: vec![(Span::from_secs(2), incident)],
                ..fleet(Mode::Strict)
            };
            let totals = disturbed.predict();
            assert!(totals.without_redis > 0 && totals.over > 0, "{totals:?}");
        }
        let crashed = Fleet {
            incidents: vec![(Span::from_secs(2), Incident::Crash)],
            ..fleet(Mode::WriteBack)
        };
        assert_ne!(crashed.predict(), fleet(Mode::WriteBack).predict());
    }
}
