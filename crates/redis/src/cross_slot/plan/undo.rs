//! What is undone of a round that has failed in one of its slots.

use bytes::Buf;
use tollgate_core::{Bill, Charge, Cost, Key};

use super::{Counts, Ledger, Plan};
use crate::script_reply::General;
use crate::script_request::{ScriptRequest, Step};

/// Bytes of the units of each line in the reply to a confirmation.
const UNITS_BYTES: usize = 5;

impl Plan<'_> {
    /// The script request that refunds what a part's lines were charged at this time, in
    /// microseconds since 1970, for the requests that `back` counts, of those that were `allowed`;
    /// `None` if that is nothing. `reply` is that of the confirmation, if there was one.
    pub(in super::super) fn undo(
        &self,
        (part, charged_at): (usize, u64),
        (back, allowed): (&Counts, &Counts),
        reply: Option<&General>,
    ) -> Option<ScriptRequest> {
        let mut bills = Vec::new();
        for (place, line) in self.parts[part].lines.iter().enumerate() {
            let planned = &self.lines[*line];
            let of_counts = |counts: &Counts| {
                let times = u64::from(counts.allowed[*line]);
                planned.line.take().saturating_mul(times)
            };
            let all = of_counts(allowed);
            let lacking = all.saturating_sub(charged_units(reply, place, all));
            // What is lacking may be of these requests: instead of it, denied ones were charged.
            let units = of_counts(back).saturating_sub(lacking);
            let charge = Charge {
                cost: Cost::Refund(units),
                ..planned.line.charge
            };
            if units > 0 {
                let bill = Bill::new(&[charge]).expect("one charge is not too many");
                bills.push((bill, &planned.fitted));
            }
        }
        let lines: Vec<_> = bills
            .iter()
            .map(|(bill, fitted)| (&bill.lines()[0], *fitted))
            .collect();
        (!lines.is_empty()).then(|| ScriptRequest::step(Step::Undo { charged_at }, &lines))
    }

    /// The keys of the lines that `counts` counts.
    pub(in super::super) fn keys_of(&self, counts: &Counts) -> impl Iterator<Item = Key> {
        let times = counts.allowed.iter().zip(&counts.denied);
        let lines = self.lines.iter().zip(times);
        let counted = lines.filter(|(_, (allowed, denied))| **allowed > 0 || **denied > 0);
        counted.map(|(planned, _)| planned.line.charge.key)
    }

    /// The keys of one part.
    pub(in super::super) fn keys_in(&self, part: usize) -> impl Iterator<Item = Key> {
        let lines = self.parts[part].lines.iter();
        lines.map(|line| self.lines[*line].line.charge.key)
    }
}

impl Ledger {
    /// Redis's time when a part replied.
    pub(in super::super) fn reply_time(&self, plan: &Plan<'_>, part: usize) -> Option<u64> {
        let line = plan.parts[part].lines.first()?;
        Some(self.lines[*line].as_ref()?.before.now)
    }
}

/// The units that were charged to the line at this place of its part: `all`, unless the reply to
/// the confirmation says otherwise. A reply without that line would charge nothing, so that nothing
/// is refunded.
fn charged_units(reply: Option<&General>, place: usize, all: u64) -> u64 {
    let Some(charged) = reply.and_then(|reply| reply.charged.as_ref()) else {
        return all;
    };
    let units = charged.get(UNITS_BYTES * place..);
    let units = units.and_then(|mut units| units.try_get_uint(UNITS_BYTES).ok());
    units.unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use tokio::time::Instant;
    use tollgate_core::{Limit, Span};

    use super::super::super::grouping::Grouping;
    use super::super::super::parts::SplitRequest;
    use super::super::super::request::{Refunds, Request};
    use super::*;
    use crate::script_reply::Status;

    /// The units refunded for `back` of four allowed requests of 5 units on one key, of which
    /// `charged` were charged: all, if it is `None`.
    fn units_back(back: u32, charged: Option<u8>) -> Option<u64> {
        let limit = Limit::fixed_window(20, Span::HOUR).expect("an hour is a window");
        let charges = [Charge::new(Key::from_bits(1), &limit, Cost::Take(5))];
        let request = Request::new(&charges, Refunds::Done, Instant::now()).expect("one charge");
        let requests = [SplitRequest::new(&request, Grouping::BySlot).expect("one charge")];
        let plan = Plan::new(&requests, Grouping::BySlot);
        let counts = |times| Counts {
            allowed: vec![times],
            ..plan.no_counts()
        };
        let reply = General {
            now: 7,
            status: Status::Allowed,
            states: Vec::new(),
            charged: charged.map(|units| Bytes::copy_from_slice(&[0, 0, 0, 0, units])),
        };
        let request = plan.undo((0, 7), (&counts(back), &counts(4)), Some(&reply))?;
        // A line ends with the units to be refunded, and whether it has a larger limit.
        let (_, refund) = request.as_general()?.packed.split_last_chunk::<6>()?;
        Some((&refund[..]).get_uint(UNITS_BYTES))
    }

    #[test]
    fn units_that_were_not_charged_are_not_refunded() {
        assert_eq!(
            [1, 4].map(|back| units_back(back, None)),
            [Some(5), Some(20)]
        );
        assert_eq!(
            [1, 4].map(|back| units_back(back, Some(18))),
            [Some(3), Some(18)]
        );
        // The requests that stay allowed have taken what was charged.
        assert_eq!(
            [1, 4].map(|back| units_back(back, Some(6))),
            [None, Some(6)]
        );
        assert_eq!(units_back(4, Some(0)), None);
    }
}
