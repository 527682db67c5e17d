//! Decisions as lines of JSON.

use std::io::{self, Write};

use tollgate_core::{Answer, Moment, Span, Wait};
use tollgate_rls::Times;

use crate::timestamp::Seconds;
use crate::traffic::Place;

/// How much is gathered before it is written.
const CHUNK_BYTES: usize = 256 * 1024;

/// Lines on their way out, written in large pieces.
///
/// A line is the response of the rate limit service in the JSON of proto3, and before it what that
/// does not tell; spans there are seconds with as many decimals as they need: `0.8s`.
///
/// - `line`: the line of the event in its input, from 1; `file`: the input, if there are several
/// - `at`: seconds since 1970, exact
/// - `allowed`
/// - `retryAfter`, in a refusal: how long until the same request is admitted if nobody else comes,
///   or `never`
/// - `delay`: how long a leaky bucket would have the request held, if at all
/// - `overSoft`: there and true if the request passed in the soft part of a limit
/// - `deniedBy`, in a refusal: the rule that refused, by its name, or else by its place in the file
pub(crate) struct DecisionLines<'w> {
    out: &'w mut dyn Write,
    text: Vec<u8>,
}

// === impl DecisionLines ===

impl<'w> DecisionLines<'w> {
    pub(crate) fn to(out: &'w mut dyn Write) -> DecisionLines<'w> {
        DecisionLines {
            out,
            text: Vec::with_capacity(CHUNK_BYTES),
        }
    }

    pub(crate) fn add(&mut self, place: Place<'_>, at: Moment, answer: &Answer) -> io::Result<()> {
        self.line(place, at, answer)?;
        if self.text.len() >= CHUNK_BYTES {
            self.out.write_all(&self.text)?;
            self.text.clear();
        }
        Ok(())
    }

    /// Writes what is left.
    pub(crate) fn finish(self) -> io::Result<()> {
        self.out.write_all(&self.text)?;
        self.out.flush()
    }

    fn line(&mut self, place: Place<'_>, at: Moment, answer: &Answer) -> io::Result<()> {
        let text = &mut self.text;
        write!(text, "{{\"line\":{}", place.line)?;
        if let Some(input) = place.input {
            text.extend_from_slice(b",\"file\":");
            serde_json::to_writer(&mut *text, input)?;
        }
        let (at, allowed) = (Seconds(at.as_nanos()), answer.is_admitted());
        write!(text, ",\"at\":{at},\"allowed\":{allowed},")?;
        match answer.refused.map(|refused| refused.wait) {
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
        if let Some(limited) = answer.refused_by() {
            text.extend_from_slice(b"\"deniedBy\":");
            serde_json::to_writer(&mut *text, limited.rule.shown())?;
            text.push(b',');
        }
        tollgate_rls::write_members(answer, Times::Exact, text);
        text.extend_from_slice(b"}\n");
        Ok(())
    }
}

const fn seconds(span: Span) -> Seconds {
    Seconds(span.as_nanos())
}
