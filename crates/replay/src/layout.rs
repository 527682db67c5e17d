//! Logs that are in neither the common nor the combined format: where the values of a line are.
//!
//! A [`Layout`] is made once of what the user says; a [`LayoutReader`] reads the lines of one input
//! by it, because columns are named by the first line of each.

use std::sync::Arc;

use crate::field::Field;
use crate::prefix;
use crate::record::{BadRecord, Record};

mod columns;
mod json;
mod names;
mod preset;
mod template;

pub use names::{FieldNames, InvalidFieldNames};
pub use preset::{NoNames, Preset};
pub use template::InvalidLogFormat;

use columns::{Columns, Syntax};
use json::Members;
use template::Template;

/// Where the values of a line are.
#[derive(Clone, Debug)]
pub struct Layout(Kind);

#[derive(Clone, Debug)]
enum Kind {
    Json(FieldNames),
    Template(Arc<Template>),
    Columns {
        syntax: Syntax,
        names: FieldNames,
        /// The names of the columns, if no line of the input has them.
        columns: Option<Vec<String>>,
    },
}

/// Reads the lines of one input.
pub(crate) struct LayoutReader<'f>(Lines<'f>);

enum Lines<'f> {
    Json(Members<'f>),
    Template(&'f Template),
    Columns(Box<Columns<'f>>),
}

// === impl Layout ===

impl Layout {
    /// One JSON object a line, whose members have these names.
    pub const fn json(names: FieldNames) -> Layout {
        Layout(Kind::Json(names))
    }

    /// A line of values, each in its column; the first line has the names of the columns, unless
    /// they are given.
    pub const fn csv(names: FieldNames, columns: Option<Vec<String>>) -> Layout {
        Layout(Kind::Columns {
            syntax: Syntax::Csv,
            names,
            columns,
        })
    }

    /// Lines as a `log_format` of nginx or a `LogFormat` of Apache describes them.
    ///
    /// # Errors
    ///
    /// [`InvalidLogFormat`] if a value cannot be found in a line, or there is no time.
    pub fn log_format(format: &str) -> Result<Layout, InvalidLogFormat> {
        Ok(Layout(Kind::Template(Arc::new(Template::parse(format)?))))
    }

    /// Why lines do not have this field, if that is known before any is read.
    pub fn lacks(&self, field: Field) -> Option<String> {
        match &self.0 {
            Kind::Json(names) => (!names.has(field)).then(|| {
                let name = field.name();
                format!("--fields does not say which member is `{name}`; add `{name}=NAME`")
            }),
            Kind::Template(template) => template.lacks(field),
            Kind::Columns { .. } => None,
        }
    }

    /// A reader for the lines of one input, which must have these fields.
    pub(crate) fn reader<'f>(&'f self, needed: &'f [Field]) -> LayoutReader<'f> {
        LayoutReader(match &self.0 {
            Kind::Json(names) => Lines::Json(Members::of(names)),
            Kind::Template(template) => Lines::Template(template),
            Kind::Columns {
                syntax,
                names,
                columns,
            } => Lines::Columns(Box::new(Columns::new(
                *syntax,
                names,
                columns.as_deref(),
                needed,
            ))),
        })
    }
}

// === impl LayoutReader ===

impl LayoutReader<'_> {
    /// Whether lines are JSON.
    pub(crate) const fn is_json(&self) -> bool {
        matches!(self.0, Lines::Json(_))
    }

    /// Whether lines have columns.
    pub(crate) const fn is_columns(&self) -> bool {
        matches!(self.0, Lines::Columns(_))
    }

    /// The values of a line; `None` if it says something about those that follow.
    pub(crate) fn read<'a>(&'a mut self, line: &'a [u8]) -> Result<Option<Record<'a>>, BadRecord> {
        if line.trim_ascii().is_empty() {
            return Err(BadRecord::Blank);
        }
        match &mut self.0 {
            Lines::Columns(columns) => columns.read(line),
            Lines::Template(template) => read_template(template, line).map(Some),
            Lines::Json(members) => {
                // What other programs put before a line never begins with a brace.
                let object = match line.trim_ascii_start().starts_with(b"{") {
                    true => line,
                    false => prefix::without(line)
                        .find(|inner| inner.starts_with(b"{"))
                        .unwrap_or(line),
                };
                if !object.trim_ascii_start().starts_with(b"{") {
                    return Err(BadRecord::Layout("it is not a JSON object".to_owned()));
                }
                members.read(object).map(Some)
            }
        }
    }
}

/// Reads a line as it is, or else without what other programs put before it.
fn read_template<'a>(template: &Template, line: &'a [u8]) -> Result<Record<'a>, BadRecord> {
    let whole = template.read(line);
    if whole.is_ok() {
        return whole;
    }
    let mut inner = prefix::without(line).map(|inner| template.read(inner));
    inner.find(Result::is_ok).unwrap_or(whole)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests;
