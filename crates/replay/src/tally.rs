//! The counts of decided events.

use std::collections::HashMap;
use std::sync::Arc;

use tollgate_core::{Charge, Decision, Enforcement, Key, Limit, RuleName, Span, Verdict};
use tollgate_rules::RuleSet;

use crate::concentration::{Concentration, Found, OneKey};
use crate::denied_keys::{DeniedKeys, describe};
use crate::event::Event;
use crate::report::{Report, RuleTotals};
use crate::rule_cache::CachedRules;
use crate::traffic::Traffic;
use crate::warning::Warning;

pub(crate) struct Tally {
    report: Report,
    /// Where each rule is in the report, by the [`address`] of its name, which the report keeps:
    /// the names of two rules can be equal.
    rules: HashMap<usize, usize>,
    /// The first limit of each rule that stands for overrides. These rules are the last of the
    /// report, in this order.
    overrides: Vec<Limit>,
    denied: DeniedKeys,
    /// The requests that shadow limits would deny.
    shadow: DeniedKeys,
    concentration: Concentration,
    /// The events that no rule matched, not even an unlimited one.
    without_rule: u64,
    /// The limits that the event counted last met, in the order of its charges.
    met: Vec<Met>,
}

/// What stands for the limit of overrides, which share a name, if they differ.
const SEVERAL_OVERRIDES: &str = "several limits, sent by requests";

/// A limit that an event met.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Met {
    /// Where its rule is in the report.
    pub(crate) rule: usize,
    pub(crate) key: Key,
    /// The descriptor of the request that met it.
    pub(crate) descriptor: usize,
    /// The window of the limit.
    pub(crate) window: Span,
}

fn address(rule: &Arc<RuleName>) -> usize {
    Arc::as_ptr(rule).addr()
}

// === impl Tally ===

impl Tally {
    /// Nothing counted yet, of so many distinct requests.
    pub(crate) fn new(rules: &RuleSet, requests: usize) -> Tally {
        let mut tally = Tally {
            report: Report::default(),
            rules: HashMap::new(),
            overrides: Vec::new(),
            denied: DeniedKeys::default(),
            shadow: DeniedKeys::default(),
            concentration: Concentration::over(requests),
            without_rule: 0,
            met: Vec::new(),
        };
        for view in rules.rules().filter(|view| view.limit.is_some()) {
            if view.distinguishes {
                tally.concentration.watch(tally.report.rules.len());
            }
            let index = tally.report.rules.len();
            tally.rules.insert(address(&view.rule), index);
            let totals = RuleTotals::new(view.rule, view.text, view.enforcement);
            tally.report.rules.push(RuleTotals {
                shared_values: view.shared_values,
                ..totals
            });
        }
        tally
    }

    /// Counts one event; without a verdict, it had no answer.
    pub(crate) fn add(
        &mut self,
        event: &Event,
        cached: &CachedRules<'_>,
        charges: &[Charge<'_>],
        verdict: Option<&Verdict>,
    ) {
        self.report.events += 1;
        self.report.from.get_or_insert(event.at);
        self.report.to = Some(event.at);
        self.report.without_limit += u64::from(charges.is_empty());
        self.without_rule += u64::from(charges.is_empty() && !cached.matches_unlimited());
        let is_new = self.concentration.count(event.request);
        self.met.clear();
        let Some(verdict) = verdict else {
            self.report.failed += 1;
            return;
        };
        let mut over_soft = false;
        let judged = charges
            .iter()
            .zip(cached.rules_by_charge())
            .zip(&verdict.decisions);
        for (index, ((charge, (descriptor, rule)), decision)) in judged.enumerate() {
            let rule = self.rule(rule, charge);
            self.met.push(Met {
                rule,
                key: charge.key,
                descriptor: *descriptor,
                window: charge.limit.window(),
            });
            if is_new {
                self.concentration.meet(rule, charge.key, event.request);
            }
            let totals = &mut self.report.rules[rule];
            totals.judged += 1;
            // That of the key: a rule may be enforced for some only.
            let is_shadow = charge.enforcement == Enforcement::Shadow;
            let denies = verdict.denial.is_some_and(|denial| denial.by == index);
            match decision {
                Decision::Allow(grant) => over_soft |= grant.over_soft,
                Decision::Deny(_) => totals.over += 1,
            }
            if denies || (is_shadow && !decision.is_allowed()) {
                totals.denied += u64::from(denies);
                let denied = match is_shadow {
                    true => &mut self.shadow,
                    false => &mut self.denied,
                };
                denied.add((rule, charge.key), event.request, *descriptor);
            }
        }
        if verdict.denial.is_some() {
            self.report.denied += 1;
            return;
        }
        self.report.allowed += 1;
        self.report.over_soft += u64::from(over_soft);
        self.report.delayed += u64::from(!verdict.delay().is_zero());
    }

    /// The limits that the event counted last met, in the order of its charges.
    pub(crate) fn last_limits(&self) -> &[Met] {
        &self.met
    }

    /// The rules and keys with the most denials, at most `top`.
    pub(crate) fn most_denied(&self, top: usize) -> Vec<(usize, Key)> {
        self.denied.most(top)
    }

    /// Where a rule is in the report; that of overrides is added if it is new.
    fn rule(&mut self, rule: &Arc<RuleName>, charge: &Charge<'_>) -> usize {
        if let Some(&known) = self.rules.get(&address(rule)) {
            let written = self.report.rules.len() - self.overrides.len();
            let first = known.checked_sub(written);
            if first.is_some_and(|first| self.overrides[first] != *charge.limit) {
                SEVERAL_OVERRIDES.clone_into(&mut self.report.rules[known].limit);
            }
            return known;
        }
        let index = self.report.rules.len();
        let text = charge.limit.to_string();
        self.overrides.push(*charge.limit);
        let totals = RuleTotals::new(Arc::clone(rule), text, charge.enforcement);
        self.report.rules.push(totals);
        self.rules.insert(address(rule), index);
        index
    }

    /// What was counted, with the `top` keys that were denied most; `descriptor_of` finds the
    /// descriptor of a request that counts under a key of a rule.
    pub(crate) fn report(
        self,
        traffic: &Traffic,
        top: usize,
        evicted_keys: Option<u64>,
        descriptor_of: &dyn Fn(&OneKey, &RuleName) -> Option<usize>,
    ) -> Report {
        let mut report = self.report;
        report.denied_keys = self.denied.top(top, &report.rules, traffic);
        report.shadow_keys = self.shadow.top(top, &report.rules, traffic);
        report.evicted_keys = evicted_keys;
        let found = self.concentration.finish();
        report.warnings = warnings(&report, self.without_rule, &found, traffic, descriptor_of);
        report
    }
}

/// The warnings that the counts give rise to.
fn warnings(
    report: &Report,
    without_rule: u64,
    found: &Found,
    traffic: &Traffic,
    descriptor_of: &dyn Fn(&OneKey, &RuleName) -> Option<usize>,
) -> Vec<Warning> {
    let mut warnings = Vec::new();
    if report.events > 0 {
        warnings.extend(traffic.cuts().map(|(input, lines, cut)| Warning::Cut {
            input: input.to_owned(),
            lines,
            cut: cut.clone(),
        }));
        let trailing = traffic.find_trailing();
        warnings.extend(trailing.map(|(input, compression)| Warning::Trailing {
            input: input.to_owned(),
            compression,
        }));
        let without = traffic.without_events();
        warnings.extend(without.map(|(input, guess)| Warning::NoEvents {
            input: input.to_owned(),
            guess,
        }));
        if without_rule == report.events {
            warnings.push(Warning::NoRule);
        }
    }
    // Whether a simulation has one client is for its words to say.
    let one_key = found.one_key.iter().filter(|_| !traffic.is_simulated());
    for one in one_key {
        let totals = &report.rules[one.rule];
        let descriptor = descriptor_of(one, &totals.rule);
        let shown = descriptor.map(|descriptor| describe(traffic, one.request, descriptor, totals));
        warnings.push(Warning::OneKey {
            rule: totals.rule.shown().to_owned(),
            descriptor: shown.unwrap_or_default(),
            events: one.events,
            of: one.of,
        });
    }
    for (rule, events) in &found.own_keys {
        warnings.push(Warning::OwnKeys {
            rule: report.rules[*rule].rule.shown().to_owned(),
            events: *events,
        });
    }
    warnings
}
