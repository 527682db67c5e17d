//! The report as JSON; docs/explain.md describes its members.

use serde_json::{Map, Value, json};
use tollgate_core::{Limit, Sharing, Status, Wait, to_text};
use tollgate_engine::DescriptorOutcome;
use tollgate_rls::duration;
use tollgate_rules::{Arrival, Finding, LookUp, RuleDescriptor, RuleView};

use crate::headroom;

use super::{EXPLANATION_VERSION, ExplanationReport, Part, Values};

// === impl ExplanationReport ===

impl ExplanationReport<'_, '_> {
    /// The report as JSON.
    pub fn to_json(&self) -> Value {
        let answer = &self.explanation.answer;
        let descriptors = self.parts().map(|part| part.to_json(self));
        let mut json = json!({
            "version": EXPLANATION_VERSION,
            "domain": to_text(self.request.domain),
            "allowed": answer.is_allowed(),
            "store": self.explanation.store,
            "shared": self.explanation.is_shared,
            "storeAnswers": self.explanation.shares.is_none(),
            "hasStates": self.has_states,
            "descriptors": descriptors.collect::<Vec<_>>(),
        });
        if let Some(past) = &self.denial {
            json["denial"] = json!({
                "requestId": past.denied.id,
                "ago": duration(past.ago),
                "deniedBy": past.denied.by,
                "retryAfter": wait_text(past.denied.wait),
                "storeAnswered": past.denied.has_answered,
            });
        }
        if let Some(denial) = answer.denial {
            json["deniedBy"] = json!(answer.denied_by().map(|limited| limited.rule.shown()));
            json["deniedDescriptor"] = json!(denial.by);
            json["retryAfter"] = json!(wait_text(denial.wait));
            json["storeUnavailable"] = json!(answer.is_store_unavailable());
        }
        json
    }
}

// === impl Part ===

impl Part<'_, '_> {
    /// One of `descriptors`.
    fn to_json(&self, report: &ExplanationReport<'_, '_>) -> Value {
        let entries = self.descriptor.entries.iter();
        let entries = entries.map(|entry| entry_json(entry.key, entry.value, report.values));
        let search = self.walk.look_ups.iter();
        let search = search.map(|look_up| look_up_json(look_up, report.values));
        let mut json = json!({
            "entries": entries.collect::<Vec<_>>(),
            "anyOrder": self.descriptor.is_unordered,
            "outcome": self.outcome(),
            "reason": self.reason(),
            "search": search.collect::<Vec<_>>(),
            "searchOmitted": self.walk.omitted,
            "arrivals": self.walk.arrivals.iter().map(arrival_json).collect::<Vec<_>>(),
        });
        match self.finding {
            Finding::Rule(rule) => json["rule"] = rule_json(rule),
            Finding::Replaced { rule, by } => {
                json["rule"] = rule_json(rule);
                json["replacedBy"] = rule_json(by);
            }
            Finding::OwnLimit { limit, sharing } => json["limit"] = limit_json(limit, *sharing),
            Finding::UnknownDomain | Finding::NoMatch | Finding::NoLimit | Finding::Priority => {}
        }
        if let Finding::Rule(view) = self.finding
            && let Some(limit) = &view.limit
        {
            json["limit"] = limit_json(limit, view.sharing);
        }
        if let Some(Some(share)) = self.fallback {
            json["share"] = json!(share.to_string());
        }
        if let Status::Limited(limited) = self.status {
            let outcome = DescriptorOutcome::of_limited(limited, &report.explanation.answer);
            let decision = &limited.decision;
            json["state"] = json!({
                "outcome": outcome.name(),
                "remaining": decision.remaining(),
                "reset": duration(decision.reset()),
                "wait": decision.wait().map(wait_text),
            });
        }
        json
    }
}

fn entry_json(key: &[u8], value: &[u8], values: Values) -> Value {
    let mut json = Map::new();
    json.insert("key".to_owned(), json!(to_text(key)));
    if let Some(value) = values.show(value) {
        json.insert("value".to_owned(), json!(to_text(value)));
    }
    Value::Object(json)
}

fn look_up_json(look_up: &LookUp, values: Values) -> Value {
    let candidates = look_up.candidates.iter().map(|candidate| {
        let mut json = descriptor_json(&candidate.written);
        json["outcome"] = json!(candidate.outcome.name());
        json
    });
    let others = look_up.others.iter().map(|other| descriptor_json(other));
    json!({
        "depth": look_up.depth,
        "entry": entry_json(&look_up.key, &look_up.value, values),
        "candidates": candidates.collect::<Vec<_>>(),
        "candidatesOmitted": look_up.omitted,
        "others": others.collect::<Vec<_>>(),
        "othersOmitted": look_up.others_omitted,
    })
}

fn arrival_json(arrival: &Arrival) -> Value {
    let mut json = descriptor_json(&arrival.written);
    let deeper = arrival.deeper.iter().map(|one| descriptor_json(one));
    json["hasRule"] = json!(arrival.has_rule);
    json["deeper"] = deeper.collect();
    json["deeperOmitted"] = json!(arrival.deeper_omitted);
    json
}

fn descriptor_json(descriptor: &RuleDescriptor) -> Value {
    json!({
        "key": descriptor.key,
        "value": descriptor.value,
        "file": *descriptor.file,
        "line": descriptor.line,
    })
}

fn rule_json(view: &RuleView) -> Value {
    json!({
        "rule": view.rule.path,
        "name": view.rule.name,
        "file": *view.file,
        "line": view.line,
        "text": view.text,
        "enforcement": view.enforcement.name(),
        "enforce": view.enforce.map(|percent| format!("{percent}%")),
        "headroom": view.has_headroom,
        "headroomSources": view.has_headroom.map(|_| headroom::sources(view)),
        "perValue": view.distinguishes,
        "chargeDenied": view.charge_denied.map(|one| one.to_string()),
    })
}

fn limit_json(limit: &Limit, sharing: Sharing) -> Value {
    json!({
        "text": limit.to_string(),
        "limit": limit.count(),
        "window": limit.window().to_string(),
        "algorithm": limit.algorithm().to_string(),
        "capacity": limit.capacity(),
        "mode": sharing.mode.to_string(),
        "onStoreError": sharing.on_store_error.to_string(),
    })
}

fn wait_text(wait: Wait) -> String {
    match wait {
        Wait::For(span) => duration(span),
        Wait::Never => "never".to_owned(),
    }
}
