//! Virtual time: decides every event in order, each at its recorded moment.

use std::io::Write;
use std::num::NonZeroUsize;
use std::ops::ControlFlow;

use tollgate_memory::Memory;
use tollgate_rules::RuleSet;

use crate::decider::{Decider, Outcome};
use crate::decision_line::{Decided, DecisionLines};
use crate::error::Error;
use crate::event::Event;
use crate::report::Report;
use crate::traffic::Traffic;

/// How many denied keys a report names by default; the others are counted.
pub const TOP_KEYS: usize = 10;
/// The most denied keys that a report can name.
pub const TOP_KEYS_MAX: usize = 10_000;
/// Events between two calls of `progress`.
pub(crate) const PROGRESS_EVENTS: u64 = 1 << 14;

/// The store of a replay.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Memories {
    /// A store without a bound, which never evicts.
    #[default]
    Unbounded,
    /// The service's store, with room for so many keys.
    Bounded {
        /// The room.
        max_keys: NonZeroUsize,
    },
}

/// The options of a replay.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// The store.
    pub memories: Memories,
    /// How many denied keys the report names, at most [`TOP_KEYS_MAX`]. [`TOP_KEYS`].
    pub top_keys: usize,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            memories: Memories::default(),
            top_keys: TOP_KEYS,
        }
    }
}

// === impl Memories ===

impl Memories {
    /// Fails if the system does not have the memory for the store. Deciding fails then as well, but
    /// only after all traffic has been read.
    ///
    /// # Errors
    ///
    /// [`Error::LargeStore`].
    pub fn check(self) -> Result<(), Error> {
        match self {
            Memories::Unbounded => Ok(()),
            Memories::Bounded { max_keys } => {
                let probed = Memory::builder().max_keys(max_keys.get()).probe();
                probed.map_err(|bytes| Error::LargeStore { max_keys, bytes })
            }
        }
    }
}

/// Decides all events of `traffic` by `rules`, in order of time, each at its own moment.
///
/// Events at the same moment are decided in the order of the input. Each decision is written to
/// `decisions`, if given, as a line of JSON, in pieces of many lines. `progress` is called now and
/// then with the number of decided events, and returns whether to continue.
///
/// # Errors
///
/// [`Error::Write`] if a decision cannot be written, [`Error::Stopped`] if `progress` returned so,
/// [`Error::LargeStore`] if the system does not have the memory for a bounded store, and
/// [`Error::Store`] if that is too small to decide at all.
pub fn replay(
    traffic: &mut Traffic,
    rules: &RuleSet,
    options: Options,
    decisions: Option<&mut dyn Write>,
    progress: &mut dyn FnMut(u64) -> ControlFlow<()>,
) -> Result<Report, Error> {
    traffic.put_in_order();
    let traffic = &*traffic;
    let mut decider = Decider::new(rules, options.memories, traffic)?;
    run(traffic, &mut decider, decisions, progress, &mut |_, _| {
        Ok(())
    })?;
    Ok(decider.report(traffic, options.top_keys))
}

/// Decides all events, and passes what came of each to `observe`.
pub(crate) fn run<'r>(
    traffic: &Traffic,
    decider: &mut Decider<'r>,
    decisions: Option<&mut dyn Write>,
    progress: &mut dyn FnMut(u64) -> ControlFlow<()>,
    observe: &mut dyn FnMut(&Event, &Outcome<'_, 'r>) -> Result<(), Error>,
) -> Result<(), Error> {
    let mut lines = decisions.map(DecisionLines::to);
    let mut decided = 0;
    for event in traffic.in_order() {
        if decided % PROGRESS_EVENTS == 0 && progress(decided).is_break() {
            if let Some(lines) = lines {
                // `Stopped` takes precedence over an error of writing the last lines.
                let _ = lines.finish();
            }
            return Err(Error::Stopped { decided });
        }
        let outcome = decider.decide(&event, traffic)?;
        observe(&event, &outcome)?;
        if let Some(lines) = &mut lines {
            let written = traffic.request(event.request, |request| {
                let answer = || outcome.rules.answer(&outcome.verdict);
                lines.add(&Decided {
                    place: traffic.place(event.line),
                    at: event.at,
                    client: traffic.client(event.line),
                    request,
                    answer: (!outcome.has_failed).then(answer),
                })
            });
            written.map_err(|source| Error::Write { decided, source })?;
        }
        decided += 1;
    }
    if let Some(lines) = lines {
        let finished = lines.finish();
        finished.map_err(|source| Error::Write { decided, source })?;
    }
    Ok(())
}
