//! The course of an attack or a load: what it did, and what came of it.

use std::sync::atomic::Ordering;
use std::time::Duration;

use tokio::runtime::Runtime;
use tokio::time::{Instant, sleep, timeout};

use crate::attacks::kept::{Kept, keep};
use crate::attacks::{Answered, Attack, Attacking, Begin, Effect};
use crate::metrics;
use crate::service::{Kind, Service, Surroundings};
use crate::stream::Traffic;
use crate::target::Target;

/// How often the metric of an effect is read during an attack.
const READ_EVERY: Duration = Duration::from_millis(100);
/// For how much longer an attack goes on whose effect is not seen.
const EFFECT_WITHIN: Duration = Duration::from_secs(20);

/// What an attack or a load did, and what came of it.
#[derive(Debug)]
pub(crate) struct Course {
    pub(crate) effect: Effect,
    pub(crate) traffic: Traffic,
    /// By how much the metric of the effect has grown, or how high its gauge was.
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
    let restarts = || surroundings.restarts.load(Ordering::Relaxed);
    let (traffic, restarted) = (Traffic::now(), restarts());
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
            let until_seen = attack_until_seen(attack.effect, service.target, lasts, attacking);
            course.counted = runtime.block_on(until_seen);
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
    course.restarts = restarts() - restarted;
    course
}

/// Lets an attack go on for so long, and then until its effect is seen, or for [`EFFECT_WITHIN`]:
/// a slow machine has hardly begun with it after a second. Returns the most that was seen of it.
async fn attack_until_seen(
    effect: Effect,
    target: Target,
    lasts: Duration,
    attacking: Attacking,
) -> u64 {
    let end = Instant::now() + lasts;
    let before = effect.read(target).await;
    let mut most = 0;
    let watching = async {
        loop {
            most = effect.seen(before, effect.read(target).await).max(most);
            if Instant::now() >= end && effect.is_had(most) {
                return;
            }
            sleep(READ_EVERY).await;
        }
    };
    let attacking = async {
        tokio::select! {
            () = watching => {}
            _ended = attacking => {}
        }
    };
    let _over = timeout(lasts + EFFECT_WITHIN, attacking).await;
    effect.seen(before, effect.read(target).await).max(most)
}

// === impl Effect ===

impl Effect {
    /// The metric's value. Without an answer nothing was counted, which is a fault if something
    /// must be.
    async fn read(self, target: Target) -> u64 {
        match self {
            Effect::Counted(name) | Effect::Reached(name, _) => {
                let text = metrics::read(target).await.unwrap_or_default();
                metrics::value(&text, name)
            }
            Effect::None | Effect::Restarted => 0,
        }
    }

    /// By how much a counter has grown since `before`, or how high a gauge is.
    const fn seen(self, before: u64, value: u64) -> u64 {
        match self {
            Effect::Counted(_) => value.saturating_sub(before),
            Effect::Reached(..) => value,
            Effect::None | Effect::Restarted => 0,
        }
    }

    /// Whether so much of it is enough.
    const fn is_had(self, seen: u64) -> bool {
        match self {
            Effect::Counted(_) => seen > 0,
            Effect::Reached(_, least) => seen >= least,
            Effect::None | Effect::Restarted => true,
        }
    }
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
            Effect::Counted(name) if !self.effect.is_had(self.counted) => {
                fault(&format!("`{name}` has not grown"));
            }
            Effect::Reached(name, least) if !self.effect.is_had(self.counted) => {
                fault(&format!(
                    "`{name}` was {} at most, not {least}",
                    self.counted
                ));
            }
            Effect::Restarted if self.restarts == 0 => fault("the upstream did not restart"),
            Effect::Restarted if self.recovered == 0 => {
                fault("no request was answered after a restart of the upstream");
            }
            Effect::None | Effect::Counted(_) | Effect::Reached(..) | Effect::Restarted => {}
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
            |course| {
                course.effect = Effect::Reached("connections", 8);
                course.counted = 7;
            },
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
                course.effect = Effect::Reached("connections", 8);
                course.counted = 8;
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
