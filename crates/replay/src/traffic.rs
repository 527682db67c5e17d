//! What happened: the events of all inputs, and the lines that are none.
//!
//! An event is 16 bytes: when, which line, which request. A request that comes again is kept once,
//! so that traffic of millions of events fits in memory and its rules are looked up once.

use std::collections::HashMap;
use std::io::Read;

use tollgate_core::{ChargeDenied, Escaped, Moment};
use tollgate_rls::{InvalidRequest, RateLimitRequest};

use crate::access_log::LogLine;
use crate::error::Error;
use crate::input::{LINE_BYTES_MAX, Line, Lines};
use crate::pattern::{Agent, Fields, Pattern, Values};
use crate::trace;

/// The most lines of all inputs together.
pub const LINES_MAX: u32 = u32::MAX;
/// The skipped lines that are kept to be shown; the others are counted.
pub const SKIPPED_SHOWN_MAX: usize = 10;
/// The most bytes of a skipped line that are shown.
pub const EXCERPT_BYTES_MAX: usize = 120;

/// How lines become events.
#[derive(Clone, Debug)]
pub enum Format {
    /// An access log in the common or combined format.
    AccessLog {
        /// Whether referer and user agent are there to be read.
        kind: LogKind,
        /// Whose rules apply.
        domain: String,
        /// What is asked for each line: one descriptor a pattern.
        descriptors: Vec<Pattern>,
    },
    /// A trace: one event a line, in JSON.
    Trace,
}

/// What follows the size in a line of an access log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogKind {
    /// Nothing that is looked at: referer and user agent are empty.
    Common,
    /// Referer and user agent, where they can be read.
    Combined,
}

/// The events of all inputs.
#[derive(Debug)]
pub struct Traffic {
    format: Format,
    inputs: Vec<Input>,
    lines: u32,
    events: Vec<Event>,
    requests: Vec<RateLimitRequest>,
    /// Where a request is found again: what the line says of it, without the moment.
    known: HashMap<Box<[u8]>, u32>,
    skipped: Skipped,
}

/// One request at one moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Event {
    pub(crate) at: Moment,
    /// The line among those of all inputs, from 0.
    pub(crate) line: u32,
    /// The request, as an index.
    pub(crate) request: u32,
}

#[derive(Debug)]
struct Input {
    name: String,
    /// How many lines came before it.
    first_line: u32,
}

/// Where a line stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place<'a> {
    /// The input, if there are several.
    pub input: Option<&'a str>,
    /// The line in its input, from 1.
    pub line: u32,
}

/// The lines that are no events.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Skipped {
    /// How many.
    pub count: u64,
    /// The first of them, at most [`SKIPPED_SHOWN_MAX`].
    pub first: Vec<SkippedLine>,
}

/// A line that is no event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SkippedLine {
    /// Among the lines of all inputs, from 0; see [`Traffic::place`].
    pub line: u32,
    /// What is wrong with it.
    pub reason: String,
    /// Its beginning, with control characters escaped.
    pub excerpt: String,
}

// === impl Traffic ===

impl Traffic {
    /// No events yet; every input is in `format`.
    pub fn new(format: Format) -> Traffic {
        Traffic {
            format,
            inputs: Vec::new(),
            lines: 0,
            events: Vec::new(),
            requests: Vec::new(),
            known: HashMap::new(),
            skipped: Skipped::default(),
        }
    }

    /// Adds the events of an input, gzipped or not, which comes after those already read.
    ///
    /// # Errors
    ///
    /// [`Error::Read`] if the input cannot be read to its end, [`Error::ManyLines`] beyond
    /// [`LINES_MAX`]. A line that is no event is no error.
    pub fn read(&mut self, name: &str, input: impl Read) -> Result<(), Error> {
        let failed = |source| Error::Read {
            input: name.to_owned(),
            source,
        };
        self.inputs.push(Input {
            name: name.to_owned(),
            first_line: self.lines,
        });
        let mut lines = Lines::of(input).map_err(failed)?;
        let mut reader = Reader::of(&self.format);
        while let Some(line) = lines.next().map_err(failed)? {
            match reader.event(&line, &mut self.known, &mut self.requests) {
                Ok((at, request)) => self.events.push(Event {
                    at,
                    line: self.lines,
                    request,
                }),
                Err(reason) => self.skipped.add(self.lines, &line, reason),
            }
            self.lines = self.lines.checked_add(1).ok_or(Error::ManyLines)?;
        }
        Ok(())
    }

    /// How many events there are.
    pub fn events(&self) -> usize {
        self.events.len()
    }

    /// The lines that are no events.
    pub const fn skipped(&self) -> &Skipped {
        &self.skipped
    }

    /// Where a line stands, given its number among the lines of all inputs, from 0.
    pub fn place(&self, line: u32) -> Place<'_> {
        let index = self
            .inputs
            .partition_point(|input| input.first_line <= line);
        let input = index.checked_sub(1).map(|index| &self.inputs[index]);
        let first_line = input.map_or(0, |input| input.first_line);
        Place {
            input: input
                .filter(|_| self.inputs.len() > 1)
                .map(|input| input.name.as_str()),
            line: line - first_line + 1,
        }
    }

    /// Puts the events in order of time, equal times in the order of the input.
    pub(crate) fn put_in_order(&mut self) {
        if !self.events.is_sorted_by_key(|event| event.at) {
            self.events
                .sort_unstable_by_key(|event| (event.at, event.line));
        }
    }

    /// The events, in the order in which they stand now.
    pub(crate) fn in_order(&self) -> &[Event] {
        &self.events
    }

    /// Which denied requests are charged where the rules do not say it: a trace is in Envoy's
    /// protocol, an access log is not.
    pub(crate) const fn charge_denied(&self) -> ChargeDenied {
        match self.format {
            Format::Trace => ChargeDenied::Excess,
            Format::AccessLog { .. } => ChargeDenied::Never,
        }
    }

    /// The requests that events are indexes of; each is valid.
    pub(crate) fn requests(&self) -> &[RateLimitRequest] {
        &self.requests
    }
}

// === reading ===

/// Turns lines into events, with room that is used again for every line.
enum Reader<'f> {
    AccessLog {
        agent: Agent,
        domain: &'f str,
        descriptors: &'f [Pattern],
        values: Values,
        identity: Vec<u8>,
    },
    Trace {
        identity: Vec<u8>,
    },
}

impl Reader<'_> {
    fn of(format: &Format) -> Reader<'_> {
        let identity = Vec::new();
        match format {
            Format::Trace => Reader::Trace { identity },
            Format::AccessLog {
                kind,
                domain,
                descriptors,
            } => {
                let is_needed = descriptors.iter().any(Pattern::needs_agent);
                let agent = match kind {
                    LogKind::Combined if is_needed => Agent::Read,
                    _ => Agent::Ignore,
                };
                Reader::AccessLog {
                    agent,
                    domain,
                    descriptors,
                    values: Values::default(),
                    identity,
                }
            }
        }
    }

    /// The moment and the request of a line, or why there is none.
    fn event(
        &mut self,
        line: &Line<'_>,
        known: &mut HashMap<Box<[u8]>, u32>,
        requests: &mut Vec<RateLimitRequest>,
    ) -> Result<(Moment, u32), String> {
        let Line::Text(line) = line else {
            return Err(format!("the line is longer than {LINE_BYTES_MAX} bytes"));
        };
        let at = self.examine(line)?;
        let (Reader::AccessLog { identity, .. } | Reader::Trace { identity }) = self;
        if let Some(request) = known.get(identity.as_slice()) {
            return Ok((at, *request));
        }
        let identity = identity.clone().into_boxed_slice();
        let message = self.request()?;
        tollgate_rls::request(&message).map_err(|invalid: InvalidRequest| invalid.to_string())?;
        let request = u32::try_from(requests.len()).map_err(|_| "too many requests".to_owned())?;
        requests.push(message);
        known.insert(identity, request);
        Ok((at, request))
    }

    /// Reads the line's moment; leaves what tells its request from others in `identity`.
    fn examine(&mut self, line: &[u8]) -> Result<Moment, String> {
        match self {
            Reader::Trace { identity } => {
                trace::split(line, identity).map_err(|bad| bad.to_string())
            }
            Reader::AccessLog {
                agent,
                descriptors,
                values,
                identity,
                ..
            } => {
                let line = LogLine::parse(line).map_err(|bad| bad.to_string())?;
                let fields = Fields::of(line, *agent);
                values.clear();
                for pattern in *descriptors {
                    pattern.render(&fields, values);
                }
                values.identity(identity);
                Ok(line.at)
            }
        }
    }

    /// The request of the line examined last.
    fn request(&self) -> Result<RateLimitRequest, String> {
        match self {
            Reader::Trace { identity } => {
                // Without the place: its columns would be those of the line without `at`.
                tollgate_rls::read(identity).map_err(|invalid| invalid.reason().to_owned())
            }
            Reader::AccessLog {
                domain,
                descriptors,
                values,
                ..
            } => {
                let mut values = values.iter();
                let descriptors = descriptors
                    .iter()
                    .map(|pattern| pattern.descriptor(&mut values));
                Ok(RateLimitRequest {
                    domain: domain.as_bytes().to_vec(),
                    descriptors: descriptors.collect(),
                    ..RateLimitRequest::default()
                })
            }
        }
    }
}

// === impl Skipped ===

impl Skipped {
    fn add(&mut self, number: u32, line: &Line<'_>, reason: String) {
        self.count += 1;
        if self.first.len() < SKIPPED_SHOWN_MAX {
            let excerpt = match line {
                Line::Text(bytes) => excerpt(bytes),
                Line::TooLong => String::new(),
            };
            self.first.push(SkippedLine {
                line: number,
                reason,
                excerpt,
            });
        }
    }
}

/// The beginning of a line.
fn excerpt(line: &[u8]) -> String {
    let shown = Escaped(&line[..line.len().min(EXCERPT_BYTES_MAX)]);
    let cut = if line.len() > EXCERPT_BYTES_MAX {
        "…"
    } else {
        ""
    };
    format!("{shown}{cut}")
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests;
