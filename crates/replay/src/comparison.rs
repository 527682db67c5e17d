//! The same traffic by two sets of rules: what changes, and for whom.

use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap};
use std::io::Write;
use std::ops::ControlFlow;
use std::sync::Arc;

use tollgate_core::{RuleName, to_text};
use tollgate_rules::RuleSet;

use crate::decider::{Decider, Outcome};
use crate::denied_keys::DeniedKeys;
use crate::error::Error;
use crate::event::Event;
use crate::replay::{Options, run};
use crate::report::{Report, RuleTotals, TopKeys};
use crate::survey::Timeline;
use crate::traffic::Traffic;

mod over_time;
mod pairs;
mod text;

pub use over_time::{ChangesOverTime, DirectionOverTime};
pub use text::ComparisonSummary;

/// What changes if one set of rules replaces another, for the same traffic.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Comparison {
    /// The report of the old rules, as [`crate::replay`] makes it.
    pub before: Report,
    /// The report of the new rules.
    pub after: Report,
    /// Requests that the old rules allow and the new ones deny.
    pub newly_denied: u64,
    /// Requests that the old rules deny and the new ones allow.
    pub no_longer_denied: u64,
    /// Every rule of either set, those of the new one first.
    pub rules: Vec<RuleChange>,
    /// The keys of the new rules that newly denied requests are denied for.
    pub newly_denied_keys: TopKeys,
    /// The keys of the old rules that no longer denied requests were denied for.
    pub no_longer_denied_keys: TopKeys,
    /// How many clients have a request that changes; 0 if clients are not kept.
    pub changed_clients: u64,
    /// Those with the most changes, at most [`Options::top_keys`].
    pub clients: Vec<ChangedClient>,
    /// When requests change.
    pub over_time: ChangesOverTime,
}

/// A rule before and after. Rules of one domain are the same if they have the same path, or the
/// same name that no other rule of either set has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RuleChange {
    /// The rule.
    pub rule: Arc<RuleName>,
    /// Its counts in the old rules, if it is there.
    pub before: Option<RuleTotals>,
    /// Its counts in the new rules, if it is there.
    pub after: Option<RuleTotals>,
    /// Requests that it newly denies.
    pub newly_denied: u64,
    /// Requests that it no longer denies, and that nothing else denies instead.
    pub no_longer_denied: u64,
}

/// A client with requests that change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChangedClient {
    /// The client, escaped where it is not UTF-8.
    pub client: String,
    /// Its requests that are newly denied.
    pub newly_denied: u64,
    /// Its requests that are no longer denied.
    pub no_longer_denied: u64,
}

/// Decides all events of `traffic` by both sets of rules, as [`crate::replay`] does, each with a
/// store of its own. The decisions that are written are those of the rules `after`.
///
/// # Errors
///
/// As [`crate::replay`].
pub fn compare(
    traffic: &mut Traffic,
    before: &RuleSet,
    after: &RuleSet,
    options: Options,
    decisions: Option<&mut dyn Write>,
    progress: &mut dyn FnMut(u64) -> ControlFlow<()>,
) -> Result<Comparison, Error> {
    traffic.put_in_order();
    let traffic = &*traffic;
    let mut old = Decider::new(before, options.memories, traffic)?;
    let mut new = Decider::new(after, options.memories, traffic)?;
    let mut changes = Changes::over(Timeline::over(traffic.bounds()));
    run(traffic, &mut new, decisions, progress, &mut |event, now| {
        let was = old.decide(event, traffic)?;
        changes.add(event, traffic.notes().client_of(event.line), &was, now);
        Ok(())
    })?;
    let before = old.report(traffic, options.top_keys);
    let after = new.report(traffic, options.top_keys);
    Ok(changes.comparison(before, after, traffic, options.top_keys))
}

/// The changes so far.
struct Changes {
    over_time: ChangesOverTime,
    newly: Side,
    no_longer: Side,
    /// By client: newly denied, no longer denied.
    clients: HashMap<u32, [u64; 2]>,
}

/// The changes in one direction.
#[derive(Default)]
struct Side {
    count: u64,
    /// By the rule's place in its report.
    rules: BTreeMap<usize, u64>,
    keys: DeniedKeys,
}

// === impl Changes ===

impl Changes {
    /// Nothing changed yet.
    fn over(timeline: Timeline) -> Changes {
        Changes {
            over_time: ChangesOverTime::over(timeline),
            newly: Side::default(),
            no_longer: Side::default(),
            clients: HashMap::new(),
        }
    }

    /// Counts an event, and who it is of if its outcome changes.
    fn add(
        &mut self,
        event: &Event,
        client: Option<u32>,
        was: &Outcome<'_, '_>,
        now: &Outcome<'_, '_>,
    ) {
        let slot = self.over_time.timeline.slot_of(event.at);
        self.over_time.add(slot, was, now);
        let change = match (was.denied_by(), now.denied_by()) {
            (None, Some(by)) => (&mut self.newly, by, 0),
            (Some(by), None) => (&mut self.no_longer, by, 1),
            _ => return,
        };
        let (side, by, direction) = change;
        side.count += 1;
        *side.rules.entry(by.rule).or_default() += 1;
        side.keys
            .add((by.rule, by.key), event.request, by.descriptor);
        if let Some(client) = client {
            self.clients.entry(client).or_default()[direction] += 1;
        }
    }

    /// The counts, with the reports of both sides.
    fn comparison(
        self,
        before: Report,
        after: Report,
        traffic: &Traffic,
        top: usize,
    ) -> Comparison {
        let newly_denied_keys = self.newly.keys.top(top, &after.rules, traffic);
        let no_longer_denied_keys = self.no_longer.keys.top(top, &before.rules, traffic);
        let mut clients: Vec<_> = self.clients.iter().collect();
        clients.sort_by_key(|(client, changes)| (Reverse(changes[0] + changes[1]), **client));
        let first = clients
            .iter()
            .take(top)
            .map(|(client, changes)| ChangedClient {
                client: to_text(traffic.notes().client(**client)).into_owned(),
                newly_denied: changes[0],
                no_longer_denied: changes[1],
            });
        Comparison {
            newly_denied: self.newly.count,
            no_longer_denied: self.no_longer.count,
            rules: self.rules(&before, &after),
            newly_denied_keys,
            no_longer_denied_keys,
            changed_clients: u64::try_from(clients.len()).unwrap_or(u64::MAX),
            clients: first.collect(),
            over_time: self.over_time,
            before,
            after,
        }
    }

    /// The rules of both reports.
    fn rules(&self, before: &Report, after: &Report) -> Vec<RuleChange> {
        let count = |side: &Side, rule: usize| side.rules.get(&rule).copied().unwrap_or(0);
        let mut rules: Vec<RuleChange> = Vec::new();
        for (index, totals) in after.rules.iter().enumerate() {
            rules.push(RuleChange {
                rule: Arc::clone(&totals.rule),
                before: None,
                after: Some(totals.clone()),
                newly_denied: count(&self.newly, index),
                no_longer_denied: 0,
            });
        }
        let pairs = pairs::pairs(&before.rules, &after.rules);
        for ((index, totals), place) in before.rules.iter().enumerate().zip(pairs) {
            let no_longer_denied = count(&self.no_longer, index);
            if let Some(place) = place {
                rules[place].before = Some(totals.clone());
                rules[place].no_longer_denied = no_longer_denied;
                continue;
            }
            rules.push(RuleChange {
                rule: Arc::clone(&totals.rule),
                before: Some(totals.clone()),
                after: None,
                newly_denied: 0,
                no_longer_denied,
            });
        }
        rules
    }
}
