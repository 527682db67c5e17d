//! Virtual time: every event in its order, each decided at its own moment.

use std::collections::HashMap;
use std::io::Write;
use std::num::NonZeroUsize;
use std::sync::Arc;

use tollgate_core::{
    Charge, Decision, Escaped, Grant, Key, Ledger, Moment, Now, Request, RuleName, StoreError,
    Verdict,
};
use tollgate_memory::{Memory, RandomKeys};
use tollgate_rls::RateLimitRequest;
use tollgate_rules::{Resolved, RuleSet};

use crate::decision_line::DecisionLines;
use crate::error::Error;
use crate::report::{RefusedKey, Report, RuleTotals};
use crate::traffic::{Event, Traffic};

/// The refused keys that a report names; the others are counted.
pub const REFUSED_KEYS_MAX: usize = 10;
/// Events between two calls of `progress`.
const PROGRESS_EVENTS: usize = 1 << 16;

/// What remembers the keys of a replay.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Memories {
    /// A store without a bound, which never evicts.
    #[default]
    Unbounded,
    /// The service's own store, with room for so many keys.
    Bounded {
        /// The room.
        max_keys: NonZeroUsize,
    },
}

/// Decides all events of `traffic` by `rules`, in order of time, each at its own moment.
///
/// Events at the same moment are decided in the order of the input. Each decision is written to
/// `decisions` as a line of JSON, if that is wanted, in pieces of many lines; `progress` is told
/// now and then how many events are decided.
///
/// # Errors
///
/// [`Error::Write`] if a decision cannot be written, and [`Error::Store`] if a bounded store is too
/// small to decide at all.
pub fn replay(
    traffic: &mut Traffic,
    rules: &RuleSet,
    memories: Memories,
    decisions: Option<&mut dyn Write>,
    progress: &mut dyn FnMut(u64),
) -> Result<Report, Error> {
    traffic.put_in_order();
    let mut store = Store::new(memories);
    let resolved = resolve(traffic, rules, &store);
    let mut tally = Tally::new(rules, &resolved);
    let charges: Vec<Vec<Charge<'_>>> = resolved.iter().map(Resolved::charges).collect();
    let mut lines = decisions.map(DecisionLines::to);
    for (count, event) in traffic.in_order().iter().enumerate() {
        let index = index(event.request);
        let verdict = store
            .decide(event.at, &charges[index])
            .map_err(Error::Store)?;
        tally.add(event, &verdict);
        if let Some(lines) = &mut lines {
            let (place, answer) = (traffic.place(event.line), resolved[index].answer(&verdict));
            lines.add(place, event.at, &answer).map_err(Error::Write)?;
        }
        if count % PROGRESS_EVENTS == 0 {
            progress(whole(count));
        }
    }
    if let Some(lines) = lines {
        lines.finish().map_err(Error::Write)?;
    }
    Ok(tally.report(traffic.requests(), store.evicted_keys()))
}

/// What every request meets; requests were checked when they were read.
fn resolve<'r>(traffic: &Traffic, rules: &'r RuleSet, store: &Store) -> Vec<Resolved<'r>> {
    let charge_denied = traffic.charge_denied();
    let resolve = |message| match tollgate_rls::request(message) {
        Ok(request) => {
            let request = Request {
                charge_denied,
                ..request
            };
            rules.resolve(&request, &store.keys)
        }
        Err(invalid) => unreachable!("only valid requests become events: {invalid}"),
    };
    traffic.requests().iter().map(resolve).collect()
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
            // Which keys are lost depends on the hash: the same traffic is to lose the same ones.
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

// === the tally ===

/// What is counted while events are decided.
struct Tally {
    report: Report,
    /// For each request, what its charges count under.
    accounts: Vec<Vec<Counted>>,
    keys: Vec<CountedKey>,
}

/// What a charge counts under: indexes into the report's rules and the tally's keys.
#[derive(Clone, Copy)]
struct Counted {
    rule: usize,
    key: usize,
}

struct CountedKey {
    rule: usize,
    /// A request and a descriptor in it that count this key.
    request: usize,
    descriptor: usize,
    refused: u64,
}

impl Tally {
    fn new(rules: &RuleSet, resolved: &[Resolved<'_>]) -> Tally {
        let mut tally = Tally {
            report: Report::default(),
            accounts: Vec::with_capacity(resolved.len()),
            keys: Vec::new(),
        };
        let mut index_of_rule: HashMap<Arc<RuleName>, usize> = HashMap::new();
        for view in rules.rules().filter(|view| view.limit.is_some()) {
            index_of_rule.insert(Arc::clone(&view.rule), tally.report.rules.len());
            let totals = RuleTotals::new(view.rule, view.text, view.enforcement);
            tally.report.rules.push(totals);
        }
        let mut index_of_key: HashMap<Key, usize> = HashMap::new();
        for (request, resolved) in resolved.iter().enumerate() {
            let charges = resolved.charges();
            let mut counted = Vec::with_capacity(charges.len());
            let limited = limited(resolved, charges.len());
            for (charge, (descriptor, rule)) in charges.iter().zip(limited) {
                let rule = *index_of_rule.entry(Arc::clone(&rule)).or_insert_with(|| {
                    let text = charge.limit.to_string();
                    let totals = RuleTotals::new(rule, text, charge.enforcement);
                    tally.report.rules.push(totals);
                    tally.report.rules.len() - 1
                });
                let key = *index_of_key.entry(charge.key).or_insert_with(|| {
                    tally.keys.push(CountedKey {
                        rule,
                        request,
                        descriptor,
                        refused: 0,
                    });
                    tally.keys.len() - 1
                });
                counted.push(Counted { rule, key });
            }
            tally.accounts.push(counted);
        }
        tally
    }

    fn add(&mut self, event: &Event, verdict: &Verdict) {
        let report = &mut self.report;
        report.events += 1;
        report.from.get_or_insert(event.at);
        report.to = Some(event.at);
        let counted = &self.accounts[index(event.request)];
        report.without_limit += u64::from(counted.is_empty());
        let mut over_soft = false;
        for (decision, counted) in verdict.decisions.iter().zip(counted) {
            let totals = &mut report.rules[counted.rule];
            totals.judged += 1;
            match decision {
                Decision::Allow(grant) => over_soft |= grant.over_soft,
                Decision::Deny(_) => totals.over += 1,
            }
        }
        let Some(refusal) = verdict.refusal else {
            report.admitted += 1;
            report.over_soft += u64::from(over_soft);
            report.delayed += u64::from(!verdict.delay().is_zero());
            return;
        };
        report.refused += 1;
        let by = counted[refusal.by];
        report.rules[by.rule].refused += 1;
        self.keys[by.key].refused += 1;
    }

    fn report(self, requests: &[RateLimitRequest], evicted_keys: Option<u64>) -> Report {
        let mut report = self.report;
        let mut refused: Vec<_> = self.keys.iter().filter(|key| key.refused > 0).collect();
        refused.sort_by_key(|key| std::cmp::Reverse(key.refused));
        report.refused_keys_count = whole(refused.len());
        let top = refused.iter().take(REFUSED_KEYS_MAX).map(|key| {
            let descriptor = &requests[key.request].descriptors[key.descriptor];
            let entries = descriptor.entries.iter();
            RefusedKey {
                rule: Arc::clone(&report.rules[key.rule].rule),
                descriptor: entries
                    .map(|entry| (shown(&entry.key), shown(&entry.value)))
                    .collect(),
                refused: key.refused,
            }
        });
        report.refused_keys = top.collect();
        report.evicted_keys = evicted_keys;
        report
    }
}

/// The descriptors that meet a limit, each with its rule, in the order of the charges.
fn limited(resolved: &Resolved<'_>, charges: usize) -> Vec<(usize, Arc<RuleName>)> {
    let everybody_passes = Verdict {
        decisions: vec![Decision::Allow(Grant::default()); charges],
        refusal: None,
    };
    let answer = resolved.answer(&everybody_passes);
    let statuses = answer.statuses.into_iter().enumerate();
    let limited = statuses.filter_map(|(index, status)| match status {
        tollgate_core::Status::Limited(limited) => Some((index, limited.rule)),
        _ => None,
    });
    limited.collect()
}

fn shown(bytes: &[u8]) -> String {
    Escaped(bytes).to_string()
}

fn index(request: u32) -> usize {
    usize::try_from(request).unwrap_or(usize::MAX)
}

fn whole(count: usize) -> u64 {
    u64::try_from(count).unwrap_or(u64::MAX)
}
