//! Checks that requests without priority leave the share that is kept for others.

use super::{Account, Bound, Open, Taken};

impl Account {
    /// Checks that requests without priority are allowed no more in any period that ends with this
    /// decision than what is left beside the share.
    ///
    /// The last of them found all others already charged, whatever those with priority have used
    /// meanwhile.
    pub(super) fn judge_share(&mut self, number: u64, open: &Open, counter: usize, taken: Taken) {
        let plan = &self.plan.counters[counter];
        if open.has_priority || !plan.keeps_share() {
            return;
        }
        taken.insert_into(&mut self.tabs[counter].without_priority);
        let bound = Bound::new(plan, self.plan.setup.base_micros, &self.jumps).without_priority();
        let extra = self.extra_units(counter, &bound, taken.to);
        let allowed = &self.tabs[counter].without_priority;
        if let Some(why) = bound.find_violation(allowed, taken, extra) {
            let why = format!("decision {number} on counter {counter}, without priority: {why}");
            self.fail(taken.to, &why);
        }
    }
}
