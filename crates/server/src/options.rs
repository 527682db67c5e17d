//! Settings that change requests and responses.

use serde_json::{Map, Value};
use tollgate_core::Request;
use tollgate_engine::Decided;
use tollgate_http::{DELAY_MS, Problem, STORE, STORE_UNAVAILABLE};
use tollgate_rls::{HeaderValue, RateLimitResponse, Struct};

/// Settings that listeners share, but for who may refund.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Options {
    /// Clients of the listener may refund units: those of `grpc` always.
    pub(crate) allow_refund: bool,
    /// Envoy receives the metadata of the rules.
    pub(crate) dynamic_metadata: bool,
    /// Explanations of denied requests show their values.
    pub(crate) show_values: bool,
}

// === impl Options ===

impl Options {
    /// The same for the listener `grpc`, whose clients are trusted with refunds.
    pub(crate) const fn with_refunds(self) -> Options {
        Options {
            allow_refund: true,
            ..self
        }
    }

    /// Whether a client may send this request.
    ///
    /// # Errors
    ///
    /// What to do about a refund that is not allowed.
    pub(crate) fn check_refund(&self, request: &Request<'_>) -> Result<(), &'static str> {
        let own = request.descriptors.iter().filter_map(|asked| asked.cost);
        let mut costs = own.chain([request.cost]);
        if self.allow_refund || !costs.any(|cost| cost.is_refund()) {
            return Ok(());
        }
        Err(
            "a refund (a negative cost) at the `http` listener needs `allow_refund: true` in the \
             service's configuration; the `grpc` listener takes it without",
        )
    }

    /// The answer in Envoy's protocol. A delay and an unavailable store have no fields there, so
    /// they are headers that Envoy adds; the latter is also the body of Envoy's 429.
    pub(crate) fn response(&self, request: &Request<'_>, decided: &Decided) -> RateLimitResponse {
        let header = |key: &http::HeaderName, value: String| HeaderValue {
            key: key.as_str().to_owned(),
            value,
            ..HeaderValue::default()
        };
        let delay = tollgate_http::delay_ms(&decided.answer);
        let delay = delay.map(|millis| header(&DELAY_MS, millis.to_string()));
        let unavailable = unavailable(decided);
        let store = unavailable.as_ref();
        let store = store.map(|_| header(&STORE, STORE_UNAVAILABLE.to_owned()));
        RateLimitResponse {
            response_headers_to_add: delay.into_iter().chain(store).collect(),
            raw_body: unavailable.unwrap_or_default().into_bytes(),
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

/// The text for a request that is denied only because the store has no answer.
fn unavailable(decided: &Decided) -> Option<String> {
    // Before the problem, whose texts every denial would pay for.
    if !decided.answer.is_store_unavailable() {
        return None;
    }
    let problem = Problem::denial(&decided.answer)?;
    Some(format!("{}\n", problem.detail))
}
