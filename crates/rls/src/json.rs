//! Requests in the JSON of proto3.

use std::fmt;

use crate::RateLimitRequest;

/// Why a text is no request in JSON: what, and at which line and column.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InvalidJson {
    reason: String,
    line: usize,
    column: usize,
}

/// Reads a request: names in camel case or as in the `.proto` file, numbers also as strings, enums
/// by name or number. An unknown field is an error, as in Envoy's own service.
///
/// # Errors
///
/// [`InvalidJson`].
pub fn read(json: &[u8]) -> Result<RateLimitRequest, InvalidJson> {
    Ok(serde_json::from_slice(json)?)
}

/// What serde's words begin with where a number cannot be read: they name its own insides.
const NO_NUMBER: [&str; 4] = [
    "cannot parse integer from empty string",
    "data did not match any variant of untagged enum",
    "invalid digit found in string",
    "number too large to fit in target type",
];
/// Every number of a request, and what it may be.
const NUMBERS: &str = "hitsAddend and requestsPerUnit are whole numbers from 0 to 4294967295";

// === impl InvalidJson ===

impl InvalidJson {
    /// What is wrong, without the place.
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
        InvalidJson {
            reason: reason(text.strip_suffix(&place).unwrap_or(&text)),
            line,
            column,
        }
    }
}

/// What serde said, in the words of whoever wrote the JSON.
fn reason(text: &str) -> String {
    if NO_NUMBER.iter().any(|words| text.starts_with(words)) {
        return NUMBERS.to_owned();
    }
    match text.rsplit_once("expected struct ") {
        Some((found, message)) => {
            let name = message.rsplit('.').next().unwrap_or(message);
            format!("{found}expected an object ({name})")
        }
        None => text.replace("expected expected", "expected"),
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
