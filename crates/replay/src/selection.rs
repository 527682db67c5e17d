//! Which events of the inputs are decided: a part of the time, and filters on fields.

use std::fmt;
use std::str::FromStr;

use tollgate_core::{Moment, Request};

use crate::field::{Field, Fields};
use crate::pattern::InvalidPattern;
use crate::timestamp::any_form;

/// Which events of the inputs are decided.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Selection {
    /// The first moment; events before it are excluded.
    pub from: Option<Moment>,
    /// The end; events at it and later ones are excluded.
    pub to: Option<Moment>,
    /// Filters, all of which must hold.
    pub filters: Vec<Filter>,
}

/// A condition on a field: `method=POST`, `path^=/api`.
///
/// The text has a field ([`Field`]) of an access log, or the key of an entry of a trace; an
/// operator; and a value. Blanks around each are ignored. Operators are those of attributes in CSS:
/// `=` equal, `!=` not equal, `^=` begins with, `$=` ends with, `*=` contains.
///
/// A request of a trace may have several entries with the key; one that fits is enough, and for
/// `!=`, none may be equal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Filter {
    field: String,
    operator: Operator,
    value: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Operator {
    Equal,
    NotEqual,
    Begins,
    Ends,
    Contains,
}

/// Why a text is not a [`Filter`].
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum InvalidFilter {
    /// There is no operator.
    NoOperator,
    /// There is no field before the operator.
    NoField,
}

/// Reads a moment as people and logs write it: RFC 3339, a date, a date and a time without a zone
/// (both in UTC), the time of an access log, or seconds since 1970. Four digits are neither a year
/// nor seconds, because nobody could tell which is meant.
///
/// # Errors
///
/// What is wrong, and the forms that there are.
pub fn parse_moment(text: &str) -> Result<Moment, String> {
    let text = text.trim();
    if text.len() == 4 && text.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(format!(
            "is it a year, or seconds since 1970? Write {text}-01-01, or {text}.0 for seconds"
        ));
    }
    any_form(text).map_err(|bad| {
        format!(
            "{bad}; write 2026-01-31, 2026-01-31T10:00:00Z, 31/Jan/2026:10:00:00, or seconds since \
             1970"
        )
    })
}

// === impl Selection ===

impl Selection {
    /// Whether an event at this moment can be among those that are decided.
    pub(crate) fn has(&self, at: Moment) -> bool {
        self.from.is_none_or(|from| at >= from) && self.to.is_none_or(|to| at < to)
    }

    /// The filters with the fields of an access log that they are about.
    ///
    /// # Errors
    ///
    /// [`InvalidPattern::UnknownField`].
    pub(crate) fn fields(&self) -> Result<Vec<(Field, Filter)>, InvalidPattern> {
        let filters = self.filters.iter();
        let bound = filters.map(|filter| Ok((Field::of_name(&filter.field)?, filter.clone())));
        bound.collect()
    }

    /// Whether all filters hold for a request of a trace.
    pub(crate) fn has_request(&self, request: &Request<'_>) -> bool {
        self.filters.iter().all(|filter| filter.is_met_by(request))
    }
}

/// Whether all filters hold for a line of an access log.
pub(crate) fn are_met(filters: &[(Field, Filter)], line: &Fields<'_>) -> bool {
    let mut filters = filters.iter();
    filters.all(|(field, filter)| filter.holds(line.get(*field)))
}

// === impl Filter ===

impl Filter {
    fn holds(&self, found: &[u8]) -> bool {
        let value = self.value.as_bytes();
        match self.operator {
            Operator::Equal => found == value,
            Operator::NotEqual => found != value,
            Operator::Begins => found.starts_with(value),
            Operator::Ends => found.ends_with(value),
            Operator::Contains => memchr::memmem::find(found, value).is_some(),
        }
    }

    fn is_met_by(&self, request: &Request<'_>) -> bool {
        let descriptors = request.descriptors.iter();
        let mut values = descriptors
            .flat_map(|descriptor| &descriptor.entries)
            .filter(|entry| entry.key == self.field.as_bytes())
            .map(|entry| entry.value);
        match self.operator {
            Operator::NotEqual => values.all(|value| self.holds(value)),
            _ => values.any(|value| self.holds(value)),
        }
    }
}

impl FromStr for Filter {
    type Err = InvalidFilter;

    fn from_str(text: &str) -> Result<Filter, InvalidFilter> {
        let (before, value) = text.split_once('=').ok_or(InvalidFilter::NoOperator)?;
        let operators = [
            ('!', Operator::NotEqual),
            ('^', Operator::Begins),
            ('$', Operator::Ends),
            ('*', Operator::Contains),
        ];
        let with_sign = operators
            .into_iter()
            .find_map(|(sign, operator)| Some((before.strip_suffix(sign)?, operator)));
        let (field, operator) = with_sign.unwrap_or((before, Operator::Equal));
        // `==` means the same to those who write programs.
        let value = match operator {
            Operator::Equal => value.strip_prefix('=').unwrap_or(value),
            _ => value,
        };
        match field.trim() {
            "" => Err(InvalidFilter::NoField),
            field => Ok(Filter {
                field: field.to_owned(),
                operator,
                value: value.trim().to_owned(),
            }),
        }
    }
}

// === impl InvalidFilter ===

impl std::error::Error for InvalidFilter {}

impl fmt::Display for InvalidFilter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            InvalidFilter::NoOperator => {
                "there is no operator; write `field=value`, or one of != ^= (begins with) \
                 $= (ends with) *= (contains)"
            }
            InvalidFilter::NoField => {
                "there is no field before the operator; write `method=POST`, `path^=/api`"
            }
        })
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn filter(text: &str) -> Filter {
        text.parse().unwrap()
    }

    #[test]
    fn each_operator_compares_as_it_says() {
        let table: [(&str, &[&str], &[&str]); 8] = [
            ("path=/a", &["/a"], &["", "/ab", "/"]),
            ("path == /a", &["/a"], &["=/a"]),
            ("path!=/a", &["", "/ab"], &["/a"]),
            ("path ^= /a", &["/a", "/ab"], &["", "b/a"]),
            ("path$=.php", &["/x.php", ".php"], &["/x.php/", ""]),
            ("path*=a=b", &["a=b", "xa=by"], &["a b", ""]),
            ("path=", &[""], &["/"]),
            ("path^=", &["", "x"], &[]),
        ];
        for (text, yes, no) in table {
            for found in yes {
                assert!(filter(text).holds(found.as_bytes()), "{text} {found}");
            }
            for found in no {
                assert!(!filter(text).holds(found.as_bytes()), "{text} {found}");
            }
        }
        assert!(filter("path*=\u{fffd}").holds("\u{fffd}".as_bytes()));
        assert!(!filter("path*=\u{fffd}").holds(b"\xff"));
    }

    #[test]
    fn a_text_that_is_no_filter_says_what_to_write() {
        assert_eq!("path".parse::<Filter>(), Err(InvalidFilter::NoOperator));
        assert_eq!("".parse::<Filter>(), Err(InvalidFilter::NoOperator));
        assert_eq!("=x".parse::<Filter>(), Err(InvalidFilter::NoField));
        assert_eq!(" ^= x".parse::<Filter>(), Err(InvalidFilter::NoField));
    }

    #[test]
    fn the_first_moment_is_included_and_the_end_is_not() {
        let at = Moment::from_nanos;
        let selection = Selection {
            from: Some(at(5)),
            to: Some(at(7)),
            ..Selection::default()
        };
        let taken = [4, 5, 6, 7].map(|nanos| selection.has(at(nanos)));
        assert_eq!(taken, [false, true, true, false]);
    }

    #[test]
    fn moments_are_read_in_the_forms_that_people_copy() {
        let expected = Ok(Moment::from_nanos(1_431_820_800_000_000_000));
        for text in [
            "2015-05-17",
            "2015-05-17T00:00",
            "2015-05-17 00:00:00",
            "2015-05-17T02:00:00+02:00",
            "17/May/2015:00:00:00 +0000",
            "17/May/2015:00:00:00",
            "[17/May/2015:02:00:00.0 +02:00]",
            "1431820800",
        ] {
            assert_eq!(parse_moment(text), expected, "{text}");
        }
        for text in [
            "",
            "yesterday",
            "17/May/2015",
            "2015-13-01",
            "2015-05-17T25:00",
            "-1",
        ] {
            let why = parse_moment(text).unwrap_err();
            assert!(why.contains("; write 2026-01-31, "), "{why}");
        }
        let why = parse_moment(" 2016 ").unwrap_err();
        assert!(
            why.contains("Write 2016-01-01, or 2016.0 for seconds"),
            "{why}"
        );
        assert_eq!(
            parse_moment("2016.0"),
            Ok(Moment::from_nanos(2_016_000_000_000))
        );
        assert!(
            parse_moment("2015-13-01")
                .unwrap_err()
                .starts_with("there is no such day")
        );
    }
}
