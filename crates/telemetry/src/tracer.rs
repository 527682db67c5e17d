//! Begins the spans of requests.

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use http::HeaderMap;
use tollgate_core::{Clock, Moment, Timeline};

use crate::sampler::Ratio;
use crate::span::{FinishedSpan, Open, RequestSpan};
use crate::span_id_source::IdSource;
use crate::span_queue::SpanQueue;
use crate::trace_context::{TraceContext, read_trace_state};

/// Room for the attributes of nearly every span.
const ATTRIBUTES: usize = 12;

/// Begins spans, if tracing is on. Otherwise this is nothing.
#[derive(Clone, Debug, Default)]
pub struct Tracing(Option<Arc<Tracer>>);

/// Begins spans, and queues those that have ended.
pub(crate) struct Tracer {
    ids: Arc<IdSource>,
    sample: Ratio,
    queue: SpanQueue,
    clock: Arc<dyn Clock>,
}

// === impl Tracing ===

impl Tracing {
    pub(crate) fn new(tracer: Tracer) -> Tracing {
        Tracing(Some(Arc::new(tracer)))
    }

    /// Whether it is on.
    pub const fn is_on(&self) -> bool {
        self.0.is_some()
    }

    /// Begins the span of a request that has arrived with these headers. It is recorded if its
    /// caller's span is; without a caller's span, as often as the settings say.
    #[inline]
    pub fn begin(&self, name: &'static str, headers: &HeaderMap) -> RequestSpan {
        match &self.0 {
            None => RequestSpan::OFF,
            Some(tracer) => Arc::clone(tracer).begin(name, headers),
        }
    }
}

// === impl Tracer ===

impl Tracer {
    pub(crate) fn new(
        ids: Arc<IdSource>,
        sample: Ratio,
        queue: SpanQueue,
        clock: Arc<dyn Clock>,
    ) -> Tracer {
        Tracer {
            ids,
            sample,
            queue,
            clock,
        }
    }

    /// Begins a span, and decides whether it is recorded.
    #[cold]
    fn begin(self: Arc<Self>, name: &'static str, headers: &HeaderMap) -> RequestSpan {
        let parent = TraceContext::read(headers);
        let span = self.ids.span();
        let context = match parent {
            Some(parent) => parent.child(span, parent.is_sampled()),
            None => {
                let trace = self.ids.trace();
                TraceContext::root(trace, span, self.sample.contains(trace))
            }
        };
        if !context.is_sampled() {
            return RequestSpan::pass_on(context, parent.is_some());
        }
        let state = parent.and_then(|_| read_trace_state(headers));
        let span = FinishedSpan {
            context,
            parent: parent.map(|parent| parent.span),
            state,
            name: Cow::Borrowed(name),
            at: now(&*self.clock),
            took: Duration::ZERO,
            is_error: false,
            attributes: Vec::with_capacity(ATTRIBUTES),
        };
        RequestSpan::record(Open::new(self, span))
    }

    /// Queues a span, unless there is no room for it.
    pub(crate) fn finish(&self, span: FinishedSpan) {
        self.queue.push(span);
    }
}

/// The time since 1970.
pub(crate) fn now(clock: &dyn Clock) -> Duration {
    clock.on(Timeline::Utc).since(Moment::ZERO).into()
}

impl fmt::Debug for Tracer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("Tracer");
        shown.field("sample", &self.sample).finish_non_exhaustive()
    }
}
