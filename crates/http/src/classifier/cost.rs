//! `cost` of a descriptor: how many units a request consumes, and when that is known.

use http::header::CONTENT_LENGTH;
use http::{HeaderMap, HeaderName};
use serde::Deserialize;
use tollgate_core::COST_MAX;

use crate::json_pointer::JsonPointer;
use crate::setting::{InvalidSetting, InvalidSettings};

/// The cost of a request, for one descriptor.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CostSettings {
    /// Where it is from.
    pub from: CostSource,
    /// The units to charge until it is known, and if it never is. Default: 1.
    #[serde(default)]
    pub estimate: Option<u32>,
}

/// Where the cost of a request is from.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CostSource {
    /// This number.
    Constant(u32),
    /// A number in a header of the request.
    Header(String),
    /// The bytes of the request's body.
    RequestBytes,
    /// The bytes of the response's body.
    ResponseBytes,
    /// A number in a header of the response.
    ResponseHeader(String),
    /// A number in the body of the response: a pointer into its JSON, or into the JSON of the last
    /// event of a `text/event-stream` that has it.
    Json(String),
    /// A number in a trailer of the response.
    Trailer(String),
}

/// Where the cost of a descriptor is from, checked.
#[derive(Clone, Debug)]
pub struct Cost {
    source: Source,
    estimate: u64,
}

/// What of a response has the cost of its request.
#[derive(Clone, Copy, Debug)]
pub enum ResponseCost<'c> {
    /// The bytes of the request's body, which may end after the response begins.
    RequestBytes,
    /// The bytes of its body.
    ResponseBytes,
    /// A header.
    Header(&'c HeaderName),
    /// A number in its body.
    Json(&'c JsonPointer),
    /// A trailer.
    Trailer(&'c HeaderName),
}

#[derive(Clone, Debug)]
enum Source {
    Constant,
    Header(HeaderName),
    RequestBytes,
    ResponseBytes,
    ResponseHeader(HeaderName),
    Json(JsonPointer),
    Trailer(HeaderName),
}

// === impl CostSettings ===

impl CostSettings {
    /// Whether it is known only once there is a response.
    pub(super) const fn needs_response(&self) -> bool {
        !matches!(self.from, CostSource::Constant(_) | CostSource::Header(_))
    }

    /// Checks the names, and that there is an estimate only where it is used.
    pub(super) fn check(&self) -> Result<Cost, InvalidSettings> {
        let mut errors = InvalidSettings::default();
        if let (CostSource::Constant(_), Some(_)) = (&self.from, self.estimate) {
            let invalid = InvalidSetting::new("estimate", "the cost is known", "remove it");
            errors.push(invalid);
        }
        let name = |name: &String, key: &str| {
            let instead = "write the name of a header, such as `x-cost`";
            HeaderName::from_bytes(name.as_bytes()).map_err(|_| {
                let problem = format!("{name:?} is not a valid header name");
                InvalidSetting::new(key, problem, instead)
            })
        };
        let source = match &self.from {
            CostSource::Constant(_) => Ok(Source::Constant),
            CostSource::Header(header) => name(header, "header").map(Source::Header),
            CostSource::RequestBytes => Ok(Source::RequestBytes),
            CostSource::ResponseBytes => Ok(Source::ResponseBytes),
            CostSource::ResponseHeader(header) => {
                name(header, "response_header").map(Source::ResponseHeader)
            }
            CostSource::Json(pointer) => JsonPointer::parse(pointer).map(Source::Json),
            CostSource::Trailer(header) => name(header, "trailer").map(Source::Trailer),
        };
        let known = match self.from {
            CostSource::Constant(units) => units,
            _ => self.estimate.unwrap_or(1),
        };
        match errors.take_below("from", source) {
            Some(source) if errors.is_empty() => Ok(Cost {
                source,
                estimate: known.into(),
            }),
            _ => Err(errors),
        }
    }
}

// === impl Cost ===

impl Cost {
    /// The units to charge a request before it is passed on: its cost if that is known, or else the
    /// estimate.
    pub(super) fn estimate(&self, headers: &HeaderMap) -> u64 {
        let header = match &self.source {
            Source::Header(name) => name,
            Source::RequestBytes => &CONTENT_LENGTH,
            _ => return self.estimate,
        };
        read_units(headers, header).unwrap_or(self.estimate)
    }

    /// What of the response has the cost; `None` if it was known before.
    pub const fn of_response(&self) -> Option<ResponseCost<'_>> {
        Some(match &self.source {
            Source::Constant | Source::Header(_) => return None,
            Source::RequestBytes => ResponseCost::RequestBytes,
            Source::ResponseBytes => ResponseCost::ResponseBytes,
            Source::ResponseHeader(name) => ResponseCost::Header(name),
            Source::Json(pointer) => ResponseCost::Json(pointer),
            Source::Trailer(name) => ResponseCost::Trailer(name),
        })
    }
}

/// A number of units in a header: digits only. At most [`COST_MAX`], which also stands for anything
/// above. `None` if the header is missing, has another value, or is there more than once.
pub fn read_units(headers: &HeaderMap, name: &HeaderName) -> Option<u64> {
    let mut values = headers.get_all(name).iter();
    let (value, None) = (values.next()?, values.next()) else {
        return None;
    };
    let text = value.to_str().ok()?.trim_matches([' ', '\t']);
    let is_number = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    // Only a number that is too large is none.
    is_number.then(|| text.parse().unwrap_or(COST_MAX).min(COST_MAX))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use http::HeaderValue;
    use serde_json::{Value, json};

    use super::*;

    fn cost(settings: Value) -> Result<Cost, String> {
        let settings: CostSettings =
            serde_json::from_value(settings).map_err(|error| error.to_string())?;
        settings.check().map_err(|error| error.to_string())
    }

    fn headers(pairs: &[(&'static str, &'static str)]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for (name, value) in pairs {
            headers.append(*name, HeaderValue::from_static(value));
        }
        headers
    }

    #[test]
    fn a_cost_is_what_is_known_or_the_estimate() {
        let both = headers(&[("x-cost", "7"), ("content-length", "120")]);
        for (settings, units) in [
            (json!({"from": {"constant": 5}}), 5),
            (json!({"from": {"constant": 0}}), 0),
            (json!({"from": {"header": "X-Cost"}, "estimate": 3}), 7),
            (json!({"from": {"header": "x-other"}, "estimate": 3}), 3),
            (json!({"from": {"header": "x-other"}}), 1),
            (json!({"from": "request_bytes", "estimate": 3}), 120),
            (json!({"from": "response_bytes", "estimate": 3}), 3),
            (
                json!({"from": {"json": "/n"}, "estimate": 4_294_967_295_u32}),
                COST_MAX,
            ),
            (json!({"from": {"trailer": "grpc-cost"}}), 1),
        ] {
            assert_eq!(
                cost(settings.clone()).unwrap().estimate(&both),
                units,
                "{settings}"
            );
        }
    }

    #[test]
    fn a_number_in_a_header_is_digits_and_bounded() {
        let name = HeaderName::from_static("x-cost");
        for (value, units) in [
            ("0", Some(0)),
            (" 12\t", Some(12)),
            ("4294967295", Some(COST_MAX)),
            ("4294967296", Some(COST_MAX)),
            ("99999999999999999999999999", Some(COST_MAX)),
            ("-1", None),
            ("+1", None),
            ("1.0", None),
            ("1e3", None),
            ("0x10", None),
            ("1,2", None),
            ("", None),
        ] {
            assert_eq!(
                read_units(&headers(&[("x-cost", value)]), &name),
                units,
                "{value:?}"
            );
        }
        let twice = headers(&[("x-cost", "1"), ("x-cost", "1")]);
        assert_eq!(read_units(&twice, &name), None);
        let mut bytes = HeaderMap::new();
        bytes.insert(&name, HeaderValue::from_bytes(b"1\xff").unwrap());
        assert_eq!(read_units(&bytes, &name), None);
    }

    #[test]
    fn settings_that_cannot_be_used_are_errors() {
        for (settings, words) in [
            (
                json!({"from": {"constant": 5}, "estimate": 5}),
                "estimate: the cost is known",
            ),
            (
                json!({"from": {"header": "x cost"}}),
                "from.header: \"x cost\" is not a valid header name",
            ),
            (json!({"from": {"trailer": ""}}), "from.trailer: "),
            (
                json!({"from": {"json": "usage"}}),
                "from.json: \"usage\" does not begin",
            ),
            (json!({"from": {"constant": -5}}), "invalid value"),
            (json!({"from": "bytes"}), "unknown variant"),
            (
                json!({"from": "response_bytes", "estimate": 4_294_967_296_u64}),
                "invalid value",
            ),
            (json!({"estimate": 5}), "missing field"),
        ] {
            let error = cost(settings.clone()).unwrap_err();
            assert!(error.contains(words), "{settings}: {error}");
        }
    }
}
