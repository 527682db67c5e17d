//! What is undone of a round that has failed in one of its slots.

use tollgate_core::{Bill, Charge, Cost, Key};

use super::{Counts, Ledger, Plan};
use crate::script_request::{ScriptRequest, Step};

impl Plan<'_> {
    /// The script request that refunds what a part's lines were charged at this time, in
    /// microseconds since 1970, as often as `back` says.
    pub(in super::super) fn undo(
        &self,
        part: usize,
        charged_at: u64,
        back: &Counts,
    ) -> ScriptRequest {
        let mut bills = Vec::new();
        for line in &self.parts[part].lines {
            let planned = &self.lines[*line];
            let units = planned.line.take() * u64::from(back.allowed[*line]);
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
        ScriptRequest::step(Step::Undo { charged_at }, &lines)
    }

    /// The keys of the lines that `back` counts.
    pub(in super::super) fn keys_of(&self, back: &Counts) -> impl Iterator<Item = Key> {
        let lines = self.lines.iter().zip(&back.allowed);
        let counted = lines.filter(|(_, times)| **times > 0);
        counted.map(|(planned, _)| planned.line.charge.key)
    }
}

impl Ledger {
    /// Redis's time when a part replied.
    pub(in super::super) fn reply_time(&self, plan: &Plan<'_>, part: usize) -> Option<u64> {
        let line = plan.parts[part].lines.first()?;
        Some(self.lines[*line].as_ref()?.before.now)
    }
}
