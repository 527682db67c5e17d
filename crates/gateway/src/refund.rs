//! The refund of a request that never reaches its upstream.

use std::sync::Arc;

use tokio::runtime::Handle;
use tollgate_core::{Answer, ChargeDenied, Cost, Descriptor, Entry, Request, Status};
use tollgate_engine::Engine;

/// What an allowed request was charged. It is refunded when this is dropped, unless the request has
/// reached its upstream: because no server accepts it, or because its client goes away before.
#[derive(Debug)]
pub(crate) struct Refund(Option<Charged>);

#[derive(Debug)]
struct Charged {
    engine: Arc<Engine>,
    domain: Box<[u8]>,
    /// The entries of each descriptor that was charged, and its units.
    descriptors: Vec<(Entries, u64)>,
}

/// The keys and values of a descriptor.
type Entries = Vec<(Box<[u8]>, Box<[u8]>)>;

// === impl Refund ===

impl Refund {
    /// For a request that was charged nothing which is to be refunded here.
    pub(crate) const fn none() -> Refund {
        Refund(None)
    }

    /// For a request that this answer allows.
    pub(crate) fn new(engine: &Arc<Engine>, request: &Request<'_>, answer: &Answer) -> Refund {
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
            engine: Arc::clone(engine),
            domain: request.domain.into(),
            descriptors: owned.collect(),
        }))
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
        // Without a runtime, the process ends, and the units stay charged until they decay.
        if let Ok(runtime) = Handle::try_current() {
            runtime.spawn(charged.refund());
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
