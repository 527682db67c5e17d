//! A request in flight, and the settlement of its reservation.

use std::sync::Arc;

use tokio::time::{Duration, sleep};
use tollgate_engine::ReservationId;

use crate::fault_kind::FaultKind;
use crate::instance::Instance;
use crate::outcome::{Outcome, SettleOutcome};
use crate::plan::{Cancel, Counter, Part, Plan, Settle};
use crate::rules_file;
use crate::world::World;

/// A request in flight.
pub(super) struct RequestInFlight {
    pub(super) number: u64,
    pub(super) parts: Vec<Part>,
    pub(super) has_priority: bool,
    /// It makes a reservation, and these instances settle it.
    pub(super) settles: Option<Vec<(Instance, Settle)>>,
    pub(super) cancel: Option<Cancel>,
    pub(super) plan: Arc<Plan>,
}

impl RequestInFlight {
    /// Decides on the request, and tells the account when it began, when it ended and how.
    pub(super) async fn decide(self, world: Arc<World>, instance: Instance) {
        let request = rules_file::request(&self.plan, &self.parts, self.has_priority);
        let parts = &self.parts;
        let number = self.number;
        world.note(format!(
            "instance {} asks {number}: {parts:?}{}{}",
            instance.number,
            if self.has_priority { ", critical" } else { "" },
            if self.settles.is_some() {
                ", reserves"
            } else {
                ""
            },
        ));
        let from = world.now();
        world
            .account()
            .begin(number, from, instance.number, parts, self.has_priority);
        let (outcome, errors, id) = match self.settles {
            Some(_) => instance.reserve(&request, self.cancel).await,
            None => {
                let (outcome, errors) = instance.decide(&request, self.cancel).await;
                (outcome, errors, None)
            }
        };
        world.note(format!("decision {number}: {}", short(&outcome)));
        self.note_effects(&world, &instance, from, &outcome);
        let lost = instance.redis.counts().reports_lost;
        let now = world.now();
        world.account().reports_lost(instance.number, lost, now);
        world.account().end(number, now, &outcome, errors);
        if let (Some(id), Some(settles)) = (id, self.settles) {
            world
                .account()
                .add_reservation(number, parts[0], from, &outcome);
            for (index, (settler, settle)) in settles.into_iter().enumerate() {
                let world = Arc::clone(&world);
                tokio::spawn(settle_later(world, settler, (number, index), id, settle));
            }
        }
    }

    /// Counts the effects of faults on the decision, which has ended, or was cancelled.
    fn note_effects(&self, world: &World, instance: &Instance, from: u64, outcome: &Outcome) {
        let is_local = matches!(outcome, Outcome::FellBack(_));
        let has_wrong_clock = is_local && instance.has_set_wall();
        world
            .faults()
            .see_effect_if(FaultKind::Wall, has_wrong_clock);
        if self.cancel.is_none() {
            return;
        }
        let is_cancelled = matches!(outcome, Outcome::Cancelled);
        let is_late = is_cancelled && world.now() > from;
        let counts = instance.redis.departures();
        let [reserving, confirming] = world.note_departures(instance.number, counts);
        let counters = self
            .parts
            .iter()
            .map(|part| &self.plan.counters[part.counter]);
        let is_counted = self.settles.is_none() && counters.clone().all(Counter::has_local_counts);
        let is_joint = self.settles.is_none() && counters.count() > 1;
        let reserves = self.settles.is_some();
        let mut faults = world.faults();
        for (kind, is_inflicted, has_effect) in [
            (FaultKind::Cancel, true, is_cancelled),
            (FaultKind::CancelRound, is_joint, reserving),
            (FaultKind::CancelConfirm, is_joint, confirming),
            (FaultKind::CancelCount, is_counted, is_late),
            (FaultKind::CancelReserve, reserves, is_late),
        ] {
            if is_inflicted {
                faults.inflict(kind);
                faults.see_effect_if(kind, has_effect);
            }
        }
    }
}

/// Settles the reservation of a decision, and tells the account when that began, when it ended and
/// how. `attempt` has the number of the decision, and that of the attempt to settle it.
async fn settle_later(
    world: Arc<World>,
    settler: Instance,
    attempt: (u64, usize),
    id: ReservationId,
    settle: Settle,
) {
    sleep(Duration::from_millis(settle.after_ms)).await;
    let (number, index) = attempt;
    let Settle { actual, cancel, .. } = settle;
    world.note(format!(
        "instance {} settles {number} for {actual} ({index})",
        settler.number
    ));
    let from = world.now();
    world.account().settle_began(attempt, from, actual);
    let outcome = settler.settle(id, actual, cancel).await;
    if cancel.is_some() {
        let is_cancelled = matches!(outcome, SettleOutcome::Cancelled);
        let is_sent = is_cancelled && world.now() > from;
        let mut faults = world.faults();
        faults.inflict(FaultKind::Cancel);
        faults.see_effect_if(FaultKind::Cancel, is_cancelled);
        faults.inflict(FaultKind::CancelSettle);
        faults.see_effect_if(FaultKind::CancelSettle, is_sent);
    }
    world.note(format!(
        "settlement of {number} ({index}): {}",
        short_settlement(&outcome)
    ));
    let now = world.now();
    world.account().settle_ended(attempt, now, &outcome);
}

fn short(outcome: &Outcome) -> String {
    match outcome {
        Outcome::Decided(answer) => match answer.denial {
            None => "allowed".to_owned(),
            Some(denial) => format!("denied by {}, {:?}", denial.by, denial.wait),
        },
        Outcome::FellBack(answer) => match answer.denial {
            None => "allowed without Redis".to_owned(),
            Some(_) => "denied without Redis".to_owned(),
        },
        Outcome::Failed(error) => format!("failed: {error}"),
        Outcome::Cancelled => "cancelled".to_owned(),
    }
}

fn short_settlement(outcome: &SettleOutcome) -> String {
    match outcome {
        SettleOutcome::Settled(Some(charged)) => format!("{charged} charged"),
        SettleOutcome::Settled(None) => "nothing was charged".to_owned(),
        SettleOutcome::NotFound => "not found".to_owned(),
        SettleOutcome::Failed(error) => format!("failed: {error}"),
        SettleOutcome::Cancelled => "cancelled".to_owned(),
    }
}
