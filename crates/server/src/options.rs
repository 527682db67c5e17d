//! What the operator chose about the way that doors take and tell.

use serde_json::{Map, Value};
use tollgate_core::Request;
use tollgate_rls::RateLimitResponse;

use crate::engine::Decided;

/// Choices that the doors share.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Options {
    /// HTTP clients may give units back.
    pub(crate) allow_refund: bool,
    /// Envoy is told the metadata of the rules.
    pub(crate) dynamic_metadata: bool,
}

// === impl Options ===

impl Options {
    /// The answer in Envoy's words.
    pub(crate) fn response(&self, request: &Request<'_>, decided: &Decided) -> RateLimitResponse {
        let mut response = tollgate_rls::response(&decided.answer);
        if self.dynamic_metadata {
            let metadata = decided.metadata.as_ref();
            let none = Map::<String, Value>::new();
            let metadata = metadata.unwrap_or(&none);
            response.dynamic_metadata = Some(tollgate_rls::metadata(request, metadata));
        }
        response
    }
}
