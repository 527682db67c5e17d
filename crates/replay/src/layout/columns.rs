//! Values in columns: CSV, and the W3C's extended log format.

use std::borrow::Cow;

use csv_core::{ReadRecordResult, Reader, ReaderBuilder};

use super::names::FieldNames;
use crate::field::Field;
use crate::plain::Cut;
use crate::record::{BadRecord, Record, Slot, is_had};

/// The most columns of a line.
const COLUMNS_MAX: usize = 1024;
/// The most columns that an error names.
const COLUMNS_NAMED_MAX: usize = 20;
/// The most characters of a column's name that an error shows.
pub(super) const COLUMN_CHARS_MAX: usize = 40;
/// What may stand between the columns of CSV.
const DELIMITERS: [u8; 4] = [b',', b';', b'\t', b'|'];

/// How columns are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Syntax {
    /// With a comma, semicolon, tab or bar between them, and quotes around them if they need any.
    Csv,
    /// With a tab or a blank between them; `#Fields:` has their names.
    W3c,
}

/// The columns of the lines of one input.
pub(super) struct Columns<'f> {
    syntax: Syntax,
    names: &'f FieldNames,
    needed: &'f [Field],
    given: Option<&'f [String]>,
    /// Which columns make which value, once their names are known.
    heading: Option<Result<Heading, String>>,
    delimiter: u8,
    csv: Reader,
    /// The values of a line of CSV without quotes, and where each of them ends.
    text: Vec<u8>,
    ends: Vec<usize>,
}

/// Which columns make which value.
struct Heading {
    /// How many columns a line has; of CSV, at most.
    columns: usize,
    places: Vec<(Slot, Vec<usize>)>,
}

// === impl Columns ===

impl<'f> Columns<'f> {
    pub(super) fn new(
        syntax: Syntax,
        names: &'f FieldNames,
        given: Option<&'f [String]>,
        needed: &'f [Field],
    ) -> Columns<'f> {
        Columns {
            syntax,
            names,
            needed,
            given,
            heading: None,
            delimiter: b',',
            csv: Reader::new(),
            text: Vec::new(),
            ends: Vec::new(),
        }
    }

    /// The values of a line; `None` if it has the names of the columns, or is a comment.
    pub(super) fn read<'a>(&'a mut self, line: &'a [u8]) -> Result<Option<Record<'a>>, BadRecord> {
        match self.syntax {
            Syntax::Csv => self.read_csv(line),
            Syntax::W3c => self.read_w3c(line),
        }
    }

    /// Reads a line of CSV; the first one has the names of the columns, unless they are given.
    fn read_csv<'a>(&'a mut self, line: &'a [u8]) -> Result<Option<Record<'a>>, BadRecord> {
        if self.heading.is_none() {
            self.delimiter = delimiter(line);
            self.csv = ReaderBuilder::new().delimiter(self.delimiter).build();
            if let Some(given) = self.given {
                let names = given.iter().map(|name| Cow::Borrowed(name.as_str()));
                let mut heading = self.find_columns(names.collect());
                // The last columns need no names.
                if let Ok(heading) = &mut heading
                    && self.split_csv(line).is_ok()
                {
                    heading.columns = heading.columns.max(self.ends.len());
                }
                self.heading = Some(heading);
            } else {
                let heading = match self.split_csv(line) {
                    Ok(()) => {
                        let names = pieces(&self.text, &self.ends);
                        self.find_columns(names.map(String::from_utf8_lossy).collect())
                    }
                    // The next line has no names either.
                    Err(bad) => Err(format!("the names of the columns cannot be read: {bad}")),
                };
                self.heading = Some(heading);
                return Ok(None);
            }
        }
        self.split_csv(line)?;
        let heading = require(self.heading.as_ref())?;
        // Behind a delimiter that should be in quotes, values are in wrong columns.
        let (found, expected) = (self.ends.len(), heading.columns);
        if found > expected {
            let why = format!("it has {found} columns, and the first line has {expected}");
            return Err(BadRecord::Layout(why));
        }
        let values = |column: usize| {
            let end = *self.ends.get(column)?;
            let start = column.checked_sub(1).map_or(0, |before| self.ends[before]);
            self.text.get(start..end)
        };
        Ok(Some(heading.record(values)))
    }

    /// Reads a line of the W3C's format, in which directives begin with `#`.
    fn read_w3c<'a>(&'a mut self, line: &'a [u8]) -> Result<Option<Record<'a>>, BadRecord> {
        if let Some(directive) = line.strip_prefix(b"#") {
            if let Some(names) = directive.strip_prefix(b"Fields:") {
                let names = names.split(u8::is_ascii_whitespace);
                let names = names.filter(|name| !name.is_empty()).take(COLUMNS_MAX);
                let names = names.map(String::from_utf8_lossy).collect();
                self.heading = Some(self.find_columns(names));
            }
            return Ok(None);
        }
        let heading = require(self.heading.as_ref())?;
        let separator = if line.contains(&b'\t') { b'\t' } else { b' ' };
        let values = line.split(|byte| *byte == separator);
        let values: Vec<&[u8]> = values.take(COLUMNS_MAX + 1).collect();
        if values.len() != heading.columns {
            let (found, named) = (values.len(), heading.columns);
            let why = format!("it has {found} values, and #Fields names {named}");
            return Err(BadRecord::Layout(why));
        }
        Ok(Some(heading.record(|column| values.get(column).copied())))
    }

    /// Splits a line of CSV into [`Columns::text`] and [`Columns::ends`].
    fn split_csv(&mut self, line: &[u8]) -> Result<(), BadRecord> {
        let bad = |why: String| Err(BadRecord::Layout(why));
        self.csv.reset();
        self.text.resize(line.len() + 1, 0);
        self.ends.resize(COLUMNS_MAX, 0);
        let (mut text, mut columns) = (0, 0);
        // A line has no end of line, which completes it unless a quote is open.
        for input in [line, b"\n"] {
            let (result, _, written, ended) =
                self.csv
                    .read_record(input, &mut self.text[text..], &mut self.ends[columns..]);
            text += written;
            columns += ended;
            match result {
                ReadRecordResult::InputEmpty => {}
                ReadRecordResult::Record => {
                    self.ends.truncate(columns);
                    return Ok(());
                }
                ReadRecordResult::OutputEndsFull => {
                    return bad(format!("it has more than {COLUMNS_MAX} columns"));
                }
                // Neither can be: a line is never longer without its quotes, and has text.
                ReadRecordResult::OutputFull | ReadRecordResult::End => {
                    return bad("it is not a line of CSV".to_owned());
                }
            }
        }
        bad("a quoted column does not end in its line".to_owned())
    }

    /// Finds the columns of the values, by the names of the columns; or says what is missing.
    fn find_columns(&self, columns: Vec<Cow<'_, str>>) -> Result<Heading, String> {
        let column = |name: &String| {
            let mut columns = columns.iter();
            columns.position(|column| column.trim().eq_ignore_ascii_case(name))
        };
        let mut places = Vec::new();
        for (slot, names) in self.names.iter() {
            let parts = |name: &Vec<String>| name.iter().map(column).collect::<Option<Vec<_>>>();
            if let Some(parts) = names.iter().find_map(parts) {
                places.push((slot, parts));
            }
        }
        match self.find_missing(|slot| places.iter().any(|(known, _)| *known == slot)) {
            None => Ok(Heading {
                columns: columns.len(),
                places,
            }),
            Some(missing) => Err(self.describe_missing(missing, &columns)),
        }
    }

    /// The first value that every line needs and that no column makes.
    fn find_missing(&self, has: impl Fn(Slot) -> bool) -> Option<Slot> {
        if !has(Slot::Time) {
            return Some(Slot::Time);
        }
        let mut needed = self.needed.iter();
        let missing = needed.find(|field| !is_had(**field, &has))?;
        // That `--fields` names a request that is none is why it has no path.
        let is_of_request = is_had(*missing, |slot| slot == Slot::Request);
        let is_chosen = |slot| self.names.chosen_names(slot).is_some();
        match Slot::Field(*missing) {
            own if !is_chosen(own) && is_of_request && is_chosen(Slot::Request) => {
                Some(Slot::Request)
            }
            own => Some(own),
        }
    }

    /// Why lines with these columns cannot be read: a value is missing.
    fn describe_missing(&self, missing: Slot, columns: &[Cow<'_, str>]) -> String {
        let shown = columns.iter().take(COLUMNS_NAMED_MAX);
        // Each line that cannot be read repeats them.
        let shown = shown.map(|name| Cut(name.trim(), COLUMN_CHARS_MAX).to_string());
        let shown: Vec<String> = shown.collect();
        let more = if columns.len() > COLUMNS_NAMED_MAX {
            ", …"
        } else {
            ""
        };
        let name = match missing {
            Slot::Time => "time",
            Slot::Request => "request",
            Slot::Field(field) => field.name(),
        };
        let problem = match self.names.chosen_names(missing) {
            Some(chosen) => {
                let chosen = chosen.join("` or `");
                format!("there is no column `{chosen}`, which `--fields` names for `{name}`")
            }
            None if missing == Slot::Time && self.lacks_date(columns) => {
                return "there is a column `time` and none `date`, so the day of a line is not \
                        known; let the server log `date` as well, or write it into the lines and \
                        into #Fields"
                    .to_owned();
            }
            None => format!("no column is known to be `{name}`"),
        };
        format!(
            "{problem}; say which with `--fields {name}=COLUMN`, or with --columns if these are \
             not names: {}{more}",
            shown.join(", ")
        )
    }

    /// Whether the lines have a time without its day, as the W3C's draft allows: their day is then
    /// that of `#Date`, until midnight, which no line says.
    fn lacks_date(&self, columns: &[Cow<'_, str>]) -> bool {
        let has = |name: &str| {
            let mut columns = columns.iter();
            columns.any(|column| column.eq_ignore_ascii_case(name))
        };
        self.syntax == Syntax::W3c && has("time") && !has("date")
    }
}

fn require(heading: Option<&Result<Heading, String>>) -> Result<&Heading, BadRecord> {
    match heading {
        Some(Ok(heading)) => Ok(heading),
        Some(Err(why)) => Err(BadRecord::Layout(why.clone())),
        None => Err(BadRecord::Layout("no #Fields line is before it".to_owned())),
    }
}

/// What stands most often between the columns of a line.
fn delimiter(line: &[u8]) -> u8 {
    let count = |delimiter: &u8| memchr::memchr_iter(*delimiter, line).count();
    let most = DELIMITERS
        .iter()
        .rev()
        .max_by_key(|delimiter| count(delimiter));
    most.copied().unwrap_or(b',')
}

/// The pieces of a text that end at these places.
fn pieces<'t>(text: &'t [u8], ends: &'t [usize]) -> impl Iterator<Item = &'t [u8]> {
    let starts = std::iter::once(0).chain(ends.iter().copied());
    starts.zip(ends).map(|(start, end)| &text[start..*end])
}

// === impl Heading ===

impl Heading {
    /// The values of a line, given those of its columns.
    fn record<'a>(&self, value: impl Fn(usize) -> Option<&'a [u8]>) -> Record<'a> {
        let mut record = Record::default();
        for (slot, columns) in &self.places {
            let found: Cow<'a, [u8]> = match columns[..] {
                [only] => Cow::Borrowed(value(only).unwrap_or_default()),
                _ => {
                    let parts: Option<Vec<_>> = columns.iter().map(|at| value(*at)).collect();
                    Cow::Owned(parts.unwrap_or_default().join(&b" "[..]))
                }
            };
            record.set(*slot, found);
        }
        record
    }
}
