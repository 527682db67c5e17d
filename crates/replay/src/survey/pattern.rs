//! The keys that are denied most, and how they behave.

use std::cmp::Reverse;
use std::collections::HashMap;
use std::sync::Arc;

use tollgate_core::{Escaped, Key, Moment, RuleName, Span};

use crate::decider::Outcome;
use crate::denied_keys::describe;
use crate::event::Event;
use crate::report::Report;
use crate::survey::timeline::Slot;
use crate::traffic::Traffic;

/// The most keys that are followed.
pub const PATTERNS_MAX: usize = 100;
/// The most paths, and the most user agents, of a key that are counted; others are counted
/// together.
pub const DETAILS_MAX: usize = 1000;
/// How many of them are shown.
const MOST_SHOWN: usize = 3;

/// How a key that was denied behaves.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeniedPattern {
    /// The rule that denies it.
    pub rule: Arc<RuleName>,
    /// The keys and values of a descriptor that counts under it, as in
    /// [`DeniedKey::descriptor`](crate::DeniedKey::descriptor).
    pub descriptor: Vec<(String, String)>,
    /// Its requests.
    pub offered: u64,
    /// Of these, those that the rule denied for this key.
    pub denied: u64,
    /// The first of these denials.
    pub first: Moment,
    /// The last of them.
    pub last: Moment,
    /// The most of its requests that were denied in a row, by whichever rule.
    pub longest_run: Run,
    /// The most requests in a second, aligned to the Unix epoch.
    pub peak_second: u64,
    /// The most requests in a minute.
    pub peak_minute: u64,
    /// Its requests in each slot of the timeline, and how many of them its rule denied.
    pub slots: Vec<Slot>,
    /// The paths of its requests, the most frequent first.
    pub paths: Most,
    /// Their user agents.
    pub user_agents: Most,
}

/// Requests in a row that were all denied.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Run {
    /// How many.
    pub requests: u64,
    /// From the first of them to the last.
    pub length: Span,
}

/// The most frequent of some values.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Most {
    /// The most frequent, with their requests.
    pub first: Vec<(String, u64)>,
    /// Requests with other values.
    pub others: u64,
    /// Whether there were more than [`DETAILS_MAX`] values, so that a frequent one that came late
    /// may be missing.
    pub is_full: bool,
}

/// The keys that are followed.
pub(crate) struct Patterns {
    places: HashMap<(usize, Key), usize>,
    followed: Vec<Followed>,
}

/// What is known of a key so far.
struct Followed {
    rule: usize,
    /// A request, and the descriptor in it, that counts under the key.
    example: Option<(u32, usize)>,
    offered: u64,
    denied: u64,
    denials: Option<(Moment, Moment)>,
    run: Option<(Moment, u64)>,
    longest_run: Run,
    second: Peak,
    minute: Peak,
    slots: Vec<Slot>,
    paths: Frequencies,
    user_agents: Frequencies,
}

/// The most requests in a window.
#[derive(Default)]
struct Peak {
    window: u64,
    requests: u64,
    most: u64,
}

/// How often each of a bounded number of values occurs.
#[derive(Default)]
struct Frequencies {
    counts: HashMap<u32, u64>,
    others: u64,
}

// === impl Patterns ===

impl Patterns {
    /// Follows these keys, over a timeline of so many slots.
    pub(crate) fn of(keys: &[(usize, Key)], slots: usize) -> Patterns {
        let places = keys.iter().enumerate().map(|(place, key)| (*key, place));
        let followed = keys.iter().map(|(rule, _)| Followed {
            rule: *rule,
            example: None,
            offered: 0,
            denied: 0,
            denials: None,
            run: None,
            longest_run: Run::default(),
            second: Peak::default(),
            minute: Peak::default(),
            slots: vec![Slot::default(); slots],
            paths: Frequencies::default(),
            user_agents: Frequencies::default(),
        });
        Patterns {
            places: places.collect(),
            followed: followed.collect(),
        }
    }

    /// Counts an event for each key that it meets.
    pub(crate) fn add(
        &mut self,
        event: &Event,
        outcome: &Outcome<'_, '_>,
        slot: usize,
        traffic: &Traffic,
    ) {
        let denied_by = outcome.verdict.denial.map(|denial| denial.by);
        for (index, met) in outcome.met.iter().enumerate() {
            let Some(place) = self.places.get(&(met.rule, met.key)) else {
                continue;
            };
            let followed = &mut self.followed[*place];
            followed
                .example
                .get_or_insert((event.request, met.descriptor));
            followed.add(event.at, denied_by.map(|by| by == index), slot);
            if let Some(path) = traffic.notes().path_of(event.line) {
                followed.paths.add(path);
            }
            if let Some(user_agent) = traffic.notes().user_agent_of(event.line) {
                followed.user_agents.add(user_agent);
            }
        }
    }

    pub(crate) fn finish(self, report: &Report, traffic: &Traffic) -> Vec<DeniedPattern> {
        let followed = self.followed.into_iter();
        followed
            .filter_map(|followed| followed.finish(report, traffic))
            .collect()
    }
}

// === impl Followed ===

impl Followed {
    /// Counts a request; `denied` is `None` if it is allowed, otherwise whether this key's rule
    /// denied it.
    fn add(&mut self, at: Moment, denied: Option<bool>, slot: usize) {
        let by_rule = denied == Some(true);
        self.offered += 1;
        self.slots[slot].offered += 1;
        self.second.add(at, Span::SECOND);
        self.minute.add(at, Span::MINUTE);
        if by_rule {
            self.denied += 1;
            self.slots[slot].denied += 1;
            self.denials.get_or_insert((at, at)).1 = at;
        }
        match denied {
            None => self.run = None,
            Some(_) => {
                let (since, requests) = self.run.get_or_insert((at, 0));
                *requests += 1;
                if *requests > self.longest_run.requests {
                    let length = at.as_nanos().saturating_sub(since.as_nanos());
                    self.longest_run = Run {
                        requests: *requests,
                        length: Span::from_nanos(length),
                    };
                }
            }
        }
    }

    /// What was found; `None` if the key was never denied.
    fn finish(self, report: &Report, traffic: &Traffic) -> Option<DeniedPattern> {
        let (request, descriptor) = self.example?;
        let (first, last) = self.denials?;
        let rule = &report.rules[self.rule];
        Some(DeniedPattern {
            rule: Arc::clone(&rule.rule),
            descriptor: describe(traffic, request, descriptor, rule),
            offered: self.offered,
            denied: self.denied,
            first,
            last,
            longest_run: self.longest_run,
            peak_second: self.second.most,
            peak_minute: self.minute.most,
            slots: self.slots,
            paths: self.paths.most(|number| traffic.notes().path(number)),
            user_agents: self
                .user_agents
                .most(|number| traffic.notes().user_agent(number)),
        })
    }
}

// === impl Peak ===

impl Peak {
    fn add(&mut self, at: Moment, length: Span) {
        let window = at.as_nanos() / length.as_nanos();
        if window != self.window {
            (self.window, self.requests) = (window, 0);
        }
        self.requests += 1;
        self.most = self.most.max(self.requests);
    }
}

// === impl Frequencies ===

impl Frequencies {
    fn add(&mut self, number: u32) {
        if let Some(count) = self.counts.get_mut(&number) {
            *count += 1;
        } else if self.counts.len() < DETAILS_MAX {
            self.counts.insert(number, 1);
        } else {
            self.others += 1;
        }
    }

    fn most<'t>(self, name: impl Fn(u32) -> &'t [u8]) -> Most {
        let mut counts: Vec<_> = self.counts.into_iter().collect();
        counts.sort_by_key(|(number, count)| (Reverse(*count), *number));
        let rest = counts.iter().skip(MOST_SHOWN);
        let first = counts.iter().take(MOST_SHOWN);
        Most {
            first: first
                .map(|(number, count)| (Escaped(name(*number)).to_string(), *count))
                .collect(),
            others: self.others + rest.map(|(_, count)| count).sum::<u64>(),
            is_full: self.others > 0,
        }
    }
}
