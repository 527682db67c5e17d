//! What is left of the limits of the busiest rules, for the hottest key of each.

use std::collections::HashMap;

use serde_json::{Value, json};
use tollgate_core::{ChargeDenied, Cost, Request, Status};
use tollgate_engine::{HotKey, HotKeys};

use super::keys::Shown;

/// How many rules are looked up for a snapshot: each is a peek at a store.
const BUDGETS_MAX: usize = 20;

/// By domain and path of a rule.
pub(super) type Budgets = HashMap<(String, String), Value>;

// === impl Shown ===

impl Shown<'_> {
    /// Peeks at the hottest key of each rule; nothing is charged. A domain whose shared store is
    /// down is left out, because a peek would count as a fallback.
    pub(super) async fn budgets(self, found: &HotKeys) -> Budgets {
        let mut budgets = Budgets::new();
        for key in found.hottest.iter().filter(|key| key.is_whole()) {
            if !self.engine.is_store_up(&key.rule.domain) {
                continue;
            }
            let name = (key.rule.domain.clone(), key.rule.path.clone());
            if budgets.len() >= BUDGETS_MAX || budgets.contains_key(&name) {
                continue;
            }
            if let Some(budget) = self.budget(key).await {
                budgets.insert(name, budget);
            }
        }
        budgets
    }

    async fn budget(self, key: &HotKey) -> Option<Value> {
        let request = Request {
            domain: key.rule.domain.as_bytes(),
            descriptors: vec![key.descriptor()].into(),
            cost: Cost::Peek(1),
            charge_denied: ChargeDenied::Never,
        };
        let explained = self.engine.explain(&request).await.ok()?;
        let Some(Status::Limited(limited)) = explained.answer.statuses.first() else {
            return None;
        };
        let capacity = limited.limit.available();
        Some(json!({
            "key": self.entries(key),
            "capacity": capacity,
            "used": capacity.saturating_sub(limited.decision.remaining()),
        }))
    }
}
