//! What the operator chose about the way that doors take and tell.

use serde_json::{Map, Value};
use tollgate_core::Request;
use tollgate_http::DELAY_MS;
use tollgate_rls::{HeaderValue, RateLimitResponse, Struct};

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
    /// The answer in Envoy's words. Those have none for a delay, so it is a header that Envoy adds.
    pub(crate) fn response(&self, request: &Request<'_>, decided: &Decided) -> RateLimitResponse {
        let delay = tollgate_http::delay_ms(&decided.answer).map(|millis| HeaderValue {
            key: DELAY_MS.as_str().to_owned(),
            value: millis.to_string(),
            ..HeaderValue::default()
        });
        RateLimitResponse {
            response_headers_to_add: Vec::from_iter(delay),
            dynamic_metadata: self.metadata(request, decided),
            ..tollgate_rls::response(&decided.answer)
        }
    }

    /// The same in the JSON of proto3, whose delay is a header of the HTTP response itself.
    pub(crate) fn json(&self, request: &Request<'_>, decided: &Decided) -> Vec<u8> {
        tollgate_rls::json(&decided.answer, self.metadata(request, decided).as_ref())
    }

    fn metadata(&self, request: &Request<'_>, decided: &Decided) -> Option<Struct> {
        self.dynamic_metadata.then(|| {
            let none = Map::<String, Value>::new();
            tollgate_rls::metadata(request, decided.metadata.as_ref().unwrap_or(&none))
        })
    }
}
