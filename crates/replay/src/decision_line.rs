//! Decisions as lines of JSON.

use std::io::{self, Write};

use tollgate_core::{
    Answer, Cost, Descriptor, Enforcement, Limited, Moment, Override, Request, Span, Wait, to_text,
};
use tollgate_rls::Times;

use crate::report::JSON_VERSION;
use crate::timestamp::{Seconds, Utc};
use crate::traffic::Place;

/// How many bytes are buffered before they are written.
const CHUNK_BYTES: usize = 256 * 1024;

/// A buffered writer of decisions.
///
/// A line has the response of the rate limit service in the JSON of proto3, after members that the
/// response does not have. `docs/replay.md` describes them.
pub(crate) struct DecisionLines<'w> {
    out: &'w mut dyn Write,
    text: Vec<u8>,
}

/// One decision.
pub(crate) struct Decided<'a, 'r> {
    pub(crate) place: Place<'a>,
    pub(crate) at: Moment,
    /// The line's client, if it is kept.
    pub(crate) client: Option<&'a [u8]>,
    pub(crate) request: &'a Request<'r>,
    /// None if the event was decided elsewhere and there was no answer.
    pub(crate) answer: Option<Answer>,
}

// === impl DecisionLines ===

impl<'w> DecisionLines<'w> {
    pub(crate) fn to(out: &'w mut dyn Write) -> DecisionLines<'w> {
        DecisionLines {
            out,
            text: Vec::with_capacity(CHUNK_BYTES),
        }
    }

    pub(crate) fn add(&mut self, decided: &Decided<'_, '_>) -> io::Result<()> {
        self.line(decided)?;
        if self.text.len() >= CHUNK_BYTES {
            self.out.write_all(&self.text)?;
            self.text.clear();
        }
        Ok(())
    }

    /// Flushes the buffer.
    pub(crate) fn finish(self) -> io::Result<()> {
        self.out.write_all(&self.text)?;
        self.out.flush()
    }

    /// Formats one decision.
    fn line(&mut self, decided: &Decided<'_, '_>) -> io::Result<()> {
        let text = &mut self.text;
        let Place { input, line } = decided.place;
        write!(text, "{{\"version\":{JSON_VERSION},\"line\":{line}")?;
        if let Some(input) = input {
            text.extend_from_slice(b",\"file\":");
            serde_json::to_writer(&mut *text, input)?;
        }
        write!(text, ",\"at\":\"{}\"", Utc(decided.at))?;
        if let Some(client) = decided.client {
            text.extend_from_slice(b",\"client\":");
            string(client, text)?;
        }
        let Some(answer) = &decided.answer else {
            text.extend_from_slice(b",\"allowed\":false,\"failed\":true,");
            write_request(decided.request, text)?;
            text.extend_from_slice(b"\"overallCode\":\"UNKNOWN\",\"statuses\":[]}\n");
            return Ok(());
        };
        write!(text, ",\"allowed\":{},", answer.is_allowed())?;
        match answer.denial.map(|denied| denied.wait) {
            Some(Wait::For(wait)) => write!(text, "\"retryAfter\":\"{}s\",", seconds(wait))?,
            Some(Wait::Never) => text.extend_from_slice(b"\"retryAfter\":\"never\","),
            None => {}
        }
        if !answer.delay.is_zero() {
            write!(text, "\"delay\":\"{}s\",", seconds(answer.delay))?;
        }
        if answer.is_over_soft() {
            text.extend_from_slice(b"\"overSoft\":true,");
        }
        if let (Some(denied), Some(limited)) = (answer.denial, answer.denied_by()) {
            text.extend_from_slice(b"\"deniedBy\":");
            serde_json::to_writer(&mut *text, limited.rule.shown())?;
            text.extend_from_slice(b",\"deniedKey\":");
            if let Some(descriptor) = decided.request.descriptors.get(denied.by) {
                entries(descriptor, text)?;
            }
            text.push(b',');
        }
        shadow_denials(answer, text)?;
        write_request(decided.request, text)?;
        tollgate_rls::write_members(answer, Times::Exact, text);
        text.extend_from_slice(b"}\n");
        Ok(())
    }
}

/// The shadow rules that would have denied the request, if there are any.
fn shadow_denials(answer: &Answer, text: &mut Vec<u8>) -> io::Result<()> {
    let is_denial = |limited: &&Limited| {
        limited.enforcement == Enforcement::Shadow && !limited.decision.is_allowed()
    };
    let rules: Vec<&str> = answer
        .limited()
        .filter(is_denial)
        .map(|limited| limited.rule.shown())
        .collect();
    if !rules.is_empty() {
        text.extend_from_slice(b"\"shadowDeniedBy\":");
        serde_json::to_writer(&mut *text, &rules)?;
        text.push(b',');
    }
    Ok(())
}

/// What was asked, as a trace has it, and a comma: the descriptors, and the cost unless it is 1.
fn write_request(request: &Request<'_>, text: &mut Vec<u8>) -> io::Result<()> {
    descriptors(request, text)?;
    if request.cost != Cost::ONE {
        cost(request.cost, text)?;
        text.push(b',');
    }
    Ok(())
}

/// The request's descriptors, as a trace has them, and a comma.
pub(crate) fn descriptors(request: &Request<'_>, text: &mut Vec<u8>) -> io::Result<()> {
    text.extend_from_slice(b"\"descriptors\":[");
    for (index, descriptor) in request.descriptors.iter().enumerate() {
        text.extend_from_slice(if index == 0 { b"" } else { b"," });
        text.extend_from_slice(b"{\"entries\":");
        entries(descriptor, text)?;
        if let Some(own) = descriptor.cost {
            text.push(b',');
            cost(own, text)?;
        }
        if let Some(limit) = &descriptor.limit {
            override_limit(limit, text)?;
        }
        text.push(b'}');
    }
    text.extend_from_slice(b"],");
    Ok(())
}

fn cost(cost: Cost, text: &mut Vec<u8>) -> io::Result<()> {
    write!(text, "\"hitsAddend\":{}", cost.units())?;
    if let Cost::Refund(_) = cost {
        text.extend_from_slice(b",\"isNegativeHits\":true");
    }
    Ok(())
}

fn override_limit(limit: &Override, text: &mut Vec<u8>) -> io::Result<()> {
    write!(text, ",\"limit\":{{\"requestsPerUnit\":{}", limit.count)?;
    let mut units = Span::UNITS.into_iter();
    if let Some((name, _)) = units.find(|(_, span)| *span == limit.window) {
        write!(text, ",\"unit\":\"{}\"", name.to_ascii_uppercase())?;
    }
    text.push(b'}');
    Ok(())
}

fn entries(descriptor: &Descriptor<'_>, text: &mut Vec<u8>) -> io::Result<()> {
    text.push(b'[');
    for (index, entry) in descriptor.entries.iter().enumerate() {
        text.extend_from_slice(if index == 0 { b"" } else { b"," });
        text.extend_from_slice(b"{\"key\":");
        string(entry.key, text)?;
        text.extend_from_slice(b",\"value\":");
        string(entry.value, text)?;
        text.push(b'}');
    }
    text.push(b']');
    Ok(())
}

/// Bytes as a JSON string, with bytes that are not UTF-8 escaped.
pub(crate) fn string(bytes: &[u8], text: &mut Vec<u8>) -> io::Result<()> {
    serde_json::to_writer(&mut *text, &to_text(bytes))?;
    Ok(())
}

const fn seconds(span: Span) -> Seconds {
    Seconds(span.as_nanos())
}
