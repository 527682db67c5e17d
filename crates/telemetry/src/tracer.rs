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
pub struct Tracing {
    tracer: Option<Arc<Tracer>>,
    callers: Callers,
}

/// What the trace context of a request does.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Callers {
    /// The caller's trace is continued, and is recorded if the caller records it.
    #[default]
    Trusted,
    /// A trace begins here. It names the caller's span, and nothing more.
    Linked,
}

/// Begins spans, and queues those that have ended.
pub(crate) struct Tracer {
    ids: Arc<IdSource>,
    sample: Ratio,
    /// The listeners whose callers are trusted; all, if there is no list.
    trusted: Option<Vec<String>>,
    queue: SpanQueue,
    clock: Arc<dyn Clock>,
}

// === impl Tracing ===

impl Tracing {
    pub(crate) fn new(tracer: Tracer) -> Tracing {
        Tracing {
            tracer: Some(Arc::new(tracer)),
            callers: Callers::default(),
        }
    }

    /// What begins the spans of this listener: whether the trace context of its callers is
    /// continued, depends on the settings.
    pub fn for_listener(&self, listener: &str) -> Tracing {
        let trusted = self.tracer.as_ref().map(|tracer| tracer.trusts(listener));
        Tracing {
            tracer: self.tracer.clone(),
            callers: match trusted {
                Some(false) => Callers::Linked,
                _ => Callers::Trusted,
            },
        }
    }

    /// Whether it is on.
    pub const fn is_on(&self) -> bool {
        self.tracer.is_some()
    }

    /// Begins the span of a request that has arrived with these headers. It is recorded if its
    /// caller's span is; without a caller's span, or if the callers of this listener are not
    /// trusted, as often as the settings say.
    #[inline]
    pub fn begin(&self, name: &'static str, headers: &HeaderMap) -> RequestSpan {
        match &self.tracer {
            None => RequestSpan::OFF,
            Some(tracer) => Arc::clone(tracer).begin(name, headers, self.callers),
        }
    }

    /// The caller's span of a call whose requests come in batches; nothing without tracing.
    pub fn caller(&self, headers: &HeaderMap) -> Option<TraceContext> {
        TraceContext::read(headers).filter(|_| self.is_on())
    }

    /// Begins the span of a batch, as often as the settings say: a trace of its own, with a link to
    /// the span of the caller whose connection or call it came on, if that is known.
    #[inline]
    pub fn begin_batch(&self, name: &'static str, caller: Option<TraceContext>) -> RequestSpan {
        match &self.tracer {
            None => RequestSpan::OFF,
            Some(tracer) => Arc::clone(tracer).begin_root(name, caller),
        }
    }
}

// === impl Tracer ===

impl Tracer {
    pub(crate) fn new(
        ids: Arc<IdSource>,
        (sample, trusted): (Ratio, Option<Vec<String>>),
        queue: SpanQueue,
        clock: Arc<dyn Clock>,
    ) -> Tracer {
        Tracer {
            ids,
            sample,
            trusted,
            queue,
            clock,
        }
    }

    fn trusts(&self, listener: &str) -> bool {
        let trusted = self.trusted.as_ref();
        trusted.is_none_or(|trusted| trusted.iter().any(|one| one == listener))
    }

    /// Begins the span of a request, and decides whether it is recorded.
    #[cold]
    fn begin(
        self: Arc<Self>,
        name: &'static str,
        headers: &HeaderMap,
        callers: Callers,
    ) -> RequestSpan {
        let caller = TraceContext::read(headers);
        let parent = match (caller, callers) {
            (Some(parent), Callers::Trusted) => parent,
            (caller, _) => return self.begin_root(name, caller),
        };
        let context = parent.child(self.ids.span(), parent.is_sampled());
        if !context.is_sampled() {
            return RequestSpan::pass_on(context, true);
        }
        let mut span = self.span(name, context);
        span.parent = Some(parent.span);
        span.state = read_trace_state(headers);
        RequestSpan::record(Open::new(self, span))
    }

    /// Begins a span without a parent, and decides whether it is recorded.
    #[cold]
    fn begin_root(self: Arc<Self>, name: &'static str, link: Option<TraceContext>) -> RequestSpan {
        let (span, trace) = (self.ids.span(), self.ids.trace());
        let context = TraceContext::root(trace, span, self.sample.contains(trace));
        if !context.is_sampled() {
            return RequestSpan::pass_on(context, false);
        }
        let mut span = self.span(name, context);
        span.link = link;
        RequestSpan::record(Open::new(self, span))
    }

    /// A span that begins now.
    fn span(&self, name: &'static str, context: TraceContext) -> FinishedSpan {
        FinishedSpan {
            context,
            parent: None,
            link: None,
            state: None,
            name: Cow::Borrowed(name),
            at: now(&*self.clock),
            took: Duration::ZERO,
            is_error: false,
            attributes: Vec::with_capacity(ATTRIBUTES),
        }
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
