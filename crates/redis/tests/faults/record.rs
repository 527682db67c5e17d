//! What callers observed.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tollgate_core::{Cost, Limit, Mode, StoreError, Verdict};
use tollgate_redis::Redis;

use crate::traffic::{CONTROL, INSTANCES, KEYS, Kind, WRITE_BACK_KEYS, charge, key};

/// What a decision may take beyond its budget and the lateness of timers: the way back to the
/// caller.
pub(crate) const WAY_BACK: Duration = Duration::from_millis(2);

/// One decision, as its caller observed it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Snapshot {
    pub(crate) at: Instant,
    pub(crate) took: Duration,
    pub(crate) instance: usize,
    pub(crate) kind: Kind,
    pub(crate) keys: [Option<usize>; 2],
    pub(crate) outcome: Outcome,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Outcome {
    Allowed,
    Denied,
    /// Nothing was charged.
    Unreachable,
    /// Other requests held the reservations for too long.
    Contended,
    /// The outcome is unknown: it may have been charged.
    Unknown,
}

pub(crate) struct Record {
    pub(crate) snapshot: Vec<Snapshot>,
    /// How long the timers beside the traffic took, the shortest first.
    pub(crate) control: Vec<Duration>,
    pub(crate) instances: [Arc<Redis>; INSTANCES],
    pub(crate) timeout: Duration,
    /// How long an instance may decide on its local count without a reply from Redis.
    pub(crate) unreported_max: Duration,
    pub(crate) limit: Limit,
}

// === impl Outcome ===

impl Outcome {
    pub(crate) fn of(decided: Result<Verdict, StoreError>) -> Outcome {
        match decided {
            Ok(verdict) if verdict.is_allowed() => Outcome::Allowed,
            Ok(_) => Outcome::Denied,
            Err(StoreError::TimedOut { .. }) => Outcome::Unknown,
            Err(StoreError::Unreachable { .. } | StoreError::Rejected { .. }) => {
                Outcome::Unreachable
            }
            Err(StoreError::Contended) => Outcome::Contended,
            Err(other) => panic!("{other}: {:?}", std::error::Error::source(&other)),
        }
    }

    pub(crate) const fn is_answer(self) -> bool {
        matches!(self, Outcome::Allowed | Outcome::Denied)
    }
}

// === impl Record ===

impl Record {
    /// The instance that decides in every mode.
    pub(crate) fn store(&self) -> &Redis {
        &self.instances[0]
    }

    pub(crate) fn count(&self, outcome: Outcome) -> usize {
        let same = self
            .snapshot
            .iter()
            .filter(|snapshot| snapshot.outcome == outcome);
        same.count()
    }

    /// Decisions that failed.
    pub(crate) fn failed(&self) -> usize {
        let failed = self
            .snapshot
            .iter()
            .filter(|snapshot| !snapshot.outcome.is_answer());
        failed.count()
    }

    /// How long after `from` the outage ended: the end of the last tenth of a second in which at
    /// least a tenth of the decisions failed.
    pub(crate) fn outage(&self, from: Instant) -> Duration {
        let mut parts: BTreeMap<u128, (usize, usize)> = BTreeMap::new();
        for snapshot in self.snapshot.iter().filter(|snapshot| snapshot.at >= from) {
            let part = snapshot.at.duration_since(from).as_millis() / 100;
            let (all, failed) = parts.entry(part).or_default();
            *all += 1;
            *failed += usize::from(!snapshot.outcome.is_answer());
        }
        let bad = parts.iter().rfind(|(_, (all, failed))| failed * 10 >= *all);
        let ends = bad.map_or(0, |(part, _)| (part + 1) * 100);
        Duration::from_millis(ends.try_into().unwrap())
    }

    /// Prints the row of the table, and checks the time of decisions since `fault` against the
    /// budget plus the lateness of an ordinary timer beside them, which is the machine's.
    pub(crate) fn tell(&self, what: &str, fault: Instant) {
        let since = self.snapshot.iter().filter(|snapshot| snapshot.at >= fault);
        let mut took: Vec<Duration> = since.map(|snapshot| snapshot.took).collect();
        took.sort();
        println!(
            "{what}: {} decisions, {} allowed, {} denied, {} unreachable, {} contended, {} with \
             unknown outcome; since the fault p50 {:.1?}, p99 {:.1?}, p99.9 {:.1?}, longest \
             {:.1?} (timers of {CONTROL:?}: p99 {:.1?}, p99.9 {:.1?}, longest {:.1?}); service \
             again {:.1?} after it",
            self.snapshot.len(),
            self.count(Outcome::Allowed),
            self.count(Outcome::Denied),
            self.count(Outcome::Unreachable),
            self.count(Outcome::Contended),
            self.count(Outcome::Unknown),
            part(&took, 500),
            part(&took, 990),
            part(&took, 999),
            part(&took, 1_000),
            part(&self.control, 990),
            part(&self.control, 999),
            part(&self.control, 1_000),
            self.outage(fault),
        );
        // A decision that times out wakes two tasks one after the other: the timer's and the
        // caller's.
        let machine = 2 * (part(&self.control, 999) - CONTROL);
        let most = self.timeout + machine + WAY_BACK;
        let late = part(&took, 999);
        assert!(late <= most, "{what}: {late:?} of {most:?}");
    }

    /// No more was allowed than the limit. What Redis counted beyond that are decisions with an
    /// unknown outcome, or units that were leased when a reply about the lease was lost.
    pub(crate) async fn is_exact(&self) {
        for instance in &self.instances {
            instance.close().await;
        }
        self.exceeds_by_the_bound().await;
        let unknown = self.count(Outcome::Unknown);
        let mut abandoned = 0;
        for number in 0..KEYS {
            let [allowed, unknown_here] = self.of_key(number, Mode::Strict);
            let counted = self.counted(number, Mode::Strict).await;
            assert!(counted >= allowed, "{counted} counted, {allowed} allowed");
            let most = allowed + unknown_here;
            assert!(
                counted <= most,
                "{counted} counted, {allowed} + {unknown_here}"
            );

            let [allowed, unknown_here] = self.of_key(number, Mode::Leased);
            let counted = self.counted(number, Mode::Leased).await;
            assert!(counted >= allowed, "{counted} counted, {allowed} allowed");
            if unknown == 0 {
                assert_eq!(counted, allowed);
            }
            abandoned += counted.saturating_sub(allowed + unknown_here);
        }
        println!("  units that were out on leases whose answers were lost: {abandoned}");
    }

    /// What instances allowed on their local counts is charged exactly once, except for reports
    /// with an unknown outcome, and over-admission stays within the bound plus those reports.
    async fn exceeds_by_the_bound(&self) {
        let capacity = self.limit.capacity();
        let (mut over, mut unknown, mut bounds, mut reports) = (0, 0, 0, 0);
        for number in 0..WRITE_BACK_KEYS {
            let [allowed, unknown_here] = self.of_key(number, Mode::WriteBack);
            let counted = self.counted(number, Mode::WriteBack).await;
            let asked = [0, 1].map(|instance| self.asked_within(number, instance));
            // Either instance may be the last one that decided.
            let bound = asked[0].max(asked[1]).min(capacity);
            let lost = [0, 1].map(|instance| self.instances[instance].counts().reports_lost);
            let lost = lost.map(|reports| u32::try_from(reports).unwrap());
            let may_be_lost = asked[0] * lost[0] + asked[1] * lost[1];
            // Some of these decisions were made by Redis, and their replies may be lost.
            assert!(
                counted <= allowed + unknown_here,
                "{counted} counted, {allowed} + {unknown_here}"
            );
            assert!(
                counted + may_be_lost >= allowed.min(capacity),
                "{counted} counted, {allowed} allowed, at most {may_be_lost} lost"
            );
            assert!(
                allowed <= capacity + bound + may_be_lost,
                "{allowed} allowed of {capacity}, {bound} and {may_be_lost}"
            );
            over += allowed.saturating_sub(capacity);
            unknown += allowed.min(capacity).saturating_sub(counted);
            bounds += bound;
            reports = lost[0] + lost[1];
        }
        println!(
            "  write_back: on {WRITE_BACK_KEYS} keys {over} units too much, at most {bounds} are \
             promised; {reports} reports lost, {unknown} units allowed and not counted"
        );
    }

    /// The most units of a write-back key that were requested of an instance between two reports.
    fn asked_within(&self, number: usize, instance: usize) -> u32 {
        let asked = self.snapshot.iter().filter(|snapshot| {
            snapshot.kind == Kind::WriteBack
                && snapshot.instance == instance
                && snapshot.keys.contains(&Some(number))
        });
        let asked: Vec<Instant> = asked.map(|snapshot| snapshot.at).collect();
        let within = |end: usize| {
            let is_before = |at: &Instant| *at + self.unreported_max < asked[end];
            end + 1 - asked.partition_point(is_before)
        };
        let most = (0..asked.len()).map(within).max();
        most.map_or(0, |most| u32::try_from(most).unwrap())
    }

    /// Units of a key that were allowed, and those of decisions with an unknown outcome.
    fn of_key(&self, number: usize, mode: Mode) -> [u32; 2] {
        let of_key = self.snapshot.iter().filter(|snapshot| {
            snapshot.kind.mode() == mode && snapshot.keys.contains(&Some(number))
        });
        let count = |outcomes: &[Outcome]| {
            let same = of_key.clone();
            let same = same.filter(|snapshot| outcomes.contains(&snapshot.outcome));
            u32::try_from(same.count()).unwrap()
        };
        let may_be = [Outcome::Unknown, Outcome::Contended];
        [count(&[Outcome::Allowed]), count(&may_be)]
    }

    /// The units of a key that Redis has counted.
    async fn counted(&self, number: usize, mode: Mode) -> u32 {
        let key = key(self.store(), mode, number);
        // In strict mode: in write-back mode, the instance would return its local count.
        let peek = charge(key, &self.limit, Mode::Strict, Cost::Peek(1));
        for _ in 0..1_000 {
            // A peek may time out while the machine is busy.
            if let Ok(verdict) = self.store().decide(&[peek]).await {
                return self.limit.capacity() - verdict.decisions[0].remaining();
            }
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        panic!("Redis does not answer");
    }
}

/// The quantile at `per_mille` thousandths.
fn part(sorted: &[Duration], per_mille: usize) -> Duration {
    match sorted.len() {
        0 => Duration::ZERO,
        count => sorted[(count - 1) * per_mille / 1_000],
    }
}
