//! Whole numbers in JSON, whose errors speak of numbers and not of the types of a language.

use std::fmt;
use std::marker::PhantomData;

use serde::de::{Deserializer, Error, Unexpected, Visitor};
use tollgate_core::COST_MAX;

struct ReadWhole<T>(PhantomData<T>);

/// Reads a number of units that fits a `T`.
///
/// # Errors
///
/// What was expected, for everything else.
pub(crate) fn read_units<'de, T, D>(from: D) -> Result<T, D::Error>
where
    T: TryFrom<i64> + TryFrom<u64>,
    D: Deserializer<'de>,
{
    from.deserialize_any(ReadWhole(PhantomData))
}

impl<T: TryFrom<i64> + TryFrom<u64>> Visitor<'_> for ReadWhole<T> {
    type Value = T;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a whole number without quotes, at most {COST_MAX}")
    }

    fn visit_i64<E: Error>(self, number: i64) -> Result<T, E> {
        let fit = T::try_from(number);
        fit.map_err(|_| E::invalid_value(Unexpected::Signed(number), &self))
    }

    fn visit_u64<E: Error>(self, number: u64) -> Result<T, E> {
        let fit = T::try_from(number);
        fit.map_err(|_| E::invalid_value(Unexpected::Unsigned(number), &self))
    }
}
