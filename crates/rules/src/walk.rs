//! How the search for the rule of a descriptor went, for people to read.
//!
//! A [`Recorder`] makes it while the search runs, from what the search reports of each step.

use std::sync::Arc;

use tollgate_core::Entry;

use crate::domain::{Branch, Branches, Level, Rule, RuleDescriptor};
use crate::listed::{Listed, SHOWN_MAX};
use crate::observer::Observer;

/// The most look-ups that a [`Walk`] has; only a descriptor whose entries match in any order has
/// more than entries.
pub const LOOK_UPS_SHOWN_MAX: usize = 64;
/// The search for the rule of one descriptor. Empty if nothing was searched.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Walk {
    /// Each entry that was looked up, in order; at most [`LOOK_UPS_SHOWN_MAX`].
    pub look_ups: Vec<LookUp>,
    /// How many more there were.
    pub omitted: usize,
    /// Where all entries lead to: at most one descriptor of the file, unless entries match in any
    /// order. At most [`SHOWN_MAX`].
    pub arrivals: Vec<Arrival>,
}

/// An entry of a descriptor, looked up at one level of the rules.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LookUp {
    /// How many entries led to this level.
    pub depth: usize,
    /// The entry's key.
    pub key: Box<[u8]>,
    /// The entry's value.
    pub value: Box<[u8]>,
    /// The descriptors of the level that have the entry's key, in the order of matching; the first
    /// [`SHOWN_MAX`] and the one that matches.
    pub candidates: Vec<Candidate>,
    /// How many more there are.
    pub omitted: usize,
    /// If none has the entry's key: the descriptors that the level has, at most [`SHOWN_MAX`].
    pub others: Vec<Arc<RuleDescriptor>>,
    /// How many more there are.
    pub others_omitted: usize,
}

/// A descriptor that an entry may match.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Candidate {
    /// How the file writes it.
    pub written: Arc<RuleDescriptor>,
    /// Whether it matches.
    pub outcome: CandidateOutcome,
}

/// Whether a descriptor of the rules matches an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CandidateOutcome {
    /// It matches, and the search went on below it.
    Matches,
    /// Its value is another one.
    Differs,
    /// An earlier one matches, so it was not looked at.
    NotTried,
}

/// A descriptor of the rules that all entries lead to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Arrival {
    /// How the file writes it.
    pub written: Arc<RuleDescriptor>,
    /// Whether it has a `rate_limit`.
    pub has_rule: bool,
    /// What is nested below it, and needs one more entry; at most [`SHOWN_MAX`].
    pub deeper: Vec<Arc<RuleDescriptor>>,
    /// How many more there are.
    pub deeper_omitted: usize,
}

/// Records the walks of a request's descriptors.
#[derive(Default)]
pub(crate) struct Recorder<'s> {
    walks: Vec<Walk>,
    depth: usize,
    /// The look-up in progress.
    open: Option<OpenLookUp>,
    pub(crate) replaced: Vec<Replaced<'s>>,
}

/// A look-up in progress. Its candidates are the first [`SHOWN_MAX`], and the one after them that
/// matches, with which the comparison ends.
struct OpenLookUp {
    shown: LookUp,
    /// All candidates.
    count: usize,
    /// How many of them were compared.
    compared: usize,
}

/// The rule of a descriptor, and the one that replaces it.
pub(crate) struct Replaced<'s> {
    pub(crate) index: usize,
    pub(crate) rule: &'s Rule,
    pub(crate) by: &'s Rule,
}

// === impl CandidateOutcome ===

impl CandidateOutcome {
    /// Its name in reports.
    pub const fn name(self) -> &'static str {
        match self {
            CandidateOutcome::Matches => "matches",
            CandidateOutcome::Differs => "differs",
            CandidateOutcome::NotTried => "not_tried",
        }
    }
}

// === impl Recorder ===

impl Recorder<'_> {
    /// The walk of each descriptor, in their order; none if the domain has no rules.
    pub(crate) fn finish(&mut self) -> Vec<Walk> {
        self.close();
        std::mem::take(&mut self.walks)
    }

    /// Ends the look-up in progress, and keeps what is shown of it.
    fn close(&mut self) {
        let (Some(look_up), Some(walk)) = (self.open.take(), self.walks.last_mut()) else {
            return;
        };
        if walk.look_ups.len() == LOOK_UPS_SHOWN_MAX {
            walk.omitted += 1;
            return;
        }
        let OpenLookUp { shown, count, .. } = look_up;
        walk.look_ups.push(LookUp {
            omitted: count - shown.candidates.len(),
            ..shown
        });
    }
}

impl<'s> Observer<'s> for Recorder<'s> {
    fn begin(&mut self) {
        self.close();
        self.depth = 0;
        self.walks.push(Walk::default());
    }

    fn look_up(&mut self, level: &'s Level, branches: Option<&'s Branches>, entry: &Entry<'_>) {
        self.close();
        let candidates = branches.into_iter().flat_map(Branches::first_written);
        let candidates = candidates.map(|written| Candidate {
            written: Arc::clone(written),
            outcome: CandidateOutcome::NotTried,
        });
        let (others, others_omitted) = match branches {
            Some(_) => (Vec::new(), 0),
            None => show_first(level.written()),
        };
        let shown = LookUp {
            depth: self.depth,
            key: entry.key.into(),
            value: entry.value.into(),
            candidates: candidates.collect(),
            omitted: 0,
            others,
            others_omitted,
        };
        self.open = Some(OpenLookUp {
            shown,
            count: branches.map_or(0, Branches::count),
            compared: 0,
        });
    }

    fn compare_exact(&mut self, branches: &'s Branches, found: Option<&'s Branch>) {
        let Some(look_up) = &mut self.open else {
            return;
        };
        look_up.compared = branches.exact_count();
        let mut left = found;
        let candidates = &mut look_up.shown.candidates;
        for candidate in candidates.iter_mut().take(look_up.compared) {
            let is_it = |found: &&Branch| Arc::ptr_eq(&found.written, &candidate.written);
            candidate.outcome = CandidateOutcome::of(left.take_if(|found| is_it(found)).is_some());
        }
        candidates.extend(left.map(Candidate::of_match));
    }

    fn compare(&mut self, branch: &'s Branch, matches: bool) {
        let Some(look_up) = &mut self.open else {
            return;
        };
        let candidates = &mut look_up.shown.candidates;
        match candidates.get_mut(look_up.compared) {
            Some(candidate) => candidate.outcome = CandidateOutcome::of(matches),
            None if matches => candidates.push(Candidate::of_match(branch)),
            None => {}
        }
        look_up.compared += 1;
    }

    fn descend(&mut self) {
        self.depth += 1;
    }

    fn ascend(&mut self) {
        self.depth -= 1;
    }

    fn arrive(&mut self, branch: &'s Branch) {
        self.close();
        let Some(walk) = self.walks.last_mut() else {
            return;
        };
        if walk.arrivals.len() < SHOWN_MAX {
            let (deeper, deeper_omitted) = show_first(branch.below.written());
            walk.arrivals.push(Arrival {
                written: Arc::clone(&branch.written),
                has_rule: branch.rule.is_some(),
                deeper,
                deeper_omitted,
            });
        }
    }

    fn replace(&mut self, index: usize, rule: &'s Rule, by: &'s Rule) {
        self.replaced.push(Replaced { index, rule, by });
    }
}

impl Candidate {
    fn of_match(branch: &Branch) -> Candidate {
        Candidate {
            written: Arc::clone(&branch.written),
            outcome: CandidateOutcome::Matches,
        }
    }
}

impl CandidateOutcome {
    const fn of(matches: bool) -> CandidateOutcome {
        match matches {
            true => CandidateOutcome::Matches,
            false => CandidateOutcome::Differs,
        }
    }
}

/// The first [`SHOWN_MAX`], and how many there are beyond them.
fn show_first(all: Option<&Listed<Arc<RuleDescriptor>>>) -> (Vec<Arc<RuleDescriptor>>, usize) {
    all.map_or((Vec::new(), 0), |all| (all.first().to_vec(), all.rest()))
}
