//! Parts of requests over several slots, packed for `reservation.lua`.
//!
//! Of each request the step (1), the kind (1), the interval or the window (6), the capacity (4),
//! the units that must fit (4) and those that are taken (4) for each request, for how many of them
//! they are (4), and the name (8); of a step that reserves, whether the limit is enforced (1) and
//! how long the reservation lasts (5).

use bytes::BufMut;
use tollgate_core::Enforcement;

use super::{Counted, General, ScriptRequest, Step, UNITS_MAX, Which};
use crate::fit::Kind;

impl ScriptRequest {
    /// One step with one line, for `reservation.lua`; nothing if that is for the general script.
    pub(crate) fn reservation(step: Step, lines: &[Counted<'_, '_>]) -> Option<ScriptRequest> {
        let [one] = lines else { return None };
        let (number, name, states) = match step {
            Step::Reserve { name, .. } => (1, name, 1),
            Step::Confirm { name } => (2, name, 0),
            Step::Decide | Step::Lease(_) => return None,
        };
        let capacity = one.fitted.limit.capacity();
        let judged = u32::try_from(one.line.units_needed()?).ok()?;
        let take = u32::try_from(one.line.take()).ok()?;
        let is_short = is_simple(one) && judged <= capacity;
        let mut packed = Vec::with_capacity(42);
        packed.put_slice(&[number, one.fitted.kind.byte()]);
        packed.put_uint(one.fitted.span, 6);
        for units in [capacity, judged, take, one.times] {
            packed.put_u32(units);
        }
        packed.put_u64(name);
        if let Step::Reserve { lasts, .. } = step {
            packed.put_u8(u8::from(
                one.line.charge.enforcement == Enforcement::Enforce,
            ));
            packed.put_uint(lasts.min(UNITS_MAX), 5);
        }
        is_short.then(|| {
            ScriptRequest::General(General {
                script: Which::Reservation,
                keys: vec![one.line.charge.key],
                packed,
                states,
                writes: true,
                is_last_step: matches!(step, Step::Confirm { .. }),
            })
        })
    }
}

/// Whether a line charges only what is allowed, of a bucket or of a window aligned to the clock.
fn is_simple(one: &Counted<'_, '_>) -> bool {
    let kind = one.fitted.kind;
    (kind == Kind::FixedClock || kind.is_bucket()) && one.line.refund() == 0 && one.denied == 0
}
