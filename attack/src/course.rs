//! The course of an attack or a load: what it did, and what came of it.

use std::sync::atomic::Ordering;
use std::time::Duration;

use tokio::runtime::Runtime;
use tokio::time::timeout;

use crate::attacks::kept::{Kept, keep};
use crate::attacks::{Answered, Attack, Begin, Effect};
use crate::metrics;
use crate::service::{Kind, Service, Surroundings};
use crate::stream::Traffic;

/// What an attack or a load did, and what came of it.
#[derive(Debug)]
pub(crate) struct Course {
    pub(crate) effect: Effect,
    pub(crate) traffic: Traffic,
    /// By how much the metric of the effect has grown.
    pub(crate) counted: u64,
    /// How often the upstream that restarts did so.
    pub(crate) restarts: u64,
    /// Of a load: the requests that were answered as they must be, and those of them that were the
    /// first ones after an error of the upstream.
    pub(crate) answered: Option<u64>,
    pub(crate) recovered: u64,
    /// Why a request of the load was not answered.
    pub(crate) failed: Option<String>,
    /// Of a row with idle connections.
    pub(crate) kept: Option<Kept>,
}

/// Runs an attack or a load for so long.
pub(crate) fn run(
    runtime: &Runtime,
    attack: &Attack,
    service: &Service,
    surroundings: &Surroundings<'_>,
    lasts: Duration,
) -> Course {
    // Without an answer nothing was counted, which is a fault if something must be.
    let count = || match attack.effect {
        Effect::Counted(name) => {
            let text = runtime.block_on(metrics::read(service.target));
            metrics::value(&text.unwrap_or_default(), name)
        }
        Effect::None | Effect::Ended | Effect::Restarted => 0,
    };
    let restarts = || surroundings.restarts.load(Ordering::Relaxed);
    let (traffic, counted, restarted) = (Traffic::now(), count(), restarts());
    let mut course = Course {
        effect: attack.effect,
        traffic: Traffic::default(),
        counted: 0,
        restarts: 0,
        answered: None,
        recovered: 0,
        failed: None,
        kept: None,
    };
    match attack.begin {
        Begin::Attack(begin) => {
            let attacking = begin(service.target);
            let _over = runtime.block_on(async { timeout(lasts, attacking).await });
        }
        Begin::Load(begin) => {
            let answered = Answered::default();
            let loading = begin(service.target, answered.clone());
            if let Kind::Idle(listener) = attack.kind {
                let keeping = keep(loading, listener, service.target, &answered, lasts);
                let (kept, failed) = runtime.block_on(keeping);
                course.failed = failed;
                course.kept = Some(kept);
            } else {
                let ended = runtime.block_on(async { timeout(lasts, loading).await });
                course.failed = ended.ok().map(|error| error.to_string());
            }
            course.answered = Some(answered.count());
            course.recovered = answered.count_recovered();
        }
    }
    course.traffic = Traffic::now().since(traffic);
    course.counted = count().saturating_sub(counted);
    course.restarts = restarts() - restarted;
    course
}

// === impl Course ===

impl Course {
    /// The requirements that are not met.
    pub(crate) fn faults(&self) -> Vec<String> {
        let mut faults = Vec::new();
        let mut fault = |what: &str| faults.push(what.to_owned());
        if self.traffic.opened == 0 {
            fault("no connection was opened");
        }
        if self.traffic.sent == 0 {
            fault("nothing was sent");
        }
        match self.effect {
            Effect::None => {}
            Effect::Ended if self.traffic.ended == 0 => {
                fault("the service ended no connection");
            }
            Effect::Counted(name) if self.counted == 0 => {
                fault(&format!("`{name}` has not grown"));
            }
            Effect::Restarted if self.restarts == 0 => fault("the upstream did not restart"),
            Effect::Restarted if self.recovered == 0 => {
                fault("no request was answered after a restart of the upstream");
            }
            Effect::Ended | Effect::Counted(_) | Effect::Restarted => {}
        }
        if let Some(kept) = &self.kept {
            faults.extend(kept.faults());
        } else if self.answered == Some(0) {
            faults.push("no request of the load was answered".to_owned());
        }
        if let Some(failed) = &self.failed {
            faults.push(format!("a request of the load failed: {failed}"));
        }
        faults
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    pub(crate) fn course() -> Course {
        Course {
            effect: Effect::None,
            traffic: Traffic {
                opened: 8,
                ended: 0,
                sent: 1_000,
            },
            counted: 0,
            restarts: 0,
            answered: Some(20),
            recovered: 0,
            failed: None,
            kept: None,
        }
    }

    #[test]
    fn every_requirement_can_be_missed() {
        assert_eq!(course().faults(), [""; 0]);
        let missed: [fn(&mut Course); 9] = [
            |course| course.traffic.opened = 0,
            |course| course.traffic.sent = 0,
            |course| course.effect = Effect::Ended,
            |course| course.effect = Effect::Counted("floods"),
            |course| course.effect = Effect::Restarted,
            |course| {
                course.effect = Effect::Restarted;
                course.restarts = 1;
            },
            |course| course.answered = Some(0),
            |course| course.failed = Some("status 500".to_owned()),
            |course| {
                course.kept = Some(Kept {
                    idle: 1,
                    ..Kept::default()
                });
            },
        ];
        for miss in missed {
            let mut course = course();
            miss(&mut course);
            assert_eq!(course.faults().len(), 1, "{course:?}");
        }
    }

    #[test]
    fn an_effect_that_was_had_is_no_fault() {
        let had: [fn(&mut Course); 3] = [
            |course| {
                course.effect = Effect::Ended;
                course.traffic.ended = 1;
            },
            |course| {
                course.effect = Effect::Counted("floods");
                course.counted = 1;
            },
            |course| {
                course.effect = Effect::Restarted;
                (course.restarts, course.recovered) = (1, 1);
            },
        ];
        for have in had {
            let mut course = course();
            have(&mut course);
            assert_eq!(course.faults(), [""; 0]);
        }
    }
}
