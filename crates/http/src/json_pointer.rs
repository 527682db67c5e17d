//! A number somewhere in a JSON text (RFC 6901), read without keeping the text's values.

use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use tollgate_core::COST_MAX;

use crate::setting::InvalidSetting;

/// The most steps of a pointer.
pub const POINTER_STEPS_MAX: usize = 16;

/// Where a number is in a JSON text: `/usage/total_tokens`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JsonPointer(Vec<String>);

/// Why a text has no number of units.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoUnits {
    /// There is nothing at this place.
    Missing,
    /// It is not JSON, or what is there is not a whole number that is at least 0.
    Malformed,
}

// === impl JsonPointer ===

impl JsonPointer {
    /// # Errors
    ///
    /// [`InvalidSetting`] if the text is not a pointer to a member or an item.
    pub fn parse(text: &str) -> Result<JsonPointer, InvalidSetting> {
        let wrong = |problem: String| {
            let instead = "write one such as `/usage/total_tokens`, with `~1` for `/` in a name \
                           and `~0` for `~`";
            Err(InvalidSetting::new("json", problem, instead))
        };
        let Some(steps) = text.strip_prefix('/') else {
            return wrong(format!("\"{text}\" does not begin with `/`"));
        };
        let mut parsed = Vec::new();
        for step in steps.split('/') {
            let escapes = step.split('~').skip(1);
            if !escapes.into_iter().all(|rest| rest.starts_with(['0', '1'])) {
                return wrong(format!("\"{text}\" has a `~` that is not an escape"));
            }
            parsed.push(step.replace("~1", "/").replace("~0", "~"));
        }
        if parsed.len() > POINTER_STEPS_MAX {
            return wrong(format!(
                "\"{text}\" has more than {POINTER_STEPS_MAX} steps"
            ));
        }
        Ok(JsonPointer(parsed))
    }

    /// The number at this place, at most [`COST_MAX`]. If a member occurs twice, the last counts.
    ///
    /// # Errors
    ///
    /// [`NoUnits`] if there is no such number.
    pub fn read(&self, json: &[u8]) -> Result<u64, NoUnits> {
        let mut deserializer = serde_json::Deserializer::from_slice(json);
        let found = Search(&self.0).deserialize(&mut deserializer);
        let found = found.map_err(|_| NoUnits::Malformed)?;
        deserializer.end().map_err(|_| NoUnits::Malformed)?;
        match found {
            Found::Nothing => Err(NoUnits::Missing),
            Found::Other => Err(NoUnits::Malformed),
            Found::Units(units) => Ok(units.min(COST_MAX)),
        }
    }
}

/// What is at the place.
#[derive(Clone, Copy, Debug)]
enum Found {
    Nothing,
    Other,
    Units(u64),
}

/// Follows the steps from a value; reads over everything else.
#[derive(Clone, Copy)]
struct Search<'p>(&'p [String]);

/// Whether the name of a member is this one.
#[derive(Clone, Copy)]
struct IsKey<'p>(Option<&'p str>);

// === impl IsKey ===

impl<'de> DeserializeSeed<'de> for IsKey<'_> {
    type Value = bool;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<bool, D::Error> {
        deserializer.deserialize_str(self)
    }
}

impl Visitor<'_> for IsKey<'_> {
    type Value = bool;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a name")
    }

    fn visit_str<E>(self, name: &str) -> Result<bool, E> {
        Ok(self.0 == Some(name))
    }
}

// === impl Search ===

impl Search<'_> {
    /// What a value that has no members means.
    const fn end(self, here: Found) -> Found {
        match self.0 {
            [] => here,
            _ => Found::Nothing,
        }
    }
}

impl<'de> DeserializeSeed<'de> for Search<'_> {
    type Value = Found;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Found, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Search<'_> {
    type Value = Found;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("any value")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Found, A::Error> {
        let mut found = self.end(Found::Other);
        let step = self.0.first().map(String::as_str);
        while let Some(is_step) = map.next_key_seed(IsKey(step))? {
            match self.0 {
                [_, rest @ ..] if is_step => found = map.next_value_seed(Search(rest))?,
                _ => {
                    map.next_value::<IgnoredAny>()?;
                }
            }
        }
        Ok(found)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Found, A::Error> {
        let wanted = self.0.first().and_then(|step| step.parse::<usize>().ok());
        let mut found = self.end(Found::Other);
        for index in 0.. {
            if Some(index) == wanted {
                match items.next_element_seed(Search(&self.0[1..]))? {
                    Some(item) => found = item,
                    None => break,
                }
            } else if items.next_element::<IgnoredAny>()?.is_none() {
                break;
            }
        }
        Ok(found)
    }

    fn visit_u64<E>(self, units: u64) -> Result<Found, E> {
        Ok(self.end(Found::Units(units)))
    }

    fn visit_i64<E>(self, _negative: i64) -> Result<Found, E> {
        Ok(self.end(Found::Other))
    }

    /// Of these, only numbers that are too large for an integer are whole for certain.
    fn visit_f64<E>(self, number: f64) -> Result<Found, E> {
        let is_huge = number > f64::from(u32::MAX);
        let here = if is_huge {
            Found::Units(u64::MAX)
        } else {
            Found::Other
        };
        Ok(self.end(here))
    }

    fn visit_bool<E>(self, _flag: bool) -> Result<Found, E> {
        Ok(self.end(Found::Other))
    }

    fn visit_str<E>(self, _text: &str) -> Result<Found, E> {
        Ok(self.end(Found::Other))
    }

    /// `null` stands for a number that is not known: the last event of a stream has it.
    fn visit_unit<E>(self) -> Result<Found, E> {
        Ok(Found::Nothing)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    fn read(pointer: &str, json: &str) -> Result<u64, NoUnits> {
        JsonPointer::parse(pointer).unwrap().read(json.as_bytes())
    }

    #[test]
    fn a_number_is_found_wherever_it_is() {
        for (pointer, json, units) in [
            (
                "/usage/total_tokens",
                r#"{"a":[{}],"usage":{"total_tokens":7,"x":{}}}"#,
                7,
            ),
            ("/a/1/b", r#"{"a":[1,{"b":3},2]}"#, 3),
            ("/0", "[5]", 5),
            ("/", r#"{"":4}"#, 4),
            ("/a~1b~0c", r#"{"a/b~c":1}"#, 1),
            ("/t\u{e9}", "{\"t\\u00e9\":2}", 2),
            ("/n", r#"{"n":1,"n":2}"#, 2),
            ("/n", " {\"n\" : 0 }\r\n", 0),
            ("/n", r#"{"n":4294967296}"#, COST_MAX),
            ("/n", r#"{"n":18446744073709551616}"#, COST_MAX),
            ("/n", r#"{"n":1e300}"#, COST_MAX),
        ] {
            assert_eq!(read(pointer, json), Ok(units), "{pointer} {json}");
        }
    }

    #[test]
    fn what_is_no_whole_number_is_malformed() {
        for json in [
            r#"{"n":-1}"#,
            r#"{"n":1.5}"#,
            r#"{"n":"7"}"#,
            r#"{"n":true}"#,
            r#"{"n":{}}"#,
            r#"{"n":[7]}"#,
            r#"{"n":-1e300}"#,
            r#"{"n":1e999}"#,
            r#"{"n":7"#,
            r#"{"n":7}}"#,
            r#"{"n":NaN}"#,
            r#"{"n":07}"#,
            "",
            "\u{feff}{\"n\":7}",
            "data: {\"n\":7}",
        ] {
            assert_eq!(read("/n", json), Err(NoUnits::Malformed), "{json}");
        }
        let deep = format!("{}{}", "[".repeat(100_000), "]".repeat(100_000));
        assert_eq!(read("/n", &deep), Err(NoUnits::Missing));
        let unclosed = "[".repeat(100_000);
        assert_eq!(read("/n", &unclosed), Err(NoUnits::Malformed));
        assert_eq!(
            JsonPointer::parse("/n").unwrap().read(b"{\"n\xff\":1}"),
            Err(NoUnits::Malformed)
        );
    }

    #[test]
    fn nothing_and_null_are_missing() {
        for json in [
            "{}",
            r#"{"n":null}"#,
            "[]",
            "7",
            r#"{"N":7}"#,
            r#"[{"n":7}]"#,
            "null",
        ] {
            assert_eq!(read("/n", json), Err(NoUnits::Missing), "{json}");
        }
        assert_eq!(read("/a/b", r#"{"a":7}"#), Err(NoUnits::Missing));
        assert_eq!(read("/7", "[1]"), Err(NoUnits::Missing));
    }

    #[test]
    fn pointers_that_are_none_are_errors() {
        for text in ["", "usage", "usage/total", "/a~", "/a~2", "/~~0"] {
            assert!(JsonPointer::parse(text).is_err(), "{text}");
        }
        assert!(JsonPointer::parse(&"/a".repeat(POINTER_STEPS_MAX)).is_ok());
        assert!(JsonPointer::parse(&"/a".repeat(POINTER_STEPS_MAX + 1)).is_err());
    }
}
