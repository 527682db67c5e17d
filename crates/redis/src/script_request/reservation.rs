//! Parts of requests over several slots, packed for `reservation.lua`.
//!
//! For each request the step (1), which reserves, confirms or charges immediately; the kind (1),
//! the interval or the window (6), the capacity (4), the units that must fit (4) and those to be
//! taken (4) for one request, the number of requests (4), and the name (8); for a step that does
//! not confirm, whether the limit is enforced (1) and the lifetime of the reservation (5).

use bytes::BufMut;
use tollgate_core::Enforcement;

use super::{General, ScriptKind, ScriptRequest, Step, StepLine, StepNumber, UNITS_MAX};
use crate::fit::Kind;

impl ScriptRequest {
    /// One step on one line, for `reservation.lua`; `None` if it needs the general script.
    pub(crate) fn reservation(step: Step, lines: &[StepLine<'_, '_>]) -> Option<ScriptRequest> {
        let [one] = lines else { return None };
        match step {
            Step::Reserve { name, lasts } => pack(StepNumber::Reserve, one, name, lasts),
            Step::Confirm { name } => pack(StepNumber::Confirm, one, name, 0),
            Step::Decide | Step::Lease(_) | Step::Undo { .. } => None,
        }
    }

    /// Charges immediately what would be reserved and confirmed; `None` if it needs the general
    /// script.
    pub(crate) fn charge_at_once(one: &StepLine<'_, '_>) -> Option<ScriptRequest> {
        pack(StepNumber::ChargeAtOnce, one, 0, 0)
    }

    pub(crate) fn may_charge_at_once(one: &StepLine<'_, '_>) -> bool {
        units(one).is_some()
    }
}

/// Packs one step on one line.
fn pack(step: StepNumber, one: &StepLine<'_, '_>, name: u64, lasts: u64) -> Option<ScriptRequest> {
    let [judged, take] = units(one)?;
    let capacity = one.fitted.limit.capacity();
    let mut packed = Vec::with_capacity(42);
    packed.put_slice(&[step.byte(), one.fitted.kind.byte()]);
    packed.put_uint(one.fitted.span, 6);
    for units in [capacity, judged, take, one.times] {
        packed.put_u32(units);
    }
    packed.put_u64(name);
    if step != StepNumber::Confirm {
        let is_enforced = one.line.charge.enforcement == Enforcement::Enforce;
        packed.put_u8(u8::from(is_enforced));
        packed.put_uint(lasts.min(UNITS_MAX), 5);
    }
    Some(ScriptRequest::General(General {
        script: ScriptKind::Reservation,
        keys: vec![one.line.charge.key],
        packed,
        states: usize::from(step != StepNumber::Confirm),
        writes: true,
        is_last_step: step != StepNumber::Reserve,
    }))
}

/// The units that must fit and those to be taken; `None` if the line needs the general script.
pub(super) fn units(one: &StepLine<'_, '_>) -> Option<[u32; 2]> {
    let judged = u32::try_from(one.line.units_judged()?).ok()?;
    let take = u32::try_from(one.line.take()).ok()?;
    let is_short = is_simple(one) && judged <= one.fitted.limit.capacity();
    is_short.then_some([judged, take])
}

/// Whether a line charges only what is allowed, to a bucket or a window aligned to the clock, by
/// the limit that judges it.
fn is_simple(one: &StepLine<'_, '_>) -> bool {
    let kind = one.fitted.kind;
    (kind == Kind::FixedClock || kind.is_bucket())
        && one.line.refund() == 0
        && one.denied == 0
        && one.line.widest() == one.line.charge.limit
}
