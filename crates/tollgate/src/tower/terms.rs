//! What a layer and its services have in common.

use std::sync::Arc;

use http::request::Parts;
use tollgate_http::Responder;

use super::gate::{Gate, Outcome};

/// What is done with the requests to a service.
#[derive(Clone)]
pub(super) struct Terms {
    pub(super) gate: Arc<dyn Gate>,
    pub(super) responder: Responder,
    /// Requests for which one of these is true meet no limit.
    pub(super) exemptions: Vec<Exemption>,
}

/// Whether a request with this head meets no limit.
pub(super) type Exemption = Arc<dyn Fn(&Parts) -> bool + Send + Sync>;

// === impl Terms ===

impl Terms {
    /// What happens to the request with this head.
    pub(super) fn decide(&self, head: &Parts) -> Outcome {
        match self.exemptions.iter().any(|is_exempt| is_exempt(head)) {
            true => Outcome::Unlimited,
            false => self.gate.decide(head),
        }
    }
}
