//! The refund of a request that never reaches its upstream.

use std::sync::Arc;

use tollgate_core::{Answer, ChargeDenied, Cost, Descriptor, Entry, Request, Status};
use tollgate_engine::Engine;

use crate::background::Background;

/// The most refunds at once that wait for a shared store. The units of further ones stay charged
/// until they decay.
const REFUNDS_MAX: usize = 4096;

/// Makes refunds.
#[derive(Debug)]
pub(crate) struct Refunder {
    engine: Arc<Engine>,
    background: Background,
}

/// What an allowed request was charged. It is refunded when this is dropped, unless the request has
/// reached its upstream: because no server accepts it, or because its client goes away before.
#[derive(Debug)]
pub(crate) struct Refund(Option<Charged>);

#[derive(Debug)]
struct Charged {
    engine: Arc<Engine>,
    background: Background,
    domain: Box<[u8]>,
    /// The entries of each descriptor that was charged, and its units.
    descriptors: Vec<(Entries, u64)>,
}

/// The keys and values of a descriptor.
type Entries = Vec<(Box<[u8]>, Box<[u8]>)>;

// === impl Refunder ===

impl Refunder {
    pub(crate) fn new(engine: &Arc<Engine>) -> Refunder {
        Refunder {
            engine: Arc::clone(engine),
            background: Background::new(REFUNDS_MAX),
        }
    }

    /// The refund of a request that this answer allows.
    pub(crate) fn prepare(&self, request: &Request<'_>, answer: &Answer) -> Refund {
        let descriptors = request.descriptors.iter().zip(&answer.statuses);
        // A shadow limit or a quota that would have denied was not charged.
        let charged = descriptors.filter(|(_, status)| match status {
            Status::Limited(limited) => limited.decision.is_allowed(),
            _ => false,
        });
        let owned = charged.map(|(descriptor, _)| {
            let entries = descriptor.entries.iter();
            let pairs = entries.map(|entry| (entry.key.into(), entry.value.into()));
            let cost = descriptor.cost.unwrap_or(request.cost);
            (pairs.collect(), cost.units())
        });
        Refund(Some(Charged {
            engine: Arc::clone(&self.engine),
            background: self.background.clone(),
            domain: request.domain.into(),
            descriptors: owned.collect(),
        }))
    }
}

// === impl Refund ===

impl Refund {
    /// For a request that was charged nothing which is to be refunded here.
    pub(crate) const fn none() -> Refund {
        Refund(None)
    }

    /// The request has reached its upstream.
    pub(crate) fn cancel(mut self) {
        self.0 = None;
    }
}

impl Drop for Refund {
    fn drop(&mut self) {
        let Some(charged) = self.0.take() else {
            return;
        };
        if charged.descriptors.is_empty() {
            return;
        }
        if let Some(slot) = charged.background.try_acquire() {
            slot.run(charged.refund());
        }
    }
}

// === impl Charged ===

impl Charged {
    async fn refund(self) {
        let descriptors = self.descriptors.iter().map(|(entries, units)| Descriptor {
            cost: Some(Cost::Refund(*units)),
            entries: entries
                .iter()
                .map(|(key, value)| Entry { key, value })
                .collect(),
            ..Descriptor::default()
        });
        let request = Request {
            domain: &self.domain,
            descriptors: descriptors.collect(),
            cost: Cost::Refund(1),
            charge_denied: ChargeDenied::Never,
        };
        // If the store fails, the units stay charged until they decay.
        let _refunded = self.engine.decide(&request).await;
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use tollgate_core::Clock;
    use tollgate_engine::Stores;
    use tollgate_memory::{ManualClock, Memory};
    use tollgate_rules::{Options, RuleSet, Source};

    use super::*;

    const RULES: &str = "{domain: d, descriptors: [{key: k, rate_limit: 9/day}]}";

    fn engine() -> Arc<Engine> {
        let clock: Arc<dyn Clock> = Arc::new(ManualClock::default());
        let memory = Memory::builder().max_keys(100).clock(clock).build();
        let engine = Engine::new(Stores::new(memory));
        let loaded = RuleSet::parse(&[Source::new("d.yaml", RULES)], &Options::default());
        engine.replace_rules(loaded.rules);
        Arc::new(engine)
    }

    /// Decides on a request for `cost`, and returns the answer and what remains.
    async fn decide(engine: &Engine, cost: Cost) -> (Answer, u32) {
        let answer = engine.decide(&request(cost)).await.unwrap().answer;
        let remaining = answer.limited().next().unwrap().remaining();
        (answer, remaining)
    }

    fn request(cost: Cost) -> Request<'static> {
        let entry = Entry {
            key: b"k",
            value: b"v",
        };
        Request {
            domain: b"d",
            descriptors: vec![Descriptor {
                entries: vec![entry].into(),
                ..Descriptor::default()
            }]
            .into(),
            cost,
            charge_denied: ChargeDenied::Never,
        }
    }

    #[tokio::test]
    async fn a_refund_in_memory_is_done_when_its_request_is_dropped() {
        let engine = engine();
        let refunder = Refunder::new(&engine);
        let (answer, remaining) = decide(&engine, Cost::ONE).await;
        assert_eq!(remaining, 8);
        drop(refunder.prepare(&request(Cost::ONE), &answer));
        assert_eq!(decide(&engine, Cost::Peek(1)).await.1, 9);
        assert_eq!(refunder.background.available(), REFUNDS_MAX);
        // Not one that is cancelled.
        let (answer, _) = decide(&engine, Cost::ONE).await;
        refunder.prepare(&request(Cost::ONE), &answer).cancel();
        assert_eq!(decide(&engine, Cost::Peek(1)).await.1, 8);
    }

    #[tokio::test]
    async fn beyond_the_most_refunds_at_once_units_stay_charged() {
        let engine = engine();
        let refunder = Refunder {
            background: Background::new(0),
            ..Refunder::new(&engine)
        };
        let (answer, _) = decide(&engine, Cost::ONE).await;
        drop(refunder.prepare(&request(Cost::ONE), &answer));
        assert_eq!(decide(&engine, Cost::Peek(1)).await.1, 8);
    }
}
