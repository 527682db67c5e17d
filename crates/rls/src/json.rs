//! Requests in the JSON of proto3.

use std::fmt;

use crate::RateLimitRequest;

/// Why a text is no request in JSON: what, and at which line and column.
#[derive(Debug)]
pub struct InvalidJson(serde_json::Error);

/// Reads a request: names in camel case or as in the `.proto` file, numbers also as strings, enums
/// by name or number. An unknown field is an error, as in Envoy's own service.
///
/// # Errors
///
/// [`InvalidJson`].
pub fn read(json: &[u8]) -> Result<RateLimitRequest, InvalidJson> {
    serde_json::from_slice(json).map_err(InvalidJson)
}

// === impl InvalidJson ===

impl std::error::Error for InvalidJson {}

impl From<serde_json::Error> for InvalidJson {
    fn from(error: serde_json::Error) -> InvalidJson {
        InvalidJson(error)
    }
}

impl fmt::Display for InvalidJson {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = self.0.to_string();
        // What serde says of a number that fits no reading of it names its own insides.
        if text.starts_with("data did not match any variant of untagged enum") {
            let (line, column) = (self.0.line(), self.0.column());
            return write!(
                f,
                "expected a whole number in its field's range, at line {line} column {column}"
            );
        }
        f.write_str(&text)
    }
}

#[cfg(test)]
mod tests;
