//! Parses lines into events.

use tollgate_core::Moment;

use crate::access_log::LogLine;
use crate::input::{LINE_BYTES_MAX, Line};
use crate::interner::Interner;
use crate::pattern::{Agent, Fields, Pattern};
use crate::trace;
use crate::traffic::{Format, LogKind};
use crate::values::Values;

/// Parses lines into events, with buffers that are reused for every line.
pub(crate) enum Reader<'f> {
    AccessLog {
        agent: Agent,
        descriptors: &'f [Pattern],
        values: Values,
        client: Vec<u8>,
    },
    Trace {
        identity: Vec<u8>,
    },
}

// === impl Reader ===

impl Reader<'_> {
    /// The reader of a format.
    pub(crate) fn of(format: &Format) -> Reader<'_> {
        match format {
            Format::Trace => Reader::Trace {
                identity: Vec::new(),
            },
            Format::AccessLog {
                kind, descriptors, ..
            } => {
                let is_needed = descriptors.iter().any(Pattern::needs_agent);
                let agent = match kind {
                    LogKind::Combined if is_needed => Agent::Read,
                    _ => Agent::Ignore,
                };
                Reader::AccessLog {
                    agent,
                    descriptors,
                    values: Values::default(),
                    client: Vec::new(),
                }
            }
        }
    }

    /// The moment and the request of a line, or why there is none.
    pub(crate) fn event(
        &mut self,
        line: &Line<'_>,
        requests: &mut Interner,
    ) -> Result<(Moment, u32), String> {
        let Line::Text(line) = line else {
            return Err(format!("the line is longer than {LINE_BYTES_MAX} bytes"));
        };
        let at = self.examine(line)?;
        if let Some(request) = requests.find(self.identity()) {
            return Ok((at, request));
        }
        self.check()?;
        let request = requests.intern(self.identity());
        Ok((at, request.map_err(|_| "too many requests".to_owned())?))
    }

    /// Parses the line's moment, and puts the identity of its request into [`Reader::identity`].
    fn examine(&mut self, line: &[u8]) -> Result<Moment, String> {
        match self {
            Reader::Trace { identity } => {
                trace::split(line, identity).map_err(|bad| bad.to_string())
            }
            Reader::AccessLog {
                agent,
                descriptors,
                values,
                client,
            } => {
                client.clear();
                let line = LogLine::parse(line).map_err(|bad| bad.to_string())?;
                client.extend_from_slice(line.client);
                let fields = Fields::of(line, *agent);
                values.clear();
                for pattern in *descriptors {
                    pattern.render(&fields, values);
                }
                Ok(line.at)
            }
        }
    }

    /// The identity of the request of the last line.
    fn identity(&self) -> &[u8] {
        match self {
            Reader::Trace { identity } => identity,
            Reader::AccessLog { values, .. } => values.as_bytes(),
        }
    }

    /// Whether the request of the line examined last is one that the service would decide. Made of
    /// an access log by patterns, it always is.
    fn check(&self) -> Result<(), String> {
        let Reader::Trace { identity } = self else {
            return Ok(());
        };
        // Without the place: its columns would be those of the line without `at`.
        let message =
            tollgate_rls::read(identity).map_err(|invalid| invalid.reason().to_owned())?;
        let request = tollgate_rls::request(&message);
        request.map(drop).map_err(|invalid| invalid.to_string())
    }

    /// Whether this is a line of an access log, and a trace is read.
    pub(crate) fn is_log_in_trace(&self, line: &[u8]) -> bool {
        matches!(self, Reader::Trace { .. }) && LogLine::parse(line).is_ok()
    }

    /// The client of the line examined last; empty if it has none.
    pub(crate) fn client(&self) -> &[u8] {
        match self {
            Reader::AccessLog { client, .. } => client,
            Reader::Trace { .. } => &[],
        }
    }
}
