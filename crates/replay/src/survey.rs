//! What a report shows beside its totals: outcomes over time, how requests are distributed over
//! keys and windows, how long denied clients would wait, and who is denied.

use std::io::Write;
use std::ops::ControlFlow;

use tollgate_core::{Span, Wait};
use tollgate_rules::RuleSet;

use crate::decider::{Decider, Outcome};
use crate::error::Error;
use crate::event::Event;
use crate::replay::{Options, run};
use crate::report::Report;
use crate::traffic::Traffic;

mod distribution;
mod pattern;
mod timeline;

pub use distribution::{DISTRIBUTION_KEYS_MAX, Distribution};
pub use pattern::{DETAILS_MAX, DeniedPattern, Most, PATTERNS_MAX, Run};
pub use timeline::{SLOTS_MAX, Slot, Timeline};

use distribution::Windows;
use pattern::Patterns;

/// The most rules that are shown one by one; the denials of the others are added up.
pub const RULES_SHOWN_MAX: usize = 12;
/// The waits that denials are counted by: up to each of these, and longer.
pub const WAITS: [Span; 7] = [
    Span::from_millis(100),
    Span::SECOND,
    Span::from_secs(10),
    Span::MINUTE,
    Span::from_secs(600),
    Span::HOUR,
    Span::DAY,
];

/// What a report shows beside its totals.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Survey {
    /// Offered and denied requests over time.
    pub timeline: Timeline,
    /// For each of the first [`RULES_SHOWN_MAX`] rules of the report, the requests that it denied
    /// in each slot of the timeline; if there are more rules, those of all others together.
    pub denied_by_rule: Vec<Vec<u64>>,
    /// For each of the first [`RULES_SHOWN_MAX`] rules, the requests of a key in a window.
    pub distributions: Vec<Distribution>,
    /// How many denied requests would wait up to each of [`WAITS`], and longer.
    pub waits: [u64; WAITS.len() + 1],
    /// Denied requests that are never allowed, however long they wait.
    pub never: u64,
    /// The keys with the most denials, at most [`Options::top_keys`] and [`PATTERNS_MAX`].
    pub denied: Vec<DeniedPattern>,
}

/// As [`crate::replay`], and looks closer. Decides all events twice: once to know which keys are
/// denied most, and again to follow these.
///
/// # Errors
///
/// As [`crate::replay`]. [`Error::Stopped`] with the number of all events says that `progress`
/// returned so when they were decided again: all decisions are written then.
pub fn survey(
    traffic: &mut Traffic,
    rules: &RuleSet,
    options: Options,
    decisions: Option<&mut dyn Write>,
    progress: &mut dyn FnMut(u64) -> ControlFlow<()>,
) -> Result<(Report, Survey), Error> {
    traffic.put_in_order();
    let traffic = &*traffic;
    let mut decider = Decider::new(rules, options.memories, traffic)?;
    let mut collected = Collected::over(traffic);
    run(
        traffic,
        &mut decider,
        decisions,
        progress,
        &mut |event, outcome| {
            collected.add(event, outcome);
            Ok(())
        },
    )?;
    let keys = decider.most_denied(options.top_keys.min(PATTERNS_MAX));
    let mut again = decider.again(options.memories, traffic)?;
    let report = decider.report(traffic, options.top_keys);
    let mut patterns = Patterns::of(&keys, collected.timeline.slots.len());
    let followed = run(
        traffic,
        &mut again,
        None,
        progress,
        &mut |event, outcome| {
            let slot = collected.timeline.slot_of(event.at);
            patterns.add(event, outcome, slot, traffic);
            Ok(())
        },
    );
    followed.map_err(|error| match error {
        // All were decided, and written, in the first pass.
        Error::Stopped { .. } => Error::Stopped {
            decided: report.events,
        },
        error => error,
    })?;
    let denied = patterns.finish(&report, traffic);
    Ok((report, collected.survey(denied)))
}

/// What is counted in the first pass.
struct Collected {
    timeline: Timeline,
    denied_by_rule: Vec<Vec<u64>>,
    windows: Vec<Windows>,
    waits: [u64; WAITS.len() + 1],
    never: u64,
}

// === impl Collected ===

impl Collected {
    fn over(traffic: &Traffic) -> Collected {
        Collected {
            timeline: Timeline::over(traffic.bounds()),
            denied_by_rule: Vec::new(),
            windows: Vec::new(),
            waits: [0; WAITS.len() + 1],
            never: 0,
        }
    }

    /// Counts one event.
    fn add(&mut self, event: &Event, outcome: &Outcome<'_, '_>) {
        let slot = self.timeline.slot_of(event.at);
        let denial = outcome.verdict.denial;
        self.timeline.add(slot, outcome);
        for met in outcome.met.iter().filter(|met| met.rule < RULES_SHOWN_MAX) {
            if self.windows.len() <= met.rule {
                self.windows.resize_with(met.rule + 1, Windows::default);
            }
            self.windows[met.rule].add(met.key, event.at, met.window);
        }
        if let Some(met) = outcome.denied_by() {
            let rule = met.rule.min(RULES_SHOWN_MAX);
            let slots = self.timeline.slots.len();
            if self.denied_by_rule.len() <= rule {
                self.denied_by_rule.resize_with(rule + 1, || vec![0; slots]);
            }
            self.denied_by_rule[rule][slot] += 1;
        }
        match denial.map(|denial| denial.wait) {
            Some(Wait::For(wait)) => {
                self.waits[WAITS.partition_point(|bound| *bound < wait)] += 1;
            }
            Some(Wait::Never) => self.never += 1,
            None => {}
        }
    }

    fn survey(self, denied: Vec<DeniedPattern>) -> Survey {
        let windows = self.windows.into_iter();
        Survey {
            timeline: self.timeline,
            denied_by_rule: self.denied_by_rule,
            distributions: windows.map(Windows::finish).collect(),
            waits: self.waits,
            never: self.never,
            denied,
        }
    }
}
