//! How inputs are read: line by line, each of which is an event or is skipped.

use std::io::Read;

use super::{Input, Traffic};
use crate::error::Error;
use crate::event::Event;
use crate::field::Field;
use crate::foreign::Guess;
use crate::input::{Line, Lines, NoLines};
use crate::reader::{Read as ReadLine, Reader};

/// The most lines of an input without events that are examined for what they seem to be.
const GUESSES_MAX: u32 = 100;

impl Input {
    /// What the input seems to be, given a line of it that is not an event: what the first such
    /// line says, unless that is vague and another one is of a known program, whose other messages
    /// may come first.
    fn guess_from(&mut self, line: &[u8], reader: &Reader<'_>) {
        let is_first = matches!(self.guess, Guess::Empty | Guess::LongLines);
        let may_tell_more = self.guess.is_vague() && self.lines <= GUESSES_MAX;
        if line.trim_ascii().is_empty() || self.events > 0 || !(is_first || may_tell_more) {
            return;
        }
        let guess = reader.guess(line);
        if is_first || matches!(guess, Guess::Preset(_)) {
            self.guess = guess;
        }
    }
}

impl Traffic {
    /// Adds the events of an input, compressed or not, which comes after those already read.
    ///
    /// # Errors
    ///
    /// [`Error::Read`] if the input cannot be read to its end, [`Error::Foreign`] if it is packed
    /// or encoded in a way that we do not read, [`Error::ManyLines`] beyond
    /// [`LINES_MAX`](crate::LINES_MAX). A line that is not an event is not an error, and neither
    /// are compressed data that end early, [`Traffic::cuts`], or are followed by something else,
    /// [`Traffic::find_trailing`].
    pub fn read(&mut self, name: &str, input: impl Read) -> Result<(), Error> {
        let failed = |source| Error::Read {
            input: name.to_owned(),
            source,
        };
        let mut lines = Lines::of(input).map_err(|why| match why {
            NoLines::Io(source) => failed(source),
            NoLines::Foreign(what) => Error::Foreign {
                input: name.to_owned(),
                what,
            },
        })?;
        self.inputs.push(Input {
            name: name.to_owned(),
            first_line: self.lines,
            lines: 0,
            events: 0,
            guess: Guess::Empty,
            cut: None,
            trailing: None,
        });
        let (format, selection) = (self.format.clone(), self.selection.clone());
        let filters = self.filters.clone();
        let filtered = filters.iter().map(|(field, _)| *field);
        let shape = self.shape.clone();
        let needed = format
            .required_fields()
            .chain(filtered)
            .chain(shape.fields());
        let needed: Vec<Field> = needed.collect();
        let has_details = self.notes.has_details();
        let mut reader = Reader::of(&format, &selection, &filters, &needed, has_details);
        reader.shape(&shape);
        while let Some(line) = lines.next().map_err(failed)? {
            self.add(&mut reader, &line)?;
        }
        if let Some(input) = self.inputs.last_mut() {
            input.cut = lines.cut();
            input.trailing = lines.find_trailing();
        }
        Ok(())
    }

    /// Reads one line: an event, or a reason to skip it.
    fn add(&mut self, reader: &mut Reader<'_>, line: &Line<'_>) -> Result<(), Error> {
        let second = u64::from(self.lines);
        let second = self
            .series
            .as_ref()
            .and_then(|series| series.second(second));
        let found = reader.event(line, second, &mut self.requests);
        let input = self
            .inputs
            .last_mut()
            .expect("the input that is being read");
        input.lines += 1;
        match found {
            Ok(ReadLine::Heading) => {}
            Ok(ReadLine::Excluded) => {
                input.events += 1;
                self.excluded += 1;
            }
            Ok(ReadLine::Count(at, events)) => {
                let is_selected = self.selection.has(at);
                input.events += u64::from(events);
                self.excluded += u64::from(if is_selected { 0 } else { events });
                if let Some(series) = &mut self.series {
                    series.push(if is_selected { events } else { 0 });
                }
            }
            Ok(ReadLine::Event(at, request)) => {
                input.events += 1;
                let line = self.lines;
                self.events.push(Event { at, line, request });
            }
            Err(reason) => {
                match line {
                    Line::Text(text) => input.guess_from(text, reader),
                    Line::TooLong if input.guess == Guess::Empty => input.guess = Guess::LongLines,
                    Line::TooLong | Line::Cut(_) => {}
                }
                self.skipped.add(self.lines, line, &reason);
                if let Some(series) = &mut self.series {
                    series.push(0);
                }
            }
        }
        if let Some(note) = reader.note() {
            self.notes.add(note).map_err(|_| Error::ManyLines)?;
        }
        self.lines = self.lines.checked_add(1).ok_or(Error::ManyLines)?;
        Ok(())
    }
}
