//! What the callers saw.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tollgate_core::{Cost, Limit, Mode, StoreError, Verdict};
use tollgate_redis::Redis;

use crate::traffic::{CONTROL, KEYS, Kind, NODES, WRITE_BACK_KEYS, charge, key};

/// What a decision may take beyond its budget and what the machine adds to a timer: the way back
/// to the caller.
pub(crate) const WAY_BACK: Duration = Duration::from_millis(2);

/// One decision, as its caller saw it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Snapshot {
    pub(crate) at: Instant,
    pub(crate) took: Duration,
    pub(crate) node: usize,
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
    /// Other requests were in the way for too long.
    Contended,
    /// It may have been charged.
    Lost,
}

pub(crate) struct Record {
    pub(crate) snapshot: Vec<Snapshot>,
    /// What timers took beside it, the shortest first.
    pub(crate) control: Vec<Duration>,
    pub(crate) nodes: [Arc<Redis>; NODES],
    pub(crate) timeout: Duration,
    /// For how long a node may allow on its own count what Redis does not know.
    pub(crate) untold: Duration,
    pub(crate) limit: Limit,
}

// === impl Outcome ===

impl Outcome {
    pub(crate) fn of(decided: Result<Verdict, StoreError>) -> Outcome {
        match decided {
            Ok(verdict) if verdict.is_allowed() => Outcome::Allowed,
            Ok(_) => Outcome::Denied,
            Err(StoreError::TimedOut { .. }) => Outcome::Lost,
            Err(StoreError::Unreachable { .. }) => Outcome::Unreachable,
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
    /// The node that is asked in every mode.
    pub(crate) fn store(&self) -> &Redis {
        &self.nodes[0]
    }

    pub(crate) fn count(&self, outcome: Outcome) -> usize {
        let same = self
            .snapshot
            .iter()
            .filter(|snapshot| snapshot.outcome == outcome);
        same.count()
    }

    /// Decisions without an answer.
    pub(crate) fn failed(&self) -> usize {
        let failed = self
            .snapshot
            .iter()
            .filter(|snapshot| !snapshot.outcome.is_answer());
        failed.count()
    }

    /// How long after `from` there was service again: the end of the last tenth of a second in
    /// which a tenth of the decisions had no answer.
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

    /// Prints the row, and holds the decisions since `fault` to the budget: what beside them an
    /// ordinary timer was late, is the machine's.
    pub(crate) fn tell(&self, what: &str, fault: Instant) {
        let since = self.snapshot.iter().filter(|snapshot| snapshot.at >= fault);
        let mut took: Vec<Duration> = since.map(|snapshot| snapshot.took).collect();
        took.sort();
        println!(
            "{what}: {} decisions, {} allowed, {} denied, {} unreachable, {} contended, {} lost; \
             since the fault p50 {:.1?}, p99 {:.1?}, p99.9 {:.1?}, longest {:.1?} (timers of \
             {CONTROL:?}: p99 {:.1?}, p99.9 {:.1?}, longest {:.1?}); service again {:.1?} after it",
            self.snapshot.len(),
            self.count(Outcome::Allowed),
            self.count(Outcome::Denied),
            self.count(Outcome::Unreachable),
            self.count(Outcome::Contended),
            self.count(Outcome::Lost),
            part(&took, 500),
            part(&took, 990),
            part(&took, 999),
            part(&took, 1_000),
            part(&self.control, 990),
            part(&self.control, 999),
            part(&self.control, 1_000),
            self.outage(fault),
        );
        // Two tasks are woken one after the other: the timer, and the caller.
        let machine = 2 * (part(&self.control, 999) - CONTROL);
        let most = self.timeout + machine + WAY_BACK;
        let late = part(&took, 999);
        assert!(late <= most, "{what}: {late:?} of {most:?}");
    }

    /// Never more than the limit was allowed, and what Redis counted beyond that was lost
    /// answers, or was on leases when an answer about them was lost.
    pub(crate) async fn is_exact(&self) {
        for node in &self.nodes {
            node.close().await;
        }
        self.exceeds_by_the_bound().await;
        let lost = self.count(Outcome::Lost);
        let mut abandoned = 0;
        for number in 0..KEYS {
            let [allowed, lost_here] = self.of_key(number, Mode::Strict);
            let counted = self.counted(number, Mode::Strict).await;
            assert!(counted >= allowed, "{counted} counted, {allowed} allowed");
            let most = allowed + lost_here;
            assert!(
                counted <= most,
                "{counted} counted, {allowed} + {lost_here}"
            );

            let [allowed, lost_here] = self.of_key(number, Mode::Leased);
            let counted = self.counted(number, Mode::Leased).await;
            assert!(counted >= allowed, "{counted} counted, {allowed} allowed");
            if lost == 0 {
                assert_eq!(counted, allowed);
            }
            abandoned += counted.saturating_sub(allowed + lost_here);
        }
        println!("  units that were out on leases whose answers were lost: {abandoned}");
    }

    /// What nodes allowed on their own count is charged once, but for what was in lost reports;
    /// and too much was allowed by no more than the bound, and as much again.
    async fn exceeds_by_the_bound(&self) {
        let capacity = self.limit.capacity();
        let (mut over, mut unknown, mut bounds, mut reports) = (0, 0, 0, 0);
        for number in 0..WRITE_BACK_KEYS {
            let [allowed, lost_here] = self.of_key(number, Mode::WriteBack);
            let counted = self.counted(number, Mode::WriteBack).await;
            let asked = [0, 1].map(|node| self.asked_within(number, node));
            // Any node may be the one that was asked last.
            let bound = asked[0].max(asked[1]).min(capacity);
            let lost = [0, 1].map(|node| self.nodes[node].counts().reports_lost);
            let lost = lost.map(|reports| u32::try_from(reports).unwrap());
            let may_be_lost = asked[0] * lost[0] + asked[1] * lost[1];
            // A decision that Redis made may have lost its answer.
            assert!(
                counted <= allowed + lost_here,
                "{counted} counted, {allowed} + {lost_here}"
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

    /// The most units of a write_back key that a node was asked for while Redis need not know.
    fn asked_within(&self, number: usize, node: usize) -> u32 {
        let asked = self.snapshot.iter().filter(|snapshot| {
            snapshot.kind == Kind::WriteBack
                && snapshot.node == node
                && snapshot.keys.contains(&Some(number))
        });
        let asked: Vec<Instant> = asked.map(|snapshot| snapshot.at).collect();
        let within = |end: usize| {
            let is_before = |at: &Instant| *at + self.untold < asked[end];
            end + 1 - asked.partition_point(is_before)
        };
        let most = (0..asked.len()).map(within).max();
        most.map_or(0, |most| u32::try_from(most).unwrap())
    }

    /// Units of a key that were allowed, and that may have been charged without an answer.
    fn of_key(&self, number: usize, mode: Mode) -> [u32; 2] {
        let of_key = self.snapshot.iter().filter(|snapshot| {
            snapshot.kind.mode() == mode && snapshot.keys.contains(&Some(number))
        });
        let count = |outcomes: &[Outcome]| {
            let same = of_key.clone();
            let same = same.filter(|snapshot| outcomes.contains(&snapshot.outcome));
            u32::try_from(same.count()).unwrap()
        };
        let may_be = [Outcome::Lost, Outcome::Contended];
        [count(&[Outcome::Allowed]), count(&may_be)]
    }

    /// What Redis has counted of a key.
    async fn counted(&self, number: usize, mode: Mode) -> u32 {
        let key = key(self.store(), mode, number);
        // As Redis has it: a node would tell its own count.
        let peek = charge(key, &self.limit, Mode::Strict, Cost::Peek(1));
        for _ in 0..1_000 {
            // A peek may be lost as often as the machine is too busy for the timeout.
            if let Ok(verdict) = self.store().decide(&[peek]).await {
                return self.limit.capacity() - verdict.decisions[0].remaining();
            }
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        panic!("Redis does not answer");
    }
}

/// Below which so many of a thousand are.
fn part(sorted: &[Duration], per_mille: usize) -> Duration {
    match sorted.len() {
        0 => Duration::ZERO,
        count => sorted[(count - 1) * per_mille / 1_000],
    }
}
