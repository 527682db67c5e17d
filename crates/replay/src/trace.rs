//! Lines of traces: a request of the rate limit service in JSON, with its time.

use std::borrow::Cow;
use std::fmt;

use serde::Deserialize;
use serde::de::{Deserializer, MapAccess, Visitor};
use serde_json::value::RawValue;
use tollgate_core::Moment;
use tollgate_rls::InvalidJson;

use crate::timestamp::{BadMoment, rfc3339, seconds};

/// The moment of an event; the JSON of its request without the moment is written to `request`.
///
/// Equal requests that were written alike become equal bytes, so that a repeated request is parsed
/// only once.
pub(crate) fn split(line: &[u8], request: &mut Vec<u8>) -> Result<Moment, BadEvent> {
    if line.trim_ascii().is_empty() {
        return Err(BadEvent::Blank);
    }
    if !line.trim_ascii_start().starts_with(b"{") {
        return Err(BadEvent::NoObject);
    }
    let Members(members) = serde_json::from_slice(line).map_err(BadEvent::json)?;
    request.clear();
    let mut at = None;
    for (key, value) in members {
        if key != "at" {
            request.push(if request.is_empty() { b'{' } else { b',' });
            // Writing a string to memory cannot fail.
            let _written = serde_json::to_writer(&mut *request, &key);
            request.push(b':');
            request.extend_from_slice(value.get().as_bytes());
        } else if at.replace(moment(value.get())?).is_some() {
            return Err(BadEvent::TwoMoments);
        }
    }
    if request.is_empty() {
        request.push(b'{');
    }
    request.push(b'}');
    at.ok_or(BadEvent::NoMoment)
}

/// A number of seconds, or a string as in RFC 3339.
fn moment(json: &str) -> Result<Moment, BadEvent> {
    let moment = match json.as_bytes().first() {
        Some(b'"') => {
            let text: Text<'_> = serde_json::from_str(json).map_err(BadEvent::json)?;
            rfc3339(&text.0)
        }
        Some(b'-' | b'0'..=b'9') => seconds(json),
        _ => return Err(BadEvent::NoMoment),
    };
    moment.map_err(BadEvent::Moment)
}

/// Why a line is not an event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum BadEvent {
    Blank,
    NoObject,
    Json(String),
    NoMoment,
    TwoMoments,
    Moment(BadMoment),
}

/// An object's members, their values as they were written.
struct Members<'a>(Vec<(Cow<'a, str>, &'a RawValue)>);

/// A string, borrowed if it has no escapes.
#[derive(Deserialize)]
struct Text<'a>(#[serde(borrow)] Cow<'a, str>);

// === impl Members ===

impl<'de> Deserialize<'de> for Members<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Members<'de>, D::Error> {
        struct InOrder;

        impl<'de> Visitor<'de> for InOrder {
            type Value = Members<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Members<'de>, A::Error> {
                let mut members = Vec::new();
                while let Some((key, value)) = map.next_entry::<Text<'de>, &'de RawValue>()? {
                    members.push((key.0, value));
                }
                Ok(Members(members))
            }
        }

        deserializer.deserialize_map(InOrder)
    }
}

// === impl BadEvent ===

impl BadEvent {
    fn json(error: serde_json::Error) -> BadEvent {
        let invalid = InvalidJson::from(error);
        let reason = invalid.reason().to_owned();
        // In a trace, the line is reported with its input.
        BadEvent::Json(match invalid.column() {
            0 => reason,
            column => format!("{reason} at column {column}"),
        })
    }
}

impl fmt::Display for BadEvent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            BadEvent::Blank => f.write_str("the line is blank"),
            BadEvent::NoObject => f.write_str(
                "it is not a JSON object such as \
                 {\"at\": 0.5, \"domain\": …, \"descriptors\": […]}",
            ),
            BadEvent::Json(message) => f.write_str(message),
            BadEvent::NoMoment => {
                f.write_str("there is no `at`: a number of seconds, or an RFC 3339 string")
            }
            BadEvent::TwoMoments => f.write_str("`at` is given twice"),
            BadEvent::Moment(bad) => write!(f, "`at`: {bad}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(line: &str) -> Result<(u64, String), BadEvent> {
        let mut request = Vec::new();
        let at = split(line.as_bytes(), &mut request)?;
        Ok((
            at.as_nanos(),
            String::from_utf8_lossy(&request).into_owned(),
        ))
    }

    #[test]
    fn the_moment_is_taken_out_wherever_it_stands() {
        let whole = Ok((300_000_000, r#"{"domain":"d","x":[1, 2]}"#.to_owned()));
        assert_eq!(read(r#"{"at":0.3,"domain":"d","x":[1, 2]}"#), whole);
        assert_eq!(
            read(r#" { "domain" : "d", "at" : 3e-1 , "x":[1, 2] } "#),
            whole
        );
        assert_eq!(
            read(r#"{"\u0064omain":"d","x":[1, 2],"a\u0074":"1970-01-01T00:00:00.3Z"}"#),
            whole
        );
        assert_eq!(read(r#"{"at":0}"#), Ok((0, "{}".to_owned())));
    }

    #[test]
    fn a_line_says_why_it_is_no_event() {
        let rejected = [
            ("", "the line is blank"),
            (
                "[]",
                "it is not a JSON object such as \
                {\"at\": 0.5, \"domain\": …, \"descriptors\": […]}",
            ),
            (
                "180.18.0.1 - -",
                "it is not a JSON object such as \
                {\"at\": 0.5, \"domain\": …, \"descriptors\": […]}",
            ),
            ("{\"at\":1", "EOF while parsing an object at column 7"),
            ("{\"at\":1} x", "trailing characters at column 10"),
            ("{\"at\":01}", "invalid number at column 8"),
            (
                "{}",
                "there is no `at`: a number of seconds, or an RFC 3339 string",
            ),
            (
                "{\"at\":null}",
                "there is no `at`: a number of seconds, or an RFC 3339 string",
            ),
            ("{\"at\":1,\"at\":1}", "`at` is given twice"),
            ("{\"at\":-1}", "`at`: the time is before 1970"),
            (
                "{\"at\":\"1\"}",
                "`at`: the time is not in the form that is expected",
            ),
            (
                "{\"at\":0.0000000001}",
                "`at`: the time is finer than a nanosecond",
            ),
        ];
        for (line, why) in rejected {
            let bad = read(line).map_err(|bad| bad.to_string());
            assert_eq!(bad, Err(why.to_owned()), "{line}");
        }
    }
}
