//! Requests with several limits, packed for `joint.lua`.
//!
//! For each request the number of lines (1); for each line the kind (1), the role (1), the interval
//! or the window (6), the capacity (4), the units that must fit (4) and those to be taken (4).

use bytes::BufMut;
use tollgate_core::{Bill, Mode};

use super::reservation::units;
use super::{General, ScriptKind, ScriptRequest, StepLine, role};
use crate::fit::FittedLimit;

/// Bytes of a line.
const LINE_BYTES: usize = 20;

impl ScriptRequest {
    /// A request for all lines of a bill, for `joint.lua`; `None` if it needs the general script,
    /// or is likely to: a key that is charged in leases has some most of the time.
    pub(crate) fn joint(bill: &Bill<'_>, fitted: &[FittedLimit]) -> Option<ScriptRequest> {
        let lines = bill.lines();
        let mut packed = Vec::with_capacity(1 + LINE_BYTES * lines.len());
        packed.put_u8(u8::try_from(lines.len()).ok()?);
        let mut writes = false;
        for (line, fitted) in lines.iter().zip(fitted) {
            let one = StepLine {
                line,
                fitted,
                times: 1,
                denied: 0,
            };
            let is_leased = line.charge.sharing.mode == Mode::Leased;
            let [judged, take] = units(&one).filter(|_| line.penalty() == 0 && !is_leased)?;
            packed.put_slice(&[fitted.kind.byte(), role(line)]);
            packed.put_uint(fitted.span, 6);
            for units in [fitted.limit.capacity(), judged, take] {
                packed.put_u32(units);
            }
            writes |= take > 0;
        }
        Some(ScriptRequest::General(General {
            script: ScriptKind::Joint,
            keys: lines.iter().map(|line| line.charge.key).collect(),
            packed,
            states: lines.len(),
            writes,
            is_last_step: false,
        }))
    }
}
