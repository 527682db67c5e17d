//! Requests for the plain script.

use bytes::{BufMut, BytesMut};
use tollgate_core::{Bill, Charge, Cost, Key, Limit, OnDenial, Span};

use super::{Plain, Rate, ScriptRequest, UNITS_MAX, units_judged};
use crate::fit::{FittedLimit, Kind};
use crate::keys;

impl Plain {
    /// A request for the plain script; `None` if it needs the general one.
    pub(super) fn new(charge: &Charge<'_>, fitted: &FittedLimit) -> Option<Plain> {
        let (judged, taken) = match charge.cost {
            Cost::Take(units) => (units_judged(charge)?, units),
            Cost::Peek(_) => (units_judged(charge)?, 0),
            // Returns a lease.
            Cost::Refund(0) => (0, 0),
            Cost::Refund(_) => return None,
        };
        let capacity = u64::from(fitted.limit.capacity());
        let is_window = fitted.kind == Kind::FixedClock;
        let is_plain = (is_window || fitted.kind.is_bucket())
            && judged <= capacity
            && charge.on_own_denial() == OnDenial::Keep;
        is_plain.then(|| Plain {
            key: charge.key,
            rate: Rate {
                kind: fitted.kind,
                span: fitted.span,
                room: if is_window {
                    capacity
                } else {
                    fitted.span * capacity
                },
            },
            judged: u32::try_from(judged).unwrap_or(u32::MAX),
            taken: u32::try_from(taken).unwrap_or(u32::MAX),
            leasing: None,
        })
    }

    /// One unit of a reserved key in the slot of `key`, by a limit whose state soon expires: tests
    /// whether a server decides.
    pub(crate) fn trial(key: Key) -> Plain {
        let limit = Limit::fixed_window(u32::MAX, Span::SECOND).expect("a valid limit");
        let fitted = FittedLimit::new(&limit).expect("a second is whole microseconds");
        let charge = Charge::new(keys::trial_key(key), &limit, Cost::ONE);
        Plain::new(&charge, &fitted).expect("a window aligned to the clock is plain")
    }

    /// The same request for the general script.
    pub(crate) fn general_request(charge: &Charge<'_>, fitted: &FittedLimit) -> ScriptRequest {
        let bill = Bill::new(&[*charge]).expect("one charge is not too many");
        ScriptRequest::of(&bill, &[*fitted])
    }

    /// Writes the request; its limit is the one at `index`, counted from 1.
    pub(crate) fn put(&self, packed: &mut BytesMut, index: u8) {
        packed.put_u8(index);
        packed.put_u32(self.judged);
        packed.put_u32(self.taken);
        if let Some(leasing) = &self.leasing {
            packed.put_u64(leasing.name);
            packed.put_uint(leasing.lasts.min(UNITS_MAX), 5);
            leasing.put_units(packed);
        }
    }

    pub(crate) const fn is_leasing(&self) -> bool {
        self.leasing.is_some()
    }
}
