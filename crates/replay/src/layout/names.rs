//! Which name in a log stands for which value: `time=ts,client=client_ip|remote_ip`.

use std::fmt;
use std::str::FromStr;

use crate::field::{Field, OTHER_NAMES, field_names};
use crate::record::{Slot, is_had};

/// The most names of one value.
const NAMES_MAX: usize = 32;

/// Which names in a log stand for which values.
///
/// As text, a list such as `time=ts,client=client_ip|remote_ip`. On the left, `time`, `request`
/// (the first line of a request), or a [`Field`]; on the right, names, of which the first that a
/// line has counts. Names that are joined by `+` are one value with a blank between its parts, as
/// `date+time`. In JSON, `a.b` is the member `b` of the object `a`, or the member `a.b`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FieldNames {
    names: Vec<(Slot, Vec<Name>)>,
    /// How many of them, the first, are not those of [`FieldNames::common`] or of a preset.
    chosen: usize,
}

/// A name, or several that make one value together.
pub(super) type Name = Vec<String>;

/// Why a text is not a [`FieldNames`].
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum InvalidFieldNames {
    /// An item that is not `field=name`.
    Item {
        /// The item.
        item: String,
    },
    /// No such field.
    UnknownField {
        /// As written.
        field: String,
    },
    /// A field that is given twice.
    Twice {
        /// Which.
        field: String,
    },
    /// More than 32 names of a value.
    ManyNames {
        /// Of which field.
        field: String,
    },
}

// === impl FieldNames ===

impl FieldNames {
    /// The names that programs commonly use.
    pub fn common() -> FieldNames {
        let time = "time=date+time|time|timestamp|@timestamp|datetime|ts|start_time|time_local|\
                    time_iso8601|msec,request=request";
        let mut names: FieldNames = time.parse().expect("the names are valid");
        names.names.extend(Field::all().map(|field| {
            let others = OTHER_NAMES.iter().filter(|(_, of)| *of == field.name());
            let all = std::iter::once(field.name()).chain(others.map(|(name, _)| *name));
            (
                Slot::Field(field),
                all.map(|name| vec![name.to_owned()]).collect(),
            )
        }));
        FieldNames { chosen: 0, ..names }
    }

    /// These names, and those of `other` for what has none here.
    #[must_use]
    pub fn or(mut self, other: FieldNames) -> FieldNames {
        for (slot, names) in other.names {
            if !self.names.iter().any(|(known, _)| *known == slot) {
                self.names.push((slot, names));
            }
        }
        self
    }

    /// Whether there is a name for the time.
    pub fn has_time(&self) -> bool {
        self.names(Slot::Time).next().is_some()
    }

    pub(super) fn has(&self, field: Field) -> bool {
        is_had(field, |slot| self.names(slot).next().is_some())
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (Slot, &[Name])> {
        let names = self.names.iter();
        names.map(|(slot, names)| (*slot, names.as_slice()))
    }

    /// The names of a value as text, such as `date+time` or `ip`, if they were chosen for this
    /// log.
    pub(super) fn chosen_names(&self, slot: Slot) -> Option<Vec<String>> {
        let mut chosen = self.names.iter().take(self.chosen);
        let (_, names) = chosen.find(|(known, _)| *known == slot)?;
        Some(names.iter().map(|name| name.join("+")).collect())
    }

    /// The names of one value.
    pub(super) fn names(&self, slot: Slot) -> impl Iterator<Item = &Name> {
        let of_slot = self.names.iter().filter(move |(known, _)| *known == slot);
        of_slot.flat_map(|(_, names)| names)
    }
}

impl FromStr for FieldNames {
    type Err = InvalidFieldNames;

    fn from_str(text: &str) -> Result<FieldNames, InvalidFieldNames> {
        let mut found: Vec<(Slot, Vec<Name>)> = Vec::new();
        for item in text.split(',') {
            let invalid = || InvalidFieldNames::Item {
                item: item.trim().to_owned(),
            };
            let (field, names) = item.split_once('=').ok_or_else(invalid)?;
            let field = field.trim();
            let slot = match field {
                "time" => Slot::Time,
                "request" => Slot::Request,
                field => Slot::Field(Field::of_name(field).map_err(|_| {
                    InvalidFieldNames::UnknownField {
                        field: field.to_owned(),
                    }
                })?),
            };
            let names: Vec<Name> = names
                .split('|')
                .map(|name| name.split('+').map(|part| part.trim().to_owned()).collect())
                .collect();
            let field = || field.to_owned();
            if names.iter().flatten().any(String::is_empty) {
                return Err(invalid());
            }
            if names.iter().flatten().count() > NAMES_MAX {
                return Err(InvalidFieldNames::ManyNames { field: field() });
            }
            if found.iter().any(|(known, _)| *known == slot) {
                return Err(InvalidFieldNames::Twice { field: field() });
            }
            found.push((slot, names));
        }
        Ok(FieldNames {
            chosen: found.len(),
            names: found,
        })
    }
}

// === impl InvalidFieldNames ===

impl std::error::Error for InvalidFieldNames {}

impl fmt::Display for InvalidFieldNames {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            InvalidFieldNames::Item { item } => {
                write!(
                    f,
                    "`{item}` is not `field=name`; write such as `client=remote_ip`"
                )
            }
            InvalidFieldNames::UnknownField { field } => write!(
                f,
                "there is no field `{field}`; fields: time, request, {}",
                field_names()
            ),
            InvalidFieldNames::Twice { field } => write!(
                f,
                "`{field}` is given twice; write its names in one item: `{field}=ONE|OTHER`"
            ),
            InvalidFieldNames::ManyNames { field } => {
                write!(f, "`{field}` has more than {NAMES_MAX} names")
            }
        }
    }
}
