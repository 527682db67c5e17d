//! What came of the requests that were sent.

use std::collections::BTreeMap;
use std::fmt;
use std::num::NonZeroUsize;
use std::time::Duration;

use serde_json::{Value, json};

use super::answer::{Decision, Unanswered};
use super::bounds::LATE_MAX;
use super::histogram::Histogram;
use super::pace::Speed;
use crate::message::pluralize;
use crate::service_url::ServiceUrl;

/// The version of the report in JSON.
const VERSION: u32 = 1;
/// The most reasons of errors that are counted one by one.
const REASONS_MAX: usize = 20;
/// The other reasons.
const OTHERS: &str = "other reasons";
/// The percentiles of a report, as shares, and their names.
const PERCENTILES: [(f64, &str); 4] = [(0.5, "p50"), (0.9, "p90"), (0.99, "p99"), (0.999, "p99.9")];

/// What came of the requests so far.
#[derive(Clone, Debug, Default)]
pub(super) struct Sums {
    /// Those whose time has come.
    pub(super) offered: u64,
    pub(super) sent: u64,
    /// Those that were not sent, because too many were in flight.
    pub(super) not_sent: u64,
    pub(super) allowed: u64,
    /// Of those that are allowed, those that no rule with a limit matched.
    without_limit: u64,
    pub(super) denied: u64,
    pub(super) errors: u64,
    /// Errors by reason, with an example.
    reasons: BTreeMap<String, (u64, String)>,
    /// How late requests were sent.
    pub(super) late: Histogram,
    /// How long decisions took, from sending to the end of the answer.
    pub(super) latency: Histogram,
}

/// The sums and where they are from, for people and programs.
pub(super) struct DriveReport<'a> {
    pub(super) sums: &'a Sums,
    pub(super) url: &'a ServiceUrl,
    pub(super) speed: Speed,
    pub(super) elapsed: Duration,
    pub(super) in_flight: NonZeroUsize,
}

/// A time in milliseconds, with three decimals.
struct Millis(Duration);

// === impl Sums ===

impl Sums {
    /// Counts a request that is sent, this late; `None` if it has no time of its own.
    pub(super) fn send(&mut self, late: Option<Duration>) {
        self.sent += 1;
        if let Some(late) = late {
            self.late.add(late);
        }
    }

    /// Counts what came of a request that was sent.
    pub(super) fn add(&mut self, answer: Result<Decision, Unanswered>, took: Duration) {
        match answer {
            Ok(Decision::Allowed) => self.allowed += 1,
            Ok(Decision::WithoutLimit) => {
                self.allowed += 1;
                self.without_limit += 1;
            }
            Ok(Decision::Denied) => self.denied += 1,
            Err(why) => {
                self.errors += 1;
                let reason = why.reason();
                let is_known = self.reasons.contains_key(&reason);
                let (reason, example) = match is_known || self.reasons.len() < REASONS_MAX {
                    true => (reason, why.to_string()),
                    false => (OTHERS.to_owned(), OTHERS.to_owned()),
                };
                self.reasons.entry(reason).or_insert((0, example)).0 += 1;
                return;
            }
        }
        self.latency.add(took);
    }

    /// Requests with a decision.
    pub(super) const fn decisions(&self) -> u64 {
        self.allowed + self.denied
    }

    /// Whether so many requests, or more, have failed and none has a decision.
    pub(super) const fn has_no_decision(&self, most: u64) -> bool {
        self.decisions() == 0 && self.errors >= most
    }

    /// Requests that were in flight when sending was interrupted.
    const fn in_flight(&self) -> u64 {
        self.sent - self.decisions() - self.errors
    }

    /// The reasons of errors with an example of each, the most frequent first.
    fn reasons(&self) -> Vec<&(u64, String)> {
        let mut reasons: Vec<_> = self.reasons.values().collect();
        reasons.sort_by(|one, other| (other.0, &one.1).cmp(&(one.0, &other.1)));
        reasons
    }
}

// === impl DriveReport ===

impl DriveReport<'_> {
    /// The report as a JSON object.
    pub(super) fn to_json(&self) -> Value {
        let sums = self.sums;
        let times = |histogram: &Histogram| {
            let mut times = json!({"max": micros(histogram.most())});
            for (share, name) in PERCENTILES {
                times[name] = micros(histogram.percentile(share));
            }
            match histogram.is_empty() {
                true => Value::Null,
                false => times,
            }
        };
        let reasons = sums.reasons().into_iter();
        let reasons = reasons.map(|(count, reason)| json!({"reason": reason, "count": count}));
        json!({
            "version": VERSION,
            "target": self.url.to_string(),
            "speed": self.speed.to_string(),
            "inFlight": self.in_flight,
            "offered": sums.offered,
            "sent": sums.sent,
            "allowed": sums.allowed,
            "withoutLimit": sums.without_limit,
            "denied": sums.denied,
            "errors": sums.errors,
            "notSent": sums.not_sent,
            "unanswered": sums.in_flight(),
            "errorReasons": reasons.collect::<Vec<_>>(),
            "elapsedMicros": micros(self.elapsed),
            "lateMicros": times(&sums.late),
            "latencyMicros": times(&sums.latency),
        })
    }

    /// Writes a row of percentiles.
    fn times(name: &str, histogram: &Histogram, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{name:>12}")?;
        for (share, _) in PERCENTILES {
            write!(
                f,
                " {:>10}",
                Millis(histogram.percentile(share)).to_string()
            )?;
        }
        writeln!(f, " {:>10}", Millis(histogram.most()).to_string())
    }
}

fn micros(time: Duration) -> Value {
    json!(u64::try_from(time.as_micros()).unwrap_or(u64::MAX))
}

impl fmt::Display for DriveReport<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sums = self.sums;
        for (count, what) in [
            (sums.offered, "offered"),
            (sums.allowed, "allowed"),
            (sums.denied, "denied"),
            (sums.errors, "failed, without a decision"),
            (sums.not_sent, "not sent"),
        ] {
            writeln!(f, "{count:>12} {what}")?;
        }
        if sums.without_limit > 0 {
            writeln!(f, "{:>12} met no limit", sums.without_limit)?;
        }
        if sums.in_flight() > 0 {
            writeln!(f, "{:>12} in flight when it ended", sums.in_flight())?;
        }
        let millis = self.elapsed.as_millis();
        let rate = u128::from(sums.sent) * 1000 / millis.max(1);
        writeln!(
            f,
            "\n{} sent to {} in {}.{:03} s at {}: {rate} per second",
            pluralize(sums.sent, "request"),
            self.url,
            millis / 1000,
            millis % 1000,
            self.speed
        )?;
        if sums.not_sent > 0 {
            writeln!(
                f,
                "What was not sent found {} waiting for answers for {} s: --in-flight is the most.",
                pluralize(self.in_flight, "request"),
                LATE_MAX.as_secs()
            )?;
        }
        if !(sums.late.is_empty() && sums.latency.is_empty()) {
            let head = PERCENTILES.map(|(_, name)| format!("{name:>10}")).join(" ");
            writeln!(f, "\n{:>12} {head} {:>10}", "milliseconds", "max")?;
        }
        for (name, histogram) in [("sent late", &sums.late), ("latency", &sums.latency)] {
            if !histogram.is_empty() {
                DriveReport::times(name, histogram, f)?;
            }
        }
        if !sums.reasons.is_empty() {
            writeln!(f, "\n{:>12}  reason", "errors")?;
        }
        for (count, reason) in sums.reasons() {
            writeln!(f, "{count:>12}  {reason}")?;
        }
        Ok(())
    }
}

// === impl Millis ===

impl fmt::Display for Millis {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let micros = self.0.as_micros();
        write!(f, "{}.{:03}", micros / 1000, micros % 1000)
    }
}

#[cfg(test)]
mod tests {
    use http::StatusCode;

    use super::*;

    #[test]
    fn reasons_are_bounded_and_add_up() {
        let mut sums = Sums::default();
        for code in 500..530 {
            let status = StatusCode::from_u16(code).unwrap_or_default();
            for _ in 500..=code {
                sums.send(None);
                sums.add(Err(Unanswered::Status(status, None)), Duration::ZERO);
            }
        }
        assert_eq!(sums.reasons.len(), REASONS_MAX + 1);
        let count: u64 = sums.reasons().iter().map(|(count, _)| count).sum();
        assert_eq!((count, sums.errors, sums.in_flight()), (465, 465, 0));
        let first = sums.reasons()[0];
        assert_eq!(first, &((21..=30).sum::<u64>(), OTHERS.to_owned()));
        assert!(sums.latency.is_empty());
    }
}
