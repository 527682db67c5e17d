//! Checks that requests without priority leave the share that is kept for others, and those without
//! headroom the elastic part.

use super::{Account, Open, Taken};

impl Account {
    /// Checks that requests that leave a part of the limit for others are allowed no more in any
    /// period that ends with this decision than what is left beside that part.
    ///
    /// The last of them found all others already charged, whatever those that can use the part have
    /// used meanwhile.
    pub(super) fn judge_available(
        &mut self,
        number: u64,
        open: &Open,
        counter: usize,
        taken: Taken,
    ) {
        let (plan, view) = (&self.plan.counters[counter], open.most);
        if plan.is_whole(view) {
            return;
        }
        taken.insert_into(self.tabs[counter].partial.entry(view).or_default());
        let bound = self.find_bound(counter).of_view(view);
        let extra = self.extra_units(counter, &bound, taken.to);
        let violation = bound.find_violation(&self.tabs[counter].all_within(view), taken, extra);
        if let Some(why) = violation {
            let why = format!("decision {number} on counter {counter}, {view:?}: {why}");
            self.fail(taken.to, &why);
        }
    }
}
