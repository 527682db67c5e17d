//! Parses lines into events.

use tollgate_core::Moment;

use crate::access_log::{BadLine, LogLine};
use crate::field::{Agent, Field, Fields};
use crate::foreign::Guess;
use crate::format::{Format, LogKind};
use crate::input::{LINE_BYTES_MAX, Line};
use crate::interner::Interner;
use crate::key_shape::{KeyShape, ShapedLine};
use crate::layout::LayoutReader;
use crate::notes::Noted;
use crate::pattern::Pattern;
use crate::selection::{Filter, Selection, are_met};
use crate::series::count;
use crate::timestamp::BadMoment;
use crate::trace;
use crate::values::Values;

/// Parses lines into events, with buffers that are reused for every line.
pub(crate) struct Reader<'f> {
    selection: &'f Selection,
    lines: LineReader<'f>,
}

enum LineReader<'f> {
    AccessLog {
        values_of: ValuesOf<'f>,
        /// How values are made, if not all of them stay as they are.
        shape: Option<Box<ShapedLine<'f>>>,
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

/// How the values of a line are found.
enum ValuesOf<'f> {
    /// In the common or the combined format.
    LogLine(Agent),
    Layout(LayoutReader<'f>),
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
    /// No event, but something about those that follow: the names of the columns.
    Heading,
}

/// What is known of a line before its request is looked up.
enum Examined {
    At(Moment),
    Excluded,
    Heading,
}

// === impl Reader ===

impl<'f> Reader<'f> {
    /// The reader of an input in a format; `filters` are those of `selection` for an access log,
    /// and `needed` the fields that its lines must have.
    pub(crate) fn of(
        format: &'f Format,
        selection: &'f Selection,
        filters: &'f [(Field, Filter)],
        needed: &'f [Field],
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
                let fields = descriptors.iter().flat_map(Pattern::fields);
                let mut fields = fields.chain(needed.iter().copied());
                let has_agent = has_details || fields.any(Field::is_of_agent);
                let values_of = match kind {
                    LogKind::Combined if has_agent => ValuesOf::LogLine(Agent::Read),
                    LogKind::Combined | LogKind::Common => ValuesOf::LogLine(Agent::Ignore),
                    LogKind::Layout(layout) => ValuesOf::Layout(layout.reader(needed)),
                };
                LineReader::AccessLog {
                    values_of,
                    shape: None,
                    filters,
                    descriptors,
                    values: Values::default(),
                    noted: Noted::with_details(has_details),
                }
            }
        };
        Reader { selection, lines }
    }

    /// Shapes the values of an access log's lines.
    pub(crate) fn shape(&mut self, of: &'f KeyShape) {
        if let LineReader::AccessLog { shape, .. } = &mut self.lines {
            *shape = ShapedLine::new(of).map(Box::new);
        }
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
            let at = second.ok_or("the second is after 2500-01-01")?;
            return Ok(Read::Count(at, count(line)?));
        }
        let at = match self.examine(line)? {
            Examined::At(at) => at,
            Examined::Excluded => return Ok(Read::Excluded),
            Examined::Heading => return Ok(Read::Heading),
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

    /// Parses the line's moment, and puts the identity of its request into [`Reader::identity`].
    fn examine(&mut self, line: &[u8]) -> Result<Examined, String> {
        match &mut self.lines {
            LineReader::Counts => Ok(Examined::Excluded),
            LineReader::Trace { identity } => {
                let at = trace::split(line, identity).map_err(|bad| bad.to_string())?;
                Ok(match self.selection.has(at) {
                    true => Examined::At(at),
                    false => Examined::Excluded,
                })
            }
            LineReader::AccessLog {
                values_of,
                shape,
                filters,
                descriptors,
                values,
                noted,
            } => {
                noted.clear();
                let record;
                let (at, mut fields) = match values_of {
                    ValuesOf::LogLine(agent) => {
                        let line = LogLine::parse(line).map_err(|bad| bad.to_string())?;
                        (line.at, Fields::of(line, *agent))
                    }
                    ValuesOf::Layout(layout) => {
                        let found = layout.read(line).map_err(|bad| bad.to_string())?;
                        let Some(found) = found else {
                            return Ok(Examined::Heading);
                        };
                        record = found;
                        record.read().map_err(|bad| bad.to_string())?
                    }
                };
                if let Some(shape) = shape {
                    fields = shape.of(fields);
                }
                noted.set(&fields);
                if !self.selection.has(at) || !are_met(filters, &fields) {
                    return Ok(Examined::Excluded);
                }
                values.clear();
                for pattern in *descriptors {
                    pattern.render(&fields, values);
                }
                Ok(Examined::At(at))
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
        let read = tollgate_rls::read(identity).map_err(|invalid| invalid.reason().to_owned())?;
        let request =
            tollgate_rls::request(&read.message).map_err(|invalid| invalid.to_string())?;
        Ok(self.selection.has_request(&request))
    }

    /// What a line that is not an event seems to belong to.
    pub(crate) fn guess(&self, line: &[u8]) -> Guess {
        let guess = Guess::of(line, |line| LogLine::parse(line).is_ok());
        let layout = match &self.lines {
            LineReader::AccessLog {
                values_of: ValuesOf::Layout(layout),
                ..
            } => Some(layout),
            _ => None,
        };
        let is_trace = matches!(self.lines, LineReader::Trace { .. });
        let is_counts = matches!(self.lines, LineReader::Counts);
        match (guess, layout) {
            (Guess::Combined, _) if is_trace => Guess::AccessLog,
            (Guess::Json, _) if is_trace => Guess::Named,
            (Guess::Json, Some(layout)) if layout.is_json() => Guess::NamedJson,
            (Guess::Csv, Some(layout)) if layout.is_columns() => Guess::Named,
            (Guess::Other, Some(_)) => Guess::Named,
            (Guess::Other, _) if is_trace || is_counts => Guess::Named,
            (Guess::Other, None) if has_bad_time(line) => Guess::Times,
            (Guess::Counts, _) if is_counts => match count(line) {
                Ok(_) => Guess::Named,
                Err(_) => Guess::LargeCounts,
            },
            _ => guess,
        }
    }

    /// What is noted of the line examined last, if it is of an access log.
    pub(crate) fn note(&self) -> Option<&Noted> {
        match &self.lines {
            LineReader::AccessLog { noted, .. } => Some(noted),
            LineReader::Trace { .. } | LineReader::Counts => None,
        }
    }
}

/// Whether this is a line of the common or combined format whose time is none that can be replayed.
fn has_bad_time(line: &[u8]) -> bool {
    let read = LogLine::parse(line);
    matches!(read, Err(BadLine::Time(bad)) if bad != BadMoment::Form)
}
