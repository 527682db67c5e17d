//! Virtual time: decides every event in order, each at its recorded moment.

use std::io::Write;
use std::num::NonZeroUsize;
use std::ops::ControlFlow;

use tollgate_core::{Charge, Ledger, Moment, Now, StoreError, Verdict};
use tollgate_memory::{Memory, RandomKeys};
use tollgate_rules::RuleSet;

use crate::decision_line::{Decided, DecisionLines};
use crate::error::Error;
use crate::report::Report;
use crate::rule_cache::Cache;
use crate::tally::Tally;
use crate::traffic::Traffic;

/// How many denied keys a report names by default; the others are counted.
pub const TOP_KEYS: usize = 10;
/// The most denied keys that a report can name.
pub const TOP_KEYS_MAX: usize = 10_000;
/// Events between two calls of `progress`.
const PROGRESS_EVENTS: usize = 1 << 14;

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

/// Decides all events of `traffic` by `rules`, in order of time, each at its own moment.
///
/// Events at the same moment are decided in the order of the input. Each decision is written to
/// `decisions`, if given, as a line of JSON, in pieces of many lines. `progress` is called now and
/// then with the number of decided events, and returns whether to continue.
///
/// # Errors
///
/// [`Error::Write`] if a decision cannot be written, [`Error::Stopped`] if `progress` returned so,
/// and [`Error::Store`] if a bounded store is too small to decide at all.
pub fn replay(
    traffic: &mut Traffic,
    rules: &RuleSet,
    options: Options,
    decisions: Option<&mut dyn Write>,
    progress: &mut dyn FnMut(u64) -> ControlFlow<()>,
) -> Result<Report, Error> {
    traffic.put_in_order();
    let traffic = &*traffic;
    let mut store = Store::new(options.memories);
    let keys = store.keys.clone();
    let mut cache = Cache::default();
    let mut tally = Tally::new(rules, traffic.requests());
    let mut lines = decisions.map(DecisionLines::to);
    let mut decided = 0;
    for (count, event) in traffic.in_order().iter().enumerate() {
        if count % PROGRESS_EVENTS == 0 && progress(decided).is_break() {
            if let Some(lines) = lines {
                // `Stopped` takes precedence over an error of writing the last lines.
                let _ = lines.finish();
            }
            return Err(Error::Stopped { decided });
        }
        let cached = cache.get_or_resolve(event.request, || {
            traffic.request(event.request, |request| rules.resolve(request, &keys))
        });
        let charges = cached.charges();
        let verdict = store.decide(event.at, &charges).map_err(Error::Store)?;
        tally.add(event, cached, &charges, &verdict);
        if let Some(lines) = &mut lines {
            let written = traffic.request(event.request, |request| {
                lines.add(&Decided {
                    place: traffic.place(event.line),
                    at: event.at,
                    client: traffic.client(event.line),
                    request,
                    answer: &cached.answer(&verdict),
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
    Ok(tally.report(traffic, options.top_keys, store.evicted_keys()))
}

// === the store ===

struct Store {
    keys: RandomKeys,
    accounts: Accounts,
}

enum Accounts {
    Unbounded(Ledger),
    Bounded(Box<Memory>),
}

impl Store {
    fn new(memories: Memories) -> Store {
        match memories {
            Memories::Unbounded => Store {
                keys: RandomKeys::new(),
                accounts: Accounts::Unbounded(Ledger::default()),
            },
            // Evictions depend on the hash; with a fixed secret they are repeatable.
            Memories::Bounded { max_keys } => {
                let keys = RandomKeys::with_secret(0, 0);
                let memory = Memory::builder()
                    .max_keys(max_keys.get())
                    .keys(keys.clone());
                Store {
                    keys,
                    accounts: Accounts::Bounded(Box::new(memory.build())),
                }
            }
        }
    }

    fn decide(&mut self, at: Moment, charges: &[Charge<'_>]) -> Result<Verdict, StoreError> {
        match &mut self.accounts {
            Accounts::Unbounded(ledger) => Ok(ledger.decide(Now::at(at), charges)?),
            Accounts::Bounded(memory) => memory.decide_at(Now::at(at), charges),
        }
    }

    fn evicted_keys(&self) -> Option<u64> {
        match &self.accounts {
            Accounts::Unbounded(_) => None,
            Accounts::Bounded(memory) => Some(memory.evicted_keys()),
        }
    }
}
