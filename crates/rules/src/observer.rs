//! Sees how a request finds its rules.
//!
//! The search reports each of its steps to an [`Observer`]. The one of decisions, `()`, ignores all
//! of them and compiles to nothing; that of an explanation ([`crate::walk`]) records them. So there
//! is no second search that could disagree with the one that decides.

use tollgate_core::Entry;

use crate::domain::{Branch, Branches, Level, Rule};

/// Sees the steps of a search. `'s` is the life of the rules.
pub(crate) trait Observer<'s> {
    /// The next descriptor of the request begins.
    fn begin(&mut self) {}

    /// An entry is looked up at a level of the rules; `branches` are those with the entry's key.
    fn look_up(&mut self, _level: &'s Level, _branches: Option<&'s Branches>, _entry: &Entry<'_>) {}

    /// The values without stars of `branches` were compared with the entry's value: `found` equals
    /// it.
    fn compare_exact(&mut self, _branches: &'s Branches, _found: Option<&'s Branch>) {}

    /// A value with stars, or a key without a value, was compared with the entry's value.
    fn compare(&mut self, _branch: &'s Branch, _matches: bool) {}

    /// The search continues below the branch that was found.
    fn descend(&mut self) {}

    /// The search returns to the level above, to try other entries there.
    fn ascend(&mut self) {}

    /// All entries of the descriptor lead to this branch.
    fn arrive(&mut self, _branch: &'s Branch) {}

    /// The rule of the descriptor at `index` is removed from the request, because `by` replaces it.
    fn replace(&mut self, _index: usize, _rule: &'s Rule, _by: &'s Rule) {}
}

impl Observer<'_> for () {}
