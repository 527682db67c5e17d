//! Requests in the JSON of proto3.

mod members;
mod values;

use std::fmt;

use serde::de::{Deserialize, Deserializer, MapAccess};

use crate::json::members::{Members, Object};
use crate::json::values::{NUMBERS, value};
use crate::open_descriptor::OpenDescriptor;
use crate::rate_limit_descriptor::{Entry, RateLimitOverride};
use crate::{BoundedRequest, RateLimitDescriptor, RateLimitRequest};

/// Why a text is not a request in JSON, with line and column.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InvalidJson {
    reason: String,
    line: usize,
    column: usize,
}

/// Reads a request as proto3 does: names in camel case or as in the `.proto` file; numbers also as
/// strings and as `1.0`; enums by name or number; `null` for a missing member.
///
/// An unknown member is an error, as in Envoy's own service, and so is a duplicate one. The strings
/// of domain, keys and values may contain any bytes.
///
/// All of it is checked, and no more of it is kept than a [`BoundedRequest`] has.
///
/// # Errors
///
/// [`InvalidJson`].
pub fn read(json: &[u8]) -> Result<BoundedRequest, InvalidJson> {
    let Object(request) = serde_json::from_slice(json)?;
    Ok(request)
}

impl<'de> Deserialize<'de> for RateLimitRequest {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<RateLimitRequest, D::Error> {
        Object::deserialize(deserializer).map(|Object(request)| request)
    }
}

// === what each message has ===

impl Members for BoundedRequest {
    const MESSAGE: &'static str = RateLimitRequest::MESSAGE;
    const NAMES: &'static [&'static str] = RateLimitRequest::NAMES;

    fn read<'de, A: MapAccess<'de>>(&mut self, name: &str, map: &mut A) -> Result<(), A::Error> {
        match name {
            "descriptors" => value::each(map, |descriptor| self.push(descriptor)),
            _ => self.message.read(name, map),
        }
    }
}

impl Members for RateLimitRequest {
    const MESSAGE: &'static str = "RateLimitRequest";
    const NAMES: &'static [&'static str] = &["domain", "descriptors", "hitsAddend", "hits_addend"];

    fn read<'de, A: MapAccess<'de>>(&mut self, name: &str, map: &mut A) -> Result<(), A::Error> {
        match name {
            "domain" => self.domain = value::bytes(map)?,
            "descriptors" => value::each(map, |descriptor| self.descriptors.push(descriptor))?,
            _ => self.hits_addend = value::whole(map)?.unwrap_or_default(),
        }
        Ok(())
    }
}

impl Members for RateLimitDescriptor {
    const MESSAGE: &'static str = "RateLimitDescriptor";
    const NAMES: &'static [&'static str] = &[
        "entries",
        "limit",
        "hitsAddend",
        "hits_addend",
        "isNegativeHits",
        "is_negative_hits",
    ];

    fn read<'de, A: MapAccess<'de>>(&mut self, name: &str, map: &mut A) -> Result<(), A::Error> {
        match name {
            "entries" => {
                let mut read = OpenDescriptor::default();
                value::each(map, |entry| read.push(entry))?;
                self.entries = read.finish().entries;
            }
            "limit" => self.limit = value::object(map)?,
            "hitsAddend" | "hits_addend" => {
                self.hits_addend = value::whole::<u64, A>(map)?.map(Into::into);
            }
            _ => self.is_negative_hits = value::flag(map)?,
        }
        Ok(())
    }
}

impl Members for Entry {
    const MESSAGE: &'static str = "Entry";
    const NAMES: &'static [&'static str] = &["key", "value"];

    fn read<'de, A: MapAccess<'de>>(&mut self, name: &str, map: &mut A) -> Result<(), A::Error> {
        match name {
            "key" => self.key = value::bytes(map)?,
            _ => self.value = value::bytes(map)?,
        }
        Ok(())
    }
}

impl Members for RateLimitOverride {
    const MESSAGE: &'static str = "RateLimitOverride";
    const NAMES: &'static [&'static str] = &["requestsPerUnit", "requests_per_unit", "unit"];

    fn read<'de, A: MapAccess<'de>>(&mut self, name: &str, map: &mut A) -> Result<(), A::Error> {
        match name {
            "unit" => self.unit = value::unit(map)?,
            _ => self.requests_per_unit = value::whole(map)?.unwrap_or_default(),
        }
        Ok(())
    }
}

// === impl InvalidJson ===

impl InvalidJson {
    /// What is wrong, without the position.
    pub fn reason(&self) -> &str {
        &self.reason
    }

    /// The column in the line, from 1; 0 if the text as a whole is wrong.
    pub const fn column(&self) -> usize {
        self.column
    }
}

impl std::error::Error for InvalidJson {}

impl From<serde_json::Error> for InvalidJson {
    fn from(error: serde_json::Error) -> InvalidJson {
        let (line, column) = (error.line(), error.column());
        let text = error.to_string();
        let place = format!(" at line {line} column {column}");
        let reason = text.strip_suffix(&place).unwrap_or(&text);
        InvalidJson {
            // serde's message for a number that no type of Rust can represent.
            reason: match reason {
                "number out of range" => NUMBERS.to_owned(),
                reason => reason.to_owned(),
            },
            line,
            column,
        }
    }
}

impl fmt::Display for InvalidJson {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let InvalidJson {
            reason,
            line,
            column,
        } = self;
        match line {
            0 => f.write_str(reason),
            _ => write!(f, "{reason} at line {line} column {column}"),
        }
    }
}

#[cfg(test)]
mod tests;
