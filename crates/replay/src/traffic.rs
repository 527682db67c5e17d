//! The events of all inputs, and the lines that are not events.
//!
//! An event is 16 bytes: its time, its line and its request. Each distinct request is stored once,
//! as the bytes that identify it, so that memory grows with the log's distinct requests.

use tollgate_core::{ChargeDenied, Cost, Moment, Request};

use crate::compression::{Compression, Cut};
use crate::error::Error;
use crate::event::Event;
use crate::field::Field;
use crate::foreign::Guess;
use crate::format::Format;
use crate::interner::Interner;
use crate::key_shape::KeyShape;
use crate::notes::Notes;
use crate::pattern::InvalidPattern;
use crate::selection::{Filter, Selection};
use crate::series::Series;
use crate::skipped::Skipped;
use crate::values::values;
use crate::verdicts::Verdicts;

mod generated;
mod reading;

/// The most lines of all inputs together.
pub const LINES_MAX: u32 = u32::MAX;

/// The events of all inputs.
#[derive(Debug)]
pub struct Traffic {
    format: Format,
    /// How the values of access logs are made.
    shape: KeyShape,
    selection: Selection,
    /// The filters of the selection, if the inputs are access logs.
    filters: Vec<(Field, Filter)>,
    inputs: Vec<Input>,
    lines: u32,
    events: Vec<Event>,
    /// The identity of each request: the values of its descriptors, or its JSON.
    requests: Interner,
    notes: Notes,
    /// The events, if they are generated.
    series: Option<Series>,
    /// What came of the events, if they were decided elsewhere.
    verdicts: Option<Verdicts>,
    skipped: Skipped,
    excluded: u64,
}

#[derive(Debug)]
struct Input {
    name: String,
    /// How many lines came before it.
    first_line: u32,
    /// How many lines it has.
    lines: u32,
    /// Events, and those that are not selected.
    events: u64,
    /// What it seems to be, as long as no line of it is an event.
    guess: Guess,
    /// Where its compressed data end early, if they do.
    cut: Option<Cut>,
    /// How it is compressed, if something that is ignored follows its data.
    trailing: Option<Compression>,
}

/// The place of a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place<'a> {
    /// The input, if there are several.
    pub input: Option<&'a str>,
    /// The line in its input, from 1.
    pub line: u32,
}

// === impl Traffic ===

impl Traffic {
    /// No events yet; every input is in `format`.
    pub fn new(format: Format) -> Traffic {
        let mut requests = Interner::default();
        let series = match &format {
            Format::Counts {
                descriptors,
                keys,
                start,
                ..
            } => Some(Series::of(*start, *keys, descriptors, &mut requests)),
            _ => None,
        };
        Traffic {
            series,
            format,
            shape: KeyShape::default(),
            selection: Selection::default(),
            filters: Vec::new(),
            inputs: Vec::new(),
            lines: 0,
            events: Vec::new(),
            requests,
            notes: Notes::default(),
            verdicts: None,
            skipped: Skipped::default(),
            excluded: 0,
        }
    }

    /// Takes only selected events of the inputs that are read from now on; the others are counted.
    ///
    /// # Errors
    ///
    /// [`InvalidPattern::UnknownField`] or [`InvalidPattern::Lacks`] if a filter is about a field
    /// that access logs, or those in this format, do not have.
    pub fn select(self, selection: Selection) -> Result<Traffic, InvalidPattern> {
        let filters = match self.format {
            Format::AccessLog { .. } => selection.fields()?,
            Format::Trace | Format::Counts { .. } => Vec::new(),
        };
        let mut fields = filters.iter().map(|(field, _)| *field);
        if let Some(why) = fields.find_map(|field| self.format.lacks(field)) {
            return Err(InvalidPattern::Lacks { why });
        }
        Ok(Traffic {
            selection,
            filters,
            ..self
        })
    }

    /// Shapes the values of access logs that are read from now on, before anything else looks at
    /// them: descriptors, filters, and what is kept of the lines.
    ///
    /// # Errors
    ///
    /// [`InvalidPattern::Lacks`] if lines in this format do not have what the shape is made of.
    pub fn with_shape(self, shape: KeyShape) -> Result<Traffic, InvalidPattern> {
        if let Some(why) = shape.fields().find_map(|field| self.format.lacks(field)) {
            return Err(InvalidPattern::Lacks { why });
        }
        Ok(Traffic { shape, ..self })
    }

    /// Also keeps the client of each line of an access log, for the output of decisions: four bytes
    /// per line, and each client once.
    #[must_use]
    pub fn with_clients(self) -> Traffic {
        let is_log = matches!(self.format, Format::AccessLog { .. });
        Traffic {
            notes: self.notes.with_clients(is_log),
            ..self
        }
    }

    /// Also keeps the path and the user agent of each line of an access log, for a report of who is
    /// denied: eight bytes per line, and each of them once, up to a bound.
    #[must_use]
    pub fn with_details(self) -> Traffic {
        let is_log = matches!(self.format, Format::AccessLog { .. });
        Traffic {
            notes: self.notes.with_details(is_log),
            ..self
        }
    }

    /// Checks that lines have the fields of all descriptors, as far as that is known beforehand.
    ///
    /// # Errors
    ///
    /// [`InvalidPattern::Lacks`].
    pub fn check_fields(&self) -> Result<(), InvalidPattern> {
        match self
            .format
            .required_fields()
            .find_map(|field| self.format.lacks(field))
        {
            Some(why) => Err(InvalidPattern::Lacks { why }),
            None => Ok(()),
        }
    }

    /// Whether there is anything to decide.
    ///
    /// # Errors
    ///
    /// [`Error::NoEvents`] if no line of any input is an event, with what the inputs seem to be;
    /// [`Error::NoneSelected`] if none of the events is selected.
    pub fn check(&self) -> Result<(), Error> {
        if self.events() > 0 {
            return Ok(());
        }
        if self.excluded > 0 {
            let excluded = self.excluded;
            return Err(Error::NoneSelected { excluded });
        }
        let without = self
            .without_events()
            .map(|(name, guess)| (name.to_owned(), guess));
        Err(Error::NoEvents {
            inputs: without.collect(),
            skipped: Box::new(self.skipped.clone()),
        })
    }

    /// The inputs without an event, and what they seem to be.
    pub(crate) fn without_events(&self) -> impl Iterator<Item = (&str, Guess)> {
        let without = self.inputs.iter().filter(|input| input.events == 0);
        without.map(|input| {
            let guess = match input.guess {
                Guess::Empty if input.cut.is_some() => Guess::Cut,
                Guess::Empty if input.lines > 0 && self.series.is_some() => Guess::NoCounts,
                Guess::Empty if input.lines > 0 => Guess::NoLine,
                guess => guess,
            };
            (input.name.as_str(), guess)
        })
    }

    /// The inputs whose compressed data end early, and after how many lines.
    pub fn cuts(&self) -> impl Iterator<Item = (&str, u32, &Cut)> {
        let inputs = self.inputs.iter();
        inputs.filter_map(|input| Some((input.name.as_str(), input.lines, input.cut.as_ref()?)))
    }

    /// The compressed inputs with something behind their data, which is ignored.
    pub fn find_trailing(&self) -> impl Iterator<Item = (&str, Compression)> {
        let inputs = self.inputs.iter();
        inputs.filter_map(|input| Some((input.name.as_str(), input.trailing?)))
    }

    /// How many events there are.
    pub fn events(&self) -> usize {
        match &self.series {
            None => self.events.len(),
            Some(series) => usize::try_from(series.events()).unwrap_or(usize::MAX),
        }
    }

    /// How many events are not selected.
    pub const fn excluded_events(&self) -> u64 {
        self.excluded
    }

    /// How many lines there are, whatever they are.
    pub const fn lines(&self) -> u32 {
        self.lines
    }

    /// The lines that are not events.
    pub const fn skipped_lines(&self) -> &Skipped {
        &self.skipped
    }

    /// The place of a line, given its number among the lines of all inputs, from 0.
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

    /// What is kept of the lines beside their events.
    pub(crate) const fn notes(&self) -> &Notes {
        &self.notes
    }

    /// The client of a line of an access log, if clients are kept.
    pub(crate) fn client(&self, line: u32) -> Option<&[u8]> {
        let client = self.notes.client_of(line)?;
        Some(self.notes.client(client))
    }

    /// Puts the events in order of time, equal times in the order of the input.
    pub(crate) fn put_in_order(&mut self) {
        if !self.events.is_sorted_by_key(|event| event.at) {
            self.events
                .sort_unstable_by_key(|event| (event.at, event.line));
        }
    }

    /// The events of logs and traces, in their current order; generated ones are not among them.
    pub(crate) fn kept_events(&self) -> &[Event] {
        &self.events
    }

    /// The events that are generated and not kept, in order of time.
    pub(crate) fn generated_events(&self) -> impl Iterator<Item = Event> {
        self.series.iter().flat_map(Series::iter)
    }

    /// The events, in their current order.
    pub(crate) fn in_order(&self) -> impl Iterator<Item = Event> {
        self.events.iter().copied().chain(self.generated_events())
    }

    /// How values of access logs are shaped.
    pub(crate) const fn shape(&self) -> &KeyShape {
        &self.shape
    }

    /// The format of every input.
    pub(crate) const fn format(&self) -> &Format {
        &self.format
    }

    /// The bytes that a request is made of: of a trace, its JSON.
    pub(crate) fn identity(&self, number: u32) -> &[u8] {
        self.requests.get(number)
    }

    /// The moments of the first and the last event, if they are in order of time.
    pub fn bounds(&self) -> Option<(Moment, Moment)> {
        if let Some(series) = &self.series {
            return series.bounds();
        }
        let (first, last) = (self.events.first()?, self.events.last()?);
        Some((first.at, last.at))
    }

    /// The number of distinct requests; their numbers are below this.
    pub(crate) const fn requests(&self) -> usize {
        self.requests.len()
    }

    /// Passes a request to `read`.
    pub(crate) fn request<T>(&self, number: u32, read: impl FnOnce(&Request<'_>) -> T) -> T {
        let identity = self.requests.get(number);
        match &self.format {
            Format::Trace => {
                let valid = "only valid requests become events";
                let message = tollgate_rls::read(identity).expect(valid).message;
                // A trace is in Envoy's protocol, an access log is not.
                read(&Request {
                    charge_denied: ChargeDenied::Excess,
                    ..tollgate_rls::request(&message).expect(valid)
                })
            }
            Format::AccessLog {
                domain,
                descriptors,
                ..
            }
            | Format::Counts {
                domain,
                descriptors,
                ..
            } => {
                let mut values = values(identity);
                let descriptors = descriptors
                    .iter()
                    .map(|pattern| pattern.descriptor(&mut values));
                read(&Request {
                    domain: domain.as_bytes(),
                    descriptors: descriptors.collect(),
                    cost: Cost::ONE,
                    charge_denied: ChargeDenied::Never,
                })
            }
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests;
