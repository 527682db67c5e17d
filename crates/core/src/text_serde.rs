//! Serialises limits and spans as the text that `Display` writes.

use std::error::Error;
use std::fmt;
use std::marker::PhantomData;
use std::str::FromStr;

use serde::de::{Deserialize, Deserializer, Error as DeError, Visitor};
use serde::ser::{Serialize, Serializer};

use crate::limit::Limit;
use crate::span::Span;

/// Deserialises a value from its text.
struct FromText<T> {
    expected: &'static str,
    value: PhantomData<T>,
}

impl Serialize for Limit {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Limit {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Limit, D::Error> {
        deserializer.deserialize_str(FromText::new("a limit such as `100/minute`"))
    }
}

impl Serialize for Span {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Span {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Span, D::Error> {
        deserializer.deserialize_str(FromText::new("a length of time such as `15m`"))
    }
}

// === impl FromText ===

impl<T> FromText<T> {
    const fn new(expected: &'static str) -> FromText<T> {
        FromText {
            expected,
            value: PhantomData,
        }
    }
}

impl<T> Visitor<'_> for FromText<T>
where
    T: FromStr,
    T::Err: Error,
{
    type Value = T;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.expected)
    }

    fn visit_str<E: DeError>(self, text: &str) -> Result<T, E> {
        text.parse().map_err(|error: T::Err| match error.source() {
            Some(cause) => E::custom(format_args!("{error}: {cause}")),
            None => E::custom(error),
        })
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn values_are_their_texts() {
        let limit = Limit::per_minute(100).burst(20);
        let json = serde_json::to_string(&limit).unwrap();
        assert_eq!(json, "\"100 per 1m token_bucket burst 20\"");
        assert_eq!(serde_json::from_str::<Limit>(&json).unwrap(), limit);
        let window: Span = serde_json::from_str("\"15m\"").unwrap();
        assert_eq!(serde_json::to_string(&window).unwrap(), "\"15m\"");
    }

    #[test]
    fn errors_say_what_is_wrong() {
        let window = serde_json::from_str::<Limit>("\"5/15min\"").unwrap_err();
        assert!(
            window.to_string().contains("unknown unit of time `min`"),
            "{window}"
        );
        let number = serde_json::from_str::<Limit>("5").unwrap_err();
        assert!(
            number.to_string().contains("expected a limit such as"),
            "{number}"
        );
    }
}
