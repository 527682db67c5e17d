//! One key with a local count.

use std::collections::VecDeque;
use std::sync::Arc;

use tokio::sync::Notify;
use tokio::sync::futures::OwnedNotified;
use tollgate_core::{Charge, Cost, Decision, Key, Limit, Moment, Span, StoreError, Usage, step};

use crate::denials::DENIAL_CACHE_MAX;
use crate::fit::FittedLimit;
use crate::fit::unfit;
use crate::snapshot::{Snapshot, moment};
use crate::write_back::report::Line;
use crate::write_back::tally::{Counting, Tally};

/// After how long an unused key is evicted, and after how long if it has expired.
const IDLE: Span = Span::from_secs(10);
const EXPIRED_IDLE: Span = Span::SECOND;
/// How far Redis's time may go back and still be taken for the same clock.
const CLOCK_STEP_MICROS_MAX: u64 = 1_000_000;

/// One key.
#[derive(Debug)]
pub(super) struct Entry {
    pub(super) limit: Limit,
    pub(super) fitted: FittedLimit,
    pub(super) tally: Tally,
    /// Whether the count is known: Redis has replied to everything sent since.
    pub(super) is_known: bool,
    /// Whether a script call on this key is in flight.
    pub(super) is_in_flight: bool,
    pub(super) is_dirty: bool,
    /// Whether the latest decision charged nothing: then no report follows it, whose reply would
    /// contain what happened elsewhere.
    charged_nothing: bool,
    /// When the first unit was allowed that is not reported yet, and the first of those in a report
    /// in flight.
    pub(super) since: Option<Moment>,
    pub(super) sent_since: Option<Moment>,
    /// Redis's time in microseconds, and the local time when its reply arrived.
    pub(super) now: u64,
    pub(super) received_at: Moment,
    /// The latest Redis time at which anything was decided.
    pub(super) latest: u64,
    pub(super) used_at: Moment,
    pub(super) answered: Arc<Notify>,
}

/// Whether a key can be decided on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Readiness {
    /// Its count is known and not too old, and nor are its unreported units.
    Ready,
    /// A script call on it is in flight.
    InFlight,
    /// There is something to report first.
    ToReport,
    /// Nothing to report, and its count is not known, or so old that no denial may rest on it.
    Unknown,
}

// === impl Entry ===

impl Entry {
    pub(super) fn new(limit: &Limit, fitted: FittedLimit, now: Moment) -> Entry {
        Entry {
            limit: *limit,
            tally: Tally::fresh(&fitted.limit),
            fitted,
            is_known: false,
            is_in_flight: false,
            is_dirty: false,
            charged_nothing: false,
            since: None,
            sent_since: None,
            now: 0,
            received_at: now,
            latest: 0,
            used_at: now,
            answered: Arc::new(Notify::new()),
        }
    }

    pub(super) fn readiness(&self, limit: &Limit, now: Moment, lasts: Span) -> Readiness {
        let oldest = self.sent_since.or(self.since);
        let is_overdue = oldest.is_some_and(|since| now.since(since) >= lasts);
        let is_stale = self.charged_nothing
            && oldest.is_none()
            && now.since(self.received_at) >= DENIAL_CACHE_MAX;
        if self.is_known && !is_overdue && !is_stale && self.limit == *limit {
            Readiness::Ready
        } else if self.is_in_flight {
            Readiness::InFlight
        } else if self.tally.is_reported() {
            Readiness::Unknown
        } else {
            Readiness::ToReport
        }
    }

    /// Whether a decision here adds a line to the next report: the key has none, and was not
    /// decided on within `lasts`.
    pub(super) fn is_new_line(&self, now: Moment, lasts: Span) -> bool {
        self.tally.is_reported() && now.since(self.used_at) >= lasts
    }

    /// The line to report before the key can be decided on under `limit`.
    pub(super) fn ask(&mut self, key: Key, limit: &Limit) -> Result<Line, StoreError> {
        self.adopt(limit)?;
        Ok(self.gather(key))
    }

    /// Begins a decision of Redis on this key, which has nothing to report: until the reply, no
    /// other request decides on it or sends one.
    pub(super) fn begin(&mut self, limit: &Limit) -> Result<FittedLimit, StoreError> {
        self.adopt(limit)?;
        self.is_in_flight = true;
        // Also if it was known: what was counted here meanwhile would be taken for charged when
        // the reply comes, and never be reported.
        self.is_known = false;
        Ok(self.fitted)
    }

    /// If the rule has changed, changes the limit; Redis migrates its state.
    fn adopt(&mut self, limit: &Limit) -> Result<(), StoreError> {
        if self.limit != *limit && self.tally.is_reported() {
            self.fitted = FittedLimit::new(limit).map_err(unfit)?;
            self.limit = *limit;
            self.tally = Tally::fresh(&self.fitted.limit);
            self.is_known = false;
        }
        Ok(())
    }

    pub(super) fn gather(&mut self, key: Key) -> Line {
        self.is_in_flight = true;
        let since = self.since.take();
        self.sent_since = since;
        let (base, parts) = self.tally.gather();
        Line {
            key,
            fitted: self.fitted,
            base,
            latest: self.latest,
            parts,
            since,
        }
    }

    /// Whether there is nothing to report and no report in flight.
    pub(super) fn is_reported(&self) -> bool {
        self.tally.is_reported() && !self.is_in_flight
    }

    /// Notified when Redis has replied, or will not.
    pub(super) fn subscribe(&self) -> OwnedNotified {
        Arc::clone(&self.answered).notified_owned()
    }

    /// A lower bound of Redis's time now, which never goes back.
    pub(super) fn redis_time(&self, now: Moment) -> u64 {
        let passed = now.since(self.received_at).as_nanos() / 1_000;
        let time = self.now.saturating_add(passed);
        if time < self.latest && self.latest - time < CLOCK_STEP_MICROS_MAX {
            return self.latest;
        }
        time
    }

    pub(super) fn step(&mut self, charge: &Charge<'_>, time: u64) -> Decision {
        let mut counting = Counting {
            tally: &mut self.tally,
            fitted: &self.fitted,
        };
        self.latest = time;
        let decision = step(
            &mut counting,
            &self.fitted.limit,
            moment(time),
            charge.cost,
            charge.on_own_denial(),
        );
        self.charged_nothing = !decision.is_allowed() || !matches!(charge.cost, Cost::Take(1..));
        decision
    }

    /// Takes back the tally after a decision on several keys at `time`.
    pub(super) fn take_back(&mut self, tally: Tally, time: u64, charged_nothing: bool) {
        self.tally = tally;
        self.latest = self.latest.max(time);
        self.charged_nothing = charged_nothing;
    }

    /// Notes that a decision was made.
    pub(super) fn mark_used(&mut self, key: Key, dirty: &mut VecDeque<Key>, now: Moment) {
        self.used_at = now;
        if self.tally.is_reported() {
            return;
        }
        self.since.get_or_insert(now);
        self.note_dirty(key, dirty);
    }

    pub(super) fn note_dirty(&mut self, key: Key, dirty: &mut VecDeque<Key>) {
        if !self.is_dirty {
            self.is_dirty = true;
            dirty.push_back(key);
        }
    }

    pub(super) fn apply_reply(&mut self, snapshot: Snapshot, redis_now: u64, now: Moment) {
        self.is_in_flight = false;
        self.is_known = true;
        self.sent_since = None;
        self.now = redis_now;
        self.received_at = now;
        let fitted = self.fitted;
        let back = self.latest.saturating_sub(redis_now);
        // Redis caps what a bucket owes at its own time: at a later one, it would seem to have
        // refilled.
        if back >= CLOCK_STEP_MICROS_MAX || (back > 0 && fitted.kind.is_bucket()) {
            self.latest = redis_now;
            self.tally.set_back(&fitted, back, moment(redis_now));
        }
        self.tally.apply_reply(snapshot, &fitted, moment(redis_now));
        self.answered.notify_waiters();
    }

    /// Repeats a decision of Redis on `charge`, from the state before it.
    pub(super) fn repeat_decision(
        &mut self,
        snapshot: Snapshot,
        charge: &Charge<'_>,
        redis_now: u64,
        now: Moment,
    ) -> Decision {
        self.apply_reply(snapshot, redis_now, now);
        let decision = self.step(charge, redis_now);
        self.tally.note_charged();
        self.used_at = now;
        decision
    }

    /// Notes that there is no reply. Reported units are lost, unless they were put back; the next
    /// decision fetches the count.
    pub(super) fn note_failure(&mut self) {
        self.is_in_flight = false;
        self.is_known = false;
        self.sent_since = None;
        self.answered.notify_waiters();
    }

    /// Whether evicting it loses nothing.
    pub(super) fn is_idle(&mut self, now: Moment, time: u64) -> bool {
        if self.is_in_flight || !self.tally.is_reported() {
            return false;
        }
        let unused_for = now.since(self.used_at);
        let counting = Counting {
            tally: &mut self.tally,
            fitted: &self.fitted,
        };
        unused_for >= IDLE
            || unused_for >= EXPIRED_IDLE && counting.expires_at(&self.fitted.limit) <= moment(time)
    }
}

const _: () = assert!(
    size_of::<Entry>() <= 320,
    "what the crate's documentation says of a key"
);

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use tollgate_core::{Account, Algorithm, Anchor};

    use super::*;

    const KEY: Key = Key::from_bits(7);
    /// Redis's time before it was set back, and after, in microseconds.
    const LATER: u64 = 30 * 3_600 * 1_000_000;
    const EARLIER: u64 = 10 * 3_600 * 1_000_000;

    /// The state in Redis after so many units at this time.
    fn charged(limit: &Limit, micros: u64, units: u32) -> Snapshot {
        let mut account = Account::fresh(limit);
        account.settle(limit, moment(micros));
        account.take(limit, moment(micros), units);
        Snapshot::Account(account)
    }

    /// Redis decides on a known key as well, if more lines wait than can be reported.
    #[test]
    fn no_unit_is_counted_here_while_redis_decides() {
        let limit = Limit::token_bucket(10, Span::HOUR).unwrap();
        let (now, fitted) = (Moment::ZERO, FittedLimit::new(&limit).unwrap());
        let mut entry = Entry::new(&limit, fitted, now);
        entry.apply_reply(charged(&limit, EARLIER, 1), EARLIER, now);
        let readiness = |entry: &Entry| entry.readiness(&limit, now, Span::SECOND);
        assert_eq!(readiness(&entry), Readiness::Ready);
        entry.begin(&limit).unwrap();
        assert_eq!(readiness(&entry), Readiness::InFlight);
        let one = Charge::new(KEY, &limit, Cost::ONE);
        let decision = entry.repeat_decision(charged(&limit, EARLIER, 1), &one, EARLIER, now);
        assert_eq!(
            (decision.remaining(), readiness(&entry)),
            (8, Readiness::Ready)
        );
        // Without a reply, the count is not known.
        entry.begin(&limit).unwrap();
        entry.note_failure();
        assert_eq!(readiness(&entry), Readiness::Unknown);
    }

    #[test]
    fn a_clock_of_redis_that_is_set_back_keeps_all_counts_and_locks_no_key() {
        let second = Span::SECOND;
        let first_request = Algorithm::FixedWindow(Anchor::FirstRequest);
        let limits = [
            Limit::token_bucket(1, second).and_then(|bucket| bucket.with_burst(10)),
            Limit::fixed_window(10, second.times(10)),
            Limit::new(first_request, 10, second.times(10)),
            Limit::sliding_window(10, second.times(10), 1),
            Limit::sliding_window(10, second.times(10), 10),
        ];
        for limit in limits.map(Result::unwrap) {
            let now = Moment::ZERO;
            let fitted = FittedLimit::new(&limit).unwrap();
            let mut entry = Entry::new(&limit, fitted, now);
            let take = |entry: &mut Entry, units| {
                let charge = Charge::new(KEY, &limit, Cost::Take(units));
                entry.step(&charge, entry.redis_time(now))
            };
            entry.apply_reply(charged(&limit, LATER, 6), LATER, now);
            assert!(take(&mut entry, 1).is_allowed());
            let _in_flight = entry.gather(KEY);
            assert!(take(&mut entry, 1).is_allowed());
            // The reply has what was in flight, and not what was allowed meanwhile.
            entry.apply_reply(charged(&limit, EARLIER, 7), EARLIER, now);
            let denied = take(&mut entry, 3);
            let wait = denied.wait().unwrap().to_duration().unwrap();
            assert_eq!(denied.remaining(), 2, "{limit:?}");
            assert!(wait <= second.times(20).into(), "{wait:?} of {limit:?}");
            assert!(take(&mut entry, 2).is_allowed(), "{limit:?}");
        }
    }

    /// As much as the system's clock is stepped by, in place of being slewed.
    #[test]
    fn a_bucket_does_not_refill_when_the_clock_of_redis_is_set_back_by_less_than_a_second() {
        let bucket = Limit::token_bucket(100, Span::SECOND);
        let limit = bucket.and_then(|bucket| bucket.with_burst(10)).unwrap();
        let (now, fitted) = (Moment::ZERO, FittedLimit::new(&limit).unwrap());
        let mut entry = Entry::new(&limit, fitted, now);
        let one = Charge::new(KEY, &limit, Cost::ONE);
        for redis_now in [LATER, LATER - 900_000, LATER - 900_000 - 100] {
            entry.apply_reply(charged(&limit, redis_now, 10), redis_now, now);
            let decision = entry.step(&one, entry.redis_time(now));
            assert!(!decision.is_allowed(), "{redis_now}");
        }
    }
}
