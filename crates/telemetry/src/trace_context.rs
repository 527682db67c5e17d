//! W3C Trace Context: which trace a request belongs to.
//!
//! What is not valid by the specification is ignored as a whole: a client's trace context must
//! never be an error of its request.

use std::fmt::{self, Write as _};

use http::{HeaderMap, HeaderName, HeaderValue};

/// The header with the trace and the caller's span.
pub const TRACEPARENT: HeaderName = HeaderName::from_static("traceparent");
/// The header with what tracing systems add to it.
pub const TRACESTATE: HeaderName = HeaderName::from_static("tracestate");

/// The length of `traceparent` in version 00.
const TRACEPARENT_BYTES: usize = 55;
/// The bit of the flags that says that the caller records its span.
const SAMPLED: u8 = 1;
/// The bit that says that the trace's id is random.
const RANDOM: u8 = 2;
/// The most list members of `tracestate`.
const MEMBERS_MAX: usize = 32;
/// The longest `tracestate` that is kept, in bytes. The specification asks for at least 512.
const TRACESTATE_BYTES_MAX: usize = 1024;
/// The longest key and the longest value of a list member.
const MEMBER_TEXT_BYTES_MAX: usize = 256;
/// The longest tenant in a key `tenant@system`, and the longest system.
const TENANT_BYTES_MAX: usize = 241;
const SYSTEM_BYTES_MAX: usize = 14;

/// The id of a trace, which is not zero.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct TraceId(pub(crate) u128);

/// The id of a span, which is not zero.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct SpanId(pub(crate) u64);

/// A span, as requests to other processes name it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TraceContext {
    /// Its trace.
    pub trace: TraceId,
    /// Its id.
    pub span: SpanId,
    pub(crate) flags: u8,
}

// === impl TraceContext ===

impl TraceContext {
    /// The caller's span; `None` if there is no `traceparent`, more than one, or an invalid one.
    pub fn read(headers: &HeaderMap) -> Option<TraceContext> {
        let mut values = headers.get_all(TRACEPARENT).iter();
        let value = values.next()?;
        match values.next() {
            Some(_) => None,
            None => TraceContext::parse(value.as_bytes()),
        }
    }

    /// Reads the value of `traceparent`, in version 00 or a later one.
    fn parse(value: &[u8]) -> Option<TraceContext> {
        let (known, rest) = value.split_at_checked(TRACEPARENT_BYTES)?;
        let text = std::str::from_utf8(known).ok()?;
        let mut fields = text.split('-');
        let version = u8::try_from(hexadecimal(fields.next()?, 2)?).ok()?;
        // A later version may have more fields, and version ff is none.
        let has_valid_end = match version {
            0 => rest.is_empty(),
            0xff => false,
            _ => rest.is_empty() || rest.starts_with(b"-"),
        };
        let trace = hexadecimal(fields.next()?, 32)?;
        let span = u64::try_from(hexadecimal(fields.next()?, 16)?).ok()?;
        let flags = u8::try_from(hexadecimal(fields.next()?, 2)?).ok()?;
        let is_valid = has_valid_end && fields.next().is_none() && trace != 0 && span != 0;
        is_valid.then_some(TraceContext {
            trace: TraceId(trace),
            span: SpanId(span),
            flags,
        })
    }

    /// Whether its process records it.
    pub const fn is_sampled(&self) -> bool {
        self.flags & SAMPLED != 0
    }

    /// A span of the same trace.
    pub(crate) const fn child(&self, span: SpanId, is_sampled: bool) -> TraceContext {
        let sampled = if is_sampled { SAMPLED } else { 0 };
        TraceContext {
            trace: self.trace,
            span,
            flags: self.flags & RANDOM | sampled,
        }
    }

    /// The first span of a trace.
    pub(crate) const fn root(trace: TraceId, span: SpanId, is_sampled: bool) -> TraceContext {
        let flags = if is_sampled { SAMPLED } else { 0 };
        TraceContext { trace, span, flags }
    }

    /// Makes this the caller's span of a request. `has_valid_parent` says whether its present
    /// headers are those of the same trace; otherwise its `tracestate` is of no trace.
    pub(crate) fn write(&self, headers: &mut HeaderMap, has_valid_parent: bool) {
        if !has_valid_parent || read_trace_state(headers).is_none() {
            headers.remove(TRACESTATE);
        }
        let value = HeaderValue::try_from(self.to_string());
        headers.insert(TRACEPARENT, value.expect("hexadecimal digits"));
    }
}

impl fmt::Display for TraceContext {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "00-{}-{}-{:02x}", self.trace, self.span, self.flags)
    }
}

/// A number of exactly so many digits, which are lower case.
fn hexadecimal(text: &str, digits: usize) -> Option<u128> {
    let is_digit = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
    let is_valid = text.len() == digits && text.bytes().all(is_digit);
    is_valid.then(|| u128::from_str_radix(text, 16).ok())?
}

/// The `tracestate` of a request, in one line; `None` if there is none, or an invalid or long one.
pub(crate) fn read_trace_state(headers: &HeaderMap) -> Option<String> {
    let mut state = String::new();
    for value in headers.get_all(TRACESTATE) {
        if !state.is_empty() {
            state.push(',');
        }
        if state.len() + value.len() > TRACESTATE_BYTES_MAX {
            return None;
        }
        write!(state, "{}", std::str::from_utf8(value.as_bytes()).ok()?).ok()?;
    }
    let members = || {
        let members = state
            .split(',')
            .map(|member| member.trim_matches([' ', '\t']));
        members.filter(|member| !member.is_empty())
    };
    let count = members().count();
    let is_valid = (1..=MEMBERS_MAX).contains(&count) && members().all(is_member);
    is_valid.then_some(state)
}

fn is_member(member: &str) -> bool {
    let Some((key, value)) = member.split_once('=') else {
        return false;
    };
    is_key(key) && is_value(value)
}

/// Whether it is a key of `tracestate`: `system`, or `tenant@system`.
fn is_key(key: &str) -> bool {
    let is_rest = |text: &str| {
        let mut bytes = text.bytes();
        bytes.all(|byte| {
            byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"_-*/".contains(&byte)
        })
    };
    let begins_with_letter = |text: &str| text.starts_with(|c: char| c.is_ascii_lowercase());
    match key.split_once('@') {
        None => begins_with_letter(key) && key.len() <= MEMBER_TEXT_BYTES_MAX && is_rest(key),
        Some((tenant, system)) => {
            let begins = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
            tenant.starts_with(begins)
                && tenant.len() <= TENANT_BYTES_MAX
                && is_rest(tenant)
                && begins_with_letter(system)
                && system.len() <= SYSTEM_BYTES_MAX
                && is_rest(system)
        }
    }
}

fn is_value(value: &str) -> bool {
    let is_allowed = |byte: u8| (b' '..=b'~').contains(&byte) && !b",=".contains(&byte);
    (1..=MEMBER_TEXT_BYTES_MAX).contains(&value.len()) && value.bytes().all(is_allowed)
}

// === impl TraceId ===

impl fmt::Display for TraceId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", self.0)
    }
}

impl fmt::Debug for TraceId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "TraceId({self})")
    }
}

// === impl SpanId ===

impl fmt::Display for SpanId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

impl fmt::Debug for SpanId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SpanId({self})")
    }
}

#[cfg(test)]
mod tests;
