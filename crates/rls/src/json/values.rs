//! Values of JSON members, as proto3 reads them. `null` is "not set" in every one of them.

use std::fmt;
use std::marker::PhantomData;

use bytes::Bytes;
use serde::de::{
    Deserialize, DeserializeSeed, Deserializer, Error, IgnoredAny, MapAccess, SeqAccess, Visitor,
};

use crate::RateLimitUnit;
use crate::json::members::{Members, Object};

/// Every number of a request, and what it may be.
pub(super) const NUMBERS: &str =
    "hitsAddend and requestsPerUnit are whole numbers from 0 to 4294967295";

const UNITS: &[&str] = &[
    "UNKNOWN", "SECOND", "MINUTE", "HOUR", "DAY", "MONTH", "YEAR",
];

/// The next value of a map, by its type.
pub(super) mod value {
    use std::marker::PhantomData;

    use bytes::Bytes;
    use serde::de::MapAccess;

    use super::{ByteString, Each, Unit, Whole};
    use crate::json::members::{Members, Object};

    /// A string, of whichever bytes.
    pub(in crate::json) fn bytes<'de, A: MapAccess<'de>>(map: &mut A) -> Result<Bytes, A::Error> {
        let value: Option<ByteString> = map.next_value()?;
        Ok(value.map(|ByteString(bytes)| bytes).unwrap_or_default())
    }

    /// A whole number, if it is set.
    pub(in crate::json) fn whole<'de, T: TryFrom<u64>, A: MapAccess<'de>>(
        map: &mut A,
    ) -> Result<Option<T>, A::Error> {
        let value: Option<Whole<T>> = map.next_value()?;
        Ok(value.map(|Whole(number)| number))
    }

    /// `true` or `false`.
    pub(in crate::json) fn flag<'de, A: MapAccess<'de>>(map: &mut A) -> Result<bool, A::Error> {
        let value: Option<bool> = map.next_value()?;
        Ok(value.unwrap_or_default())
    }

    /// A unit's number.
    pub(in crate::json) fn unit<'de, A: MapAccess<'de>>(map: &mut A) -> Result<i32, A::Error> {
        let value: Option<Unit> = map.next_value()?;
        Ok(value.map(|Unit(unit)| unit).unwrap_or_default())
    }

    /// A message, if it is set.
    pub(in crate::json) fn object<'de, T: Members, A: MapAccess<'de>>(
        map: &mut A,
    ) -> Result<Option<T>, A::Error> {
        let value: Option<Object<T>> = map.next_value()?;
        Ok(value.map(|Object(message)| message))
    }

    /// Messages, each of which `take` is given as soon as it is read.
    pub(in crate::json) fn each<'de, T: Members, A: MapAccess<'de>>(
        map: &mut A,
        take: impl FnMut(T),
    ) -> Result<(), A::Error> {
        let message = PhantomData;
        map.next_value_seed(Each { take, message })
    }
}

/// A string's bytes.
struct ByteString(Bytes);

/// A whole number: `1`, `1.0` or `"1"`.
struct Whole<T>(T);

/// A list of messages, given one by one.
pub(super) struct Each<T, F> {
    take: F,
    message: PhantomData<T>,
}

/// The number of a [`RateLimitUnit`].
struct Unit(i32);

struct ReadBytes;
struct ReadWhole<T>(PhantomData<T>);
struct ReadUnit;

impl<'de> Deserialize<'de> for ByteString {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<ByteString, D::Error> {
        // serde_json checks that a string is UTF-8 only if it is asked for text.
        deserializer.deserialize_bytes(ReadBytes)
    }
}

impl Visitor<'_> for ReadBytes {
    type Value = ByteString;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a string")
    }

    fn visit_bytes<E: Error>(self, bytes: &[u8]) -> Result<ByteString, E> {
        Ok(ByteString(Bytes::copy_from_slice(bytes)))
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<ByteString, E> {
        Ok(ByteString(Bytes::copy_from_slice(text.as_bytes())))
    }
}

impl<'de, T: TryFrom<u64>> Deserialize<'de> for Whole<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Whole<T>, D::Error> {
        deserializer.deserialize_any(ReadWhole(PhantomData))
    }
}

impl<'de, T: TryFrom<u64>> Visitor<'de> for ReadWhole<T> {
    type Value = Whole<T>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a whole number")
    }

    fn visit_u64<E: Error>(self, number: u64) -> Result<Whole<T>, E> {
        T::try_from(number)
            .map(Whole)
            .map_err(|_| E::custom(NUMBERS))
    }

    fn visit_i64<E: Error>(self, number: i64) -> Result<Whole<T>, E> {
        let number = u64::try_from(number).map_err(|_| E::custom(NUMBERS))?;
        self.visit_u64(number)
    }

    fn visit_f64<E: Error>(self, number: f64) -> Result<Whole<T>, E> {
        let number = whole(number).ok_or_else(|| E::custom(NUMBERS))?;
        self.visit_u64(number)
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Whole<T>, E> {
        let number = text.parse().ok();
        // As JSON writes numbers: no sign before it, no `inf`.
        let is_number = text.starts_with(|first: char| first.is_ascii_digit());
        let real = || text.parse().ok().filter(|_| is_number).and_then(whole);
        let number = number.filter(|_| is_number).or_else(real);
        self.visit_u64(number.ok_or_else(|| E::custom(NUMBERS))?)
    }

    fn visit_bool<E: Error>(self, _: bool) -> Result<Whole<T>, E> {
        Err(E::custom(NUMBERS))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, _: A) -> Result<Whole<T>, A::Error> {
        Err(A::Error::custom(NUMBERS))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Whole<T>, A::Error> {
        while map.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
        Err(A::Error::custom(NUMBERS))
    }
}

/// The number, if it is whole and in range; by way of its digits, which are exact.
fn whole(number: f64) -> Option<u64> {
    match number.fract() == 0.0 {
        // `-0.0` is zero, and written with its sign.
        true if number == 0.0 => Some(0),
        true => format!("{number:.0}").parse().ok(),
        false => None,
    }
}

impl<'de, T: Members, F: FnMut(T)> DeserializeSeed<'de> for Each<T, F> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_option(self)
    }
}

impl<'de, T: Members, F: FnMut(T)> Visitor<'de> for Each<T, F> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a sequence")
    }

    fn visit_none<E: Error>(self) -> Result<(), E> {
        Ok(())
    }

    fn visit_unit<E: Error>(self) -> Result<(), E> {
        Ok(())
    }

    fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_seq(self)
    }

    fn visit_seq<A: SeqAccess<'de>>(mut self, mut list: A) -> Result<(), A::Error> {
        while let Some(Object(message)) = list.next_element()? {
            (self.take)(message);
        }
        Ok(())
    }
}

impl<'de> Deserialize<'de> for Unit {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Unit, D::Error> {
        deserializer.deserialize_any(ReadUnit)
    }
}

impl Visitor<'_> for ReadUnit {
    type Value = Unit;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "one of {} or its number", UNITS.join(", "))
    }

    fn visit_str<E: Error>(self, name: &str) -> Result<Unit, E> {
        RateLimitUnit::from_str_name(name)
            .map(|unit| Unit(unit.into()))
            .ok_or_else(|| E::unknown_variant(name, UNITS))
    }

    fn visit_u64<E: Error>(self, number: u64) -> Result<Unit, E> {
        let unit = i32::try_from(number).ok().map(RateLimitUnit::try_from);
        match unit {
            Some(Ok(unit)) => Ok(Unit(unit.into())),
            _ => Err(E::custom(format!("no unit has the number {number}"))),
        }
    }

    fn visit_i64<E: Error>(self, number: i64) -> Result<Unit, E> {
        Err(E::custom(format!("no unit has the number {number}")))
    }

    fn visit_f64<E: Error>(self, number: f64) -> Result<Unit, E> {
        match whole(number) {
            Some(number) => self.visit_u64(number),
            None => Err(E::custom(format!("no unit has the number {number}"))),
        }
    }
}
