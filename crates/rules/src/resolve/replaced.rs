//! Rules of a request that other rules of it replace.

use super::{Part, Resolved};
use crate::domain::Rule;
use crate::observer::Observer;
use crate::replaces::find_replaced;

// === impl Resolved ===

impl<'s> Resolved<'s> {
    /// Removes the rules that others replace.
    pub(super) fn drop_replaced(&mut self, observer: &mut impl Observer<'s>) {
        let replaces = |rule: &Rule| !rule.replaces.is_empty();
        if !self.parts.iter().filter_map(Part::rule).any(replaces) {
            return;
        }
        let rules: Vec<Option<&'s Rule>> = self.parts.iter().map(Part::rule).collect();
        for (index, by) in find_replaced(&rules) {
            if let Some(rule) = rules[index] {
                observer.replace(index, rule, by);
            }
            self.parts[index] = Part::Nothing;
        }
    }
}
