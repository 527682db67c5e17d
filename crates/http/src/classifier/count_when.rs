//! `count_when` of a descriptor: which responses count.

use std::fmt;

use http::StatusCode;
use serde::Deserialize;
use serde::de::{Deserializer, Error, Visitor};

use crate::setting::InvalidSetting;

/// The most ranges of statuses of one descriptor.
pub const STATUS_RANGES_MAX: usize = 64;

/// The statuses that HTTP has.
const STATUSES: StatusRange = StatusRange {
    first: 100,
    last: 599,
};

/// Which responses count; all others release what their request has reserved.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CountWhenSettings {
    /// Those with one of these statuses.
    pub status: Vec<StatusRange>,
}

/// Statuses of responses: `401`, `400-499`, or `4xx` for the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StatusRange {
    first: u16,
    last: u16,
}

// === impl CountWhenSettings ===

impl CountWhenSettings {
    /// Whether a response with this status counts.
    pub fn counts(&self, status: StatusCode) -> bool {
        self.status.iter().any(|range| range.contains(status))
    }

    pub(super) fn check(&self) -> Result<(), InvalidSetting> {
        let at = "status";
        if self.status.is_empty() {
            return Err(InvalidSetting::new(
                at,
                "no response counts, so nothing would be limited",
                "write statuses, as in `[401, 403]`",
            ));
        }
        InvalidSetting::check_at_most(at, self.status.len(), "statuses", STATUS_RANGES_MAX)
    }
}

// === impl StatusRange ===

impl StatusRange {
    /// Whether the status is one of these.
    pub fn contains(self, status: StatusCode) -> bool {
        (self.first..=self.last).contains(&status.as_u16())
    }

    fn parse(text: &str) -> Option<StatusRange> {
        let number = |digits: &str| {
            let is_number = digits.len() == 3 && digits.bytes().all(|byte| byte.is_ascii_digit());
            digits.parse().ok().filter(|_| is_number)
        };
        let (first, last) = match text.split_once('-') {
            Some((first, last)) => (number(first)?, number(last)?),
            None => match text.strip_suffix("xx") {
                Some(class) => (
                    number(&format!("{class}00"))?,
                    number(&format!("{class}99"))?,
                ),
                None => (number(text)?, number(text)?),
            },
        };
        let is_status = STATUSES.first <= first && first <= last && last <= STATUSES.last;
        is_status.then_some(StatusRange { first, last })
    }
}

impl<'de> Deserialize<'de> for StatusRange {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<StatusRange, D::Error> {
        struct Text;

        impl Visitor<'_> for Text {
            type Value = StatusRange;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a status such as `401`, `4xx` or `400-499`")
            }

            fn visit_u64<E: Error>(self, number: u64) -> Result<StatusRange, E> {
                self.visit_str(&number.to_string())
            }

            fn visit_str<E: Error>(self, text: &str) -> Result<StatusRange, E> {
                let wrong = || {
                    E::custom(format!(
                        "\"{text}\" is not a valid status: write one from 100 to 599, a class such \
                         as `4xx`, or a range such as `400-499`"
                    ))
                };
                StatusRange::parse(text).ok_or_else(wrong)
            }
        }

        deserializer.deserialize_any(Text)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use serde_json::{Value, json};

    use super::*;

    fn read(status: Value) -> Result<CountWhenSettings, String> {
        let settings = serde_json::from_value(json!({ "status": status }));
        settings.map_err(|error| error.to_string())
    }

    #[test]
    fn statuses_are_numbers_classes_and_ranges() {
        let settings = read(json!([401, "403", "5xx", "410-412"])).unwrap();
        assert_eq!(settings.check(), Ok(()));
        let counted = (100..600).filter(|status| {
            let status = StatusCode::from_u16(*status).unwrap();
            settings.counts(status)
        });
        let expected = [401, 403, 410, 411, 412].into_iter().chain(500..600);
        assert!(counted.eq(expected));
        assert!(!settings.counts(StatusCode::from_u16(999).unwrap()));
    }

    #[test]
    fn what_is_no_status_is_an_error() {
        let texts = [
            json!(99),
            json!(600),
            json!(40),
            json!(-401),
            json!(4010),
            json!("xx"),
            json!("0xx"),
            json!("6xx"),
            json!("4x"),
            json!("4XX"),
            json!("403-401"),
            json!("400-"),
            json!("+40"),
            json!(""),
            json!(" 401"),
            json!("1e2"),
            json!(null),
            json!([401]),
        ];
        for text in texts {
            assert!(read(json!([text])).is_err(), "{text}");
        }
        assert!(read(json!(401)).is_err());
        let none = read(json!([])).unwrap().check().unwrap_err();
        assert_eq!(none.at, "status");
        let many = read(json!(vec![401; STATUS_RANGES_MAX + 1])).unwrap();
        assert!(many.check().is_err());
    }
}
