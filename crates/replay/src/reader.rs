//! Parses lines into events.

use tollgate_core::Moment;

use crate::access_log::LogLine;
use crate::format::{Format, LogKind};
use crate::input::{LINE_BYTES_MAX, Line};
use crate::interner::Interner;
use crate::notes::Noted;
use crate::pattern::{Agent, Field, Fields, Pattern};
use crate::selection::{Filter, Selection, are_met};
use crate::series::count;
use crate::trace;
use crate::values::Values;

/// Parses lines into events, with buffers that are reused for every line.
pub(crate) struct Reader<'f> {
    selection: &'f Selection,
    lines: LineReader<'f>,
}

enum LineReader<'f> {
    AccessLog {
        agent: Agent,
        filters: &'f [(Field, Filter)],
        descriptors: &'f [Pattern],
        values: Values,
        noted: Noted,
    },
    Trace {
        identity: Vec<u8>,
    },
    Counts,
}

/// What a line is, if it can be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Read {
    /// An event: its moment and its request.
    Event(Moment, u32),
    /// So many events to generate, from a moment on.
    Count(Moment, u32),
    /// One that is not selected.
    Excluded,
}

// === impl Reader ===

impl<'f> Reader<'f> {
    /// The reader of a format; `filters` are those of `selection` for an access log.
    pub(crate) fn of(
        format: &'f Format,
        selection: &'f Selection,
        filters: &'f [(Field, Filter)],
        has_details: bool,
    ) -> Reader<'f> {
        let lines = match format {
            Format::Counts { .. } => LineReader::Counts,
            Format::Trace => LineReader::Trace {
                identity: Vec::new(),
            },
            Format::AccessLog {
                kind, descriptors, ..
            } => {
                let is_needed = has_details
                    || descriptors.iter().any(Pattern::needs_agent)
                    || filters.iter().any(|(field, _)| field.needs_agent());
                let agent = match kind {
                    LogKind::Combined if is_needed => Agent::Read,
                    _ => Agent::Ignore,
                };
                LineReader::AccessLog {
                    agent,
                    filters,
                    descriptors,
                    values: Values::default(),
                    noted: Noted::with_details(has_details),
                }
            }
        };
        Reader { selection, lines }
    }

    /// The moment and the request of a line, or why there is none. `second` is that of a line that
    /// is a number of requests.
    pub(crate) fn event(
        &mut self,
        line: &Line<'_>,
        second: Option<Moment>,
        requests: &mut Interner,
    ) -> Result<Read, String> {
        let line = match line {
            Line::Text(line) => line,
            Line::TooLong => {
                return Err(format!("the line is longer than {LINE_BYTES_MAX} bytes"));
            }
            Line::Cut(_) => return Err("the compressed data end within the line".to_owned()),
        };
        if let LineReader::Counts = self.lines {
            let at = second.ok_or("the second is after 2554")?;
            return Ok(Read::Count(at, count(line)?));
        }
        let Some(at) = self.examine(line)? else {
            return Ok(Read::Excluded);
        };
        if let Some(request) = requests.find(self.identity()) {
            return Ok(Read::Event(at, request));
        }
        if !self.check()? {
            return Ok(Read::Excluded);
        }
        let request = requests.intern(self.identity());
        let request = request.map_err(|_| "too many requests".to_owned())?;
        Ok(Read::Event(at, request))
    }

    /// Parses the line's moment, and puts the identity of its request into [`Reader::identity`];
    /// `None` if it is not selected.
    fn examine(&mut self, line: &[u8]) -> Result<Option<Moment>, String> {
        match &mut self.lines {
            LineReader::Counts => Ok(None),
            LineReader::Trace { identity } => {
                let at = trace::split(line, identity).map_err(|bad| bad.to_string())?;
                Ok(Some(at).filter(|at| self.selection.has(*at)))
            }
            LineReader::AccessLog {
                agent,
                filters,
                descriptors,
                values,
                noted,
            } => {
                noted.clear();
                let line = LogLine::parse(line).map_err(|bad| bad.to_string())?;
                let fields = Fields::of(line, *agent);
                noted.set(&fields);
                if !self.selection.has(line.at) || !are_met(filters, &fields) {
                    return Ok(None);
                }
                values.clear();
                for pattern in *descriptors {
                    pattern.render(&fields, values);
                }
                Ok(Some(line.at))
            }
        }
    }

    /// The identity of the request of the last line.
    fn identity(&self) -> &[u8] {
        match &self.lines {
            LineReader::Counts => &[],
            LineReader::Trace { identity } => identity,
            LineReader::AccessLog { values, .. } => values.as_bytes(),
        }
    }

    /// Whether the request of the line examined last is selected; an error if it is none that the
    /// service would decide. Made of an access log by patterns, it always is both.
    fn check(&self) -> Result<bool, String> {
        let LineReader::Trace { identity } = &self.lines else {
            return Ok(true);
        };
        // Without the place: its columns would be those of the line without `at`.
        let message =
            tollgate_rls::read(identity).map_err(|invalid| invalid.reason().to_owned())?;
        let request = tollgate_rls::request(&message).map_err(|invalid| invalid.to_string())?;
        Ok(self.selection.has_request(&request))
    }

    /// Whether this is a line of an access log, and a trace is read.
    pub(crate) fn is_log_in_trace(&self, line: &[u8]) -> bool {
        matches!(self.lines, LineReader::Trace { .. }) && LogLine::parse(line).is_ok()
    }

    /// What is noted of the line examined last, if it is of an access log.
    pub(crate) fn note(&self) -> Option<&Noted> {
        match &self.lines {
            LineReader::AccessLog { noted, .. } => Some(noted),
            LineReader::Trace { .. } | LineReader::Counts => None,
        }
    }
}
