//! The counts of decided events.

use std::collections::HashMap;
use std::sync::Arc;

use tollgate_core::{Charge, Decision, Enforcement, Escaped, Key, RuleName, Verdict};
use tollgate_rules::RuleSet;

use crate::concentration::Concentration;
use crate::report::{DeniedKey, Report, RuleTotals, TopKeys};
use crate::rule_cache::CachedRules;
use crate::traffic::{Event, Traffic};
use crate::warning::Warning;

pub(crate) struct Tally {
    report: Report,
    /// Where each rule is in the report.
    rules: HashMap<Arc<RuleName>, usize>,
    /// Denials by rule and key. A shadow rule counts the requests that it would deny.
    denied: HashMap<(usize, Key), Denied>,
    concentration: Concentration,
}

/// The denials of one key.
struct Denied {
    /// A request, and the descriptor in it, that counts under this key.
    request: u32,
    descriptor: usize,
    /// Whether a shadow limit would have denied them.
    is_shadow: bool,
    count: u64,
}

// === impl Tally ===

impl Tally {
    /// Nothing counted yet, of so many distinct requests.
    pub(crate) fn new(rules: &RuleSet, requests: usize) -> Tally {
        let mut tally = Tally {
            report: Report::default(),
            rules: HashMap::new(),
            denied: HashMap::new(),
            concentration: Concentration::over(requests),
        };
        for view in rules.rules().filter(|view| view.limit.is_some()) {
            if view.distinguishes {
                tally.concentration.watch(tally.report.rules.len());
            }
            let rule = Arc::clone(&view.rule);
            tally.rules.insert(rule, tally.report.rules.len());
            let totals = RuleTotals::new(view.rule, view.text, view.enforcement);
            tally.report.rules.push(totals);
        }
        tally
    }

    /// Counts one decided event.
    pub(crate) fn add(
        &mut self,
        event: &Event,
        cached: &CachedRules<'_>,
        charges: &[Charge<'_>],
        verdict: &Verdict,
    ) {
        self.report.events += 1;
        self.report.from.get_or_insert(event.at);
        self.report.to = Some(event.at);
        self.report.without_limit += u64::from(charges.is_empty());
        let is_new = self.concentration.count(event.request);
        let mut over_soft = false;
        let judged = charges
            .iter()
            .zip(cached.rules_by_charge())
            .zip(&verdict.decisions);
        for (index, ((charge, (descriptor, rule)), decision)) in judged.enumerate() {
            let rule = self.rule(rule, charge);
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
                self.deny((rule, is_shadow), charge.key, event.request, *descriptor);
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

    fn rule(&mut self, rule: &Arc<RuleName>, charge: &Charge<'_>) -> usize {
        if let Some(known) = self.rules.get(rule) {
            return *known;
        }
        let index = self.report.rules.len();
        let text = charge.limit.to_string();
        let totals = RuleTotals::new(Arc::clone(rule), text, charge.enforcement);
        self.report.rules.push(totals);
        self.rules.insert(Arc::clone(rule), index);
        index
    }

    fn deny(
        &mut self,
        (rule, is_shadow): (usize, bool),
        key: Key,
        request: u32,
        descriptor: usize,
    ) {
        let denied = self.denied.entry((rule, key)).or_insert(Denied {
            request,
            descriptor,
            is_shadow,
            count: 0,
        });
        denied.count += 1;
    }

    /// What was counted, with the `top` keys that were denied most.
    pub(crate) fn report(self, traffic: &Traffic, top: usize, evicted_keys: Option<u64>) -> Report {
        let mut report = self.report;
        let (mut denied, mut shadow) = (Vec::new(), Vec::new());
        for ((rule, _), key) in self.denied {
            match key.is_shadow {
                true => shadow.push((rule, key)),
                false => denied.push((rule, key)),
            }
        }
        let top_keys = |denied: Vec<(usize, Denied)>, report: &Report| TopKeys {
            count: u64::try_from(denied.len()).unwrap_or(u64::MAX),
            first: top_keys(denied, top, report, traffic),
        };
        report.denied_keys = top_keys(denied, &report);
        report.shadow_keys = top_keys(shadow, &report);
        report.evicted_keys = evicted_keys;
        report.warnings = warnings(&report, &self.concentration.finish(), traffic);
        report
    }
}

/// The keys with the most denials; among equals, the one that came first.
fn top_keys(
    mut denied: Vec<(usize, Denied)>,
    top: usize,
    report: &Report,
    traffic: &Traffic,
) -> Vec<DeniedKey> {
    denied.sort_by_key(|(rule, key)| (std::cmp::Reverse(key.count), key.request, *rule));
    let top = denied.into_iter().take(top).map(|(rule, key)| DeniedKey {
        rule: Arc::clone(&report.rules[rule].rule),
        descriptor: describe(traffic, key.request, key.descriptor),
        denied: key.count,
    });
    top.collect()
}

/// The keys and values of a descriptor.
fn describe(traffic: &Traffic, request: u32, descriptor: usize) -> Vec<(String, String)> {
    let text = |bytes: &[u8]| Escaped(bytes).to_string();
    traffic.request(request, |request| {
        let descriptor = request.descriptors.get(descriptor);
        let entries = descriptor.map_or(&[][..], |descriptor| &descriptor.entries);
        let entries = entries
            .iter()
            .map(|entry| (text(entry.key), text(entry.value)));
        entries.collect()
    })
}

/// The warnings that the counts give rise to.
fn warnings(
    report: &Report,
    found: &crate::concentration::Found,
    traffic: &Traffic,
) -> Vec<Warning> {
    let mut warnings = Vec::new();
    if report.events > 0 {
        let without = traffic.without_events();
        warnings.extend(without.map(|(input, guess)| Warning::NoEvents {
            input: input.to_owned(),
            guess,
        }));
        if report.without_limit == report.events {
            warnings.push(Warning::NoRule);
        }
    }
    for one in &found.one_key {
        let rule = &report.rules[one.rule].rule;
        let of_request = traffic.request(one.request, |request| request.descriptors.len());
        let descriptors = 0..of_request;
        let shown = descriptors.map(|descriptor| describe(traffic, one.request, descriptor));
        warnings.push(Warning::OneKey {
            rule: rule.shown().to_owned(),
            descriptors: shown.collect(),
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
