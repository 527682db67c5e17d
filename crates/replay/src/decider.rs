//! Decides events by one set of rules, with a store of its own, and counts what comes of them.

use tollgate_core::{Charge, Key, Ledger, Moment, Now, PerCharge, RuleName, StoreError, Verdict};
use tollgate_memory::{Memory, RandomKeys};
use tollgate_rules::RuleSet;

use crate::concentration::OneKey;
use crate::error::Error;
use crate::event::Event;
use crate::replay::Memories;
use crate::report::Report;
use crate::rule_cache::{Cache, CachedRules};
use crate::tally::{Met, Tally};
use crate::traffic::Traffic;

/// A set of rules and the store that they are decided in.
pub(crate) struct Judge<'r> {
    rules: &'r RuleSet,
    store: Store,
    cache: Cache<'r>,
    /// Whether it also decides what was decided elsewhere.
    decides_all: bool,
}

/// What a judge decided.
pub(crate) struct Judged<'c, 'r> {
    pub(crate) rules: &'c CachedRules<'r>,
    pub(crate) charges: PerCharge<Charge<'c>>,
    /// Of an event without an answer, an empty one.
    pub(crate) verdict: Verdict,
    /// Whether it was decided elsewhere, and there was no answer.
    pub(crate) has_failed: bool,
}

/// A judge, and the counts so far.
pub(crate) struct Decider<'r> {
    judge: Judge<'r>,
    tally: Tally,
}

/// What came of one event.
pub(crate) struct Outcome<'c, 'r> {
    pub(crate) rules: &'c CachedRules<'r>,
    /// The limits that it met, in the order of the verdict's decisions.
    pub(crate) met: &'c [Met],
    pub(crate) verdict: Verdict,
    /// Whether there was no answer.
    pub(crate) has_failed: bool,
}

// === impl Judge ===

impl<'r> Judge<'r> {
    /// Nothing decided yet.
    pub(crate) fn new(rules: &'r RuleSet, memories: Memories) -> Result<Judge<'r>, Error> {
        Ok(Judge {
            rules,
            store: Store::new(memories)?,
            cache: Cache::default(),
            decides_all: false,
        })
    }

    /// The same, from the beginning, with the same keys.
    fn again(&self, memories: Memories) -> Result<Judge<'r>, Error> {
        let mut judge = Judge::new(self.rules, memories)?;
        judge.store.keys = self.store.keys.clone();
        Ok(judge)
    }

    /// Decides an event, which is not before the one decided last; if it was decided elsewhere,
    /// that is the verdict, unless this judge decides all.
    pub(crate) fn decide(
        &mut self,
        event: &Event,
        traffic: &Traffic,
    ) -> Result<Judged<'_, 'r>, Error> {
        let (rules, keys) = (self.rules, &self.store.keys);
        let cached = self.cache.get_or_resolve(event.request, || {
            traffic.request(event.request, |request| rules.resolve(request, keys))
        });
        let charges = cached.charges();
        let verdict = match traffic.verdicts().filter(|_| !self.decides_all) {
            Some(verdicts) => verdicts.get(event.line),
            None => {
                let verdict = self.store.accounts.decide(event.at, &charges);
                Some(verdict.map_err(Error::Store)?)
            }
        };
        Ok(Judged {
            rules: cached,
            charges,
            has_failed: verdict.is_none(),
            verdict: verdict.unwrap_or_default(),
        })
    }

    /// The descriptor of a request that counts under this key of this rule.
    fn descriptor_of(&self, one: &OneKey, rule: &RuleName, traffic: &Traffic) -> Option<usize> {
        traffic.request(one.request, |request| {
            let resolved = CachedRules::of(self.rules.resolve(request, &self.store.keys));
            let charges = resolved.charges();
            let mut met = charges.iter().zip(resolved.rules_by_charge());
            let met = met.find(|(charge, (_, name))| **name == *rule && one.is(charge.key));
            met.map(|(_, (descriptor, _))| *descriptor)
        })
    }
}

// === impl Decider ===

impl<'r> Decider<'r> {
    /// Nothing decided yet.
    pub(crate) fn new(
        rules: &'r RuleSet,
        memories: Memories,
        traffic: &Traffic,
    ) -> Result<Decider<'r>, Error> {
        Ok(Decider {
            judge: Judge::new(rules, memories)?,
            tally: Tally::new(rules, traffic.requests()),
        })
    }

    /// The same, from the beginning, with the same keys.
    pub(crate) fn again(
        &self,
        memories: Memories,
        traffic: &Traffic,
    ) -> Result<Decider<'r>, Error> {
        Ok(Decider {
            judge: self.judge.again(memories)?,
            tally: Tally::new(self.judge.rules, traffic.requests()),
        })
    }

    /// Also decides what was decided elsewhere.
    pub(crate) fn decide_all(mut self) -> Decider<'r> {
        self.judge.decides_all = true;
        self
    }

    /// The rules, as their places in the report, and keys with the most denials, at most `top`.
    pub(crate) fn most_denied(&self, top: usize) -> Vec<(usize, Key)> {
        self.tally.most_denied(top)
    }

    /// Decides an event, which is not before the one decided last, and counts it.
    pub(crate) fn decide(
        &mut self,
        event: &Event,
        traffic: &Traffic,
    ) -> Result<Outcome<'_, 'r>, Error> {
        let judged = self.judge.decide(event, traffic)?;
        let Judged {
            rules,
            charges,
            verdict,
            has_failed,
        } = judged;
        let counted = (!has_failed).then_some(&verdict);
        self.tally.add(event, rules, &charges, counted);
        Ok(Outcome {
            rules,
            met: self.tally.last_limits(),
            verdict,
            has_failed,
        })
    }

    /// What was counted, with the `top` keys that were denied most.
    pub(crate) fn report(self, traffic: &Traffic, top: usize) -> Report {
        let Decider { judge, tally } = self;
        let evicted = judge.store.accounts.evicted_keys();
        tally.report(traffic, top, evicted, &|one, rule| {
            judge.descriptor_of(one, rule, traffic)
        })
    }
}

// === impl Outcome ===

impl Outcome<'_, '_> {
    /// The limit that denied the event, if it is denied.
    pub(crate) fn denied_by(&self) -> Option<&Met> {
        self.met.get(self.verdict.denial?.by)
    }
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
    /// An empty store, if the system has the memory for it.
    fn new(memories: Memories) -> Result<Store, Error> {
        match memories {
            Memories::Unbounded => Ok(Store {
                keys: RandomKeys::new(),
                accounts: Accounts::Unbounded(Ledger::default()),
            }),
            // Evictions depend on the hash; with a fixed secret they are repeatable.
            Memories::Bounded { max_keys } => {
                let keys = RandomKeys::with_secret(0, 0);
                let memory = Memory::builder()
                    .max_keys(max_keys.get())
                    .keys(keys.clone());
                let memory = memory.try_build();
                let memory = memory.map_err(|bytes| Error::LargeStore { max_keys, bytes })?;
                Ok(Store {
                    keys,
                    accounts: Accounts::Bounded(Box::new(memory)),
                })
            }
        }
    }
}

impl Accounts {
    fn decide(&mut self, at: Moment, charges: &[Charge<'_>]) -> Result<Verdict, StoreError> {
        match self {
            Accounts::Unbounded(ledger) => Ok(ledger.decide(Now::at(at), charges)?),
            Accounts::Bounded(memory) => memory.decide_at(Now::at(at), charges),
        }
    }

    fn evicted_keys(&self) -> Option<u64> {
        match self {
            Accounts::Unbounded(_) => None,
            Accounts::Bounded(memory) => Some(memory.evicted_keys()),
        }
    }
}
