//! Whether connections that are to be idle are open, and delayed requests held.

use std::time::Duration;

use tokio::select;
use tokio::time::{Instant, sleep, timeout};

use super::load::{Answered, Loading};
use crate::metrics;
use crate::service::{DELAYED, IDLE_CONNECTIONS};
use crate::target::Target;

/// How long it may take until all connections are open.
const OPEN_WITHIN: Duration = Duration::from_secs(120);
/// How often the service is asked for its counts meanwhile.
const LOOK_EVERY: Duration = Duration::from_millis(100);
/// Decisions that allowed a request that is to be delayed, and requests in flight.
const DECIDED: &str =
    "tollgate_decisions_total{domain=\"d\",rule=\"route_delayed\",outcome=\"allowed\"}";
const IN_FLIGHT: &str = "tollgate_gateway_in_flight{limit=\"remote_address\"}";

/// What has become of the connections and requests of a row.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Kept {
    /// Answers on connections that were to be idle from then on, and how many there must be.
    pub(crate) answered: u64,
    pub(crate) idle: u64,
    /// Requests that were to be delayed.
    pub(crate) delayed: u64,
    /// Those of them that the service has allowed, and answered so far.
    pub(crate) allowed: u64,
    pub(crate) answered_delayed: u64,
    /// Requests in flight in the service; held ones are among them.
    pub(crate) in_flight: u64,
    /// Since the first request was sent, rounded up.
    pub(crate) seconds: u64,
}

/// Keeps connections to a listener for `lasts` from when all are open, and then looks at them.
/// Returns the first error as well.
pub(crate) async fn keep(
    loading: Loading,
    listener: &str,
    target: Target,
    answered: &Answered,
    lasts: Duration,
) -> (Kept, Option<String>) {
    let begun = Instant::now();
    let look = || look(listener, target, answered, begun);
    let keeping = async {
        let opening = async {
            while !look().await.is_open() {
                sleep(LOOK_EVERY).await;
            }
        };
        // Those that are not open by then are a fault of the row.
        let _in_time = timeout(OPEN_WITHIN, opening).await;
        sleep(lasts).await;
        look().await
    };
    select! {
        error = loading => (look().await, Some(error.to_string())),
        kept = keeping => (kept, None),
    }
}

/// What has become of them so far.
async fn look(listener: &str, target: Target, answered: &Answered, begun: Instant) -> Kept {
    let delayed = match listener {
        "gateway" => u64::from(DELAYED),
        _ => 0,
    };
    let text = match delayed {
        0 => String::new(),
        _ => metrics::read(target).await.unwrap_or_default(),
    };
    Kept {
        answered: answered.count(),
        idle: u64::from(IDLE_CONNECTIONS) - delayed,
        delayed,
        allowed: metrics::value(&text, DECIDED),
        in_flight: metrics::value(&text, IN_FLIGHT),
        // After the metrics: what ends in between is counted twice, not missed.
        answered_delayed: answered.count_delayed(),
        seconds: begun.elapsed().as_secs() + 1,
    }
}

// === impl Kept ===

impl Kept {
    /// Whether all connections are open, and all requests have got their turn in the queue.
    fn is_open(&self) -> bool {
        self.answered == self.idle && self.allowed == self.delayed
    }

    /// The requirements that are not met.
    pub(crate) fn faults(&self) -> Vec<String> {
        let mut faults = Vec::new();
        if self.answered != self.idle {
            faults.push(format!(
                "{} of {} idle connections were answered",
                self.answered, self.idle
            ));
        }
        if self.allowed != self.delayed {
            faults.push(format!(
                "{} of {} delayed requests were allowed",
                self.allowed, self.delayed
            ));
        }
        if self.in_flight + self.answered_delayed < self.delayed {
            faults.push(format!(
                "{} of {} delayed requests were answered, but only {} requests are held",
                self.answered_delayed, self.delayed, self.in_flight
            ));
        }
        // The first one at once, and then one each second.
        if self.answered_delayed > self.seconds + 1 {
            faults.push(format!(
                "{} delayed requests were answered in {} seconds",
                self.answered_delayed, self.seconds
            ));
        }
        faults
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kept() -> Kept {
        Kept {
            answered: 9_000,
            idle: 9_000,
            delayed: 1_000,
            allowed: 1_000,
            answered_delayed: 12,
            in_flight: 988,
            seconds: 11,
        }
    }

    #[test]
    fn every_requirement_can_be_missed() {
        assert!(kept().is_open());
        assert_eq!(kept().faults(), [""; 0]);
        let missed: [fn(&mut Kept); 4] = [
            |kept| kept.answered = 8_999,
            |kept| kept.allowed = 999,
            |kept| kept.in_flight = 987,
            |kept| kept.answered_delayed = 13,
        ];
        for miss in missed {
            let mut kept = kept();
            miss(&mut kept);
            assert_eq!(kept.faults().len(), 1, "{kept:?}");
        }
    }
}
