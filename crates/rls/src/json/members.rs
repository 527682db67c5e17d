//! JSON objects, read member by member.

use std::fmt;
use std::marker::PhantomData;

use serde::de::{Deserialize, DeserializeSeed, Deserializer, Error, MapAccess, Visitor};

/// A message whose members are read by name.
pub(super) trait Members: Default {
    /// What it is called in errors.
    const MESSAGE: &'static str;
    /// The names of its members, in both spellings.
    const NAMES: &'static [&'static str];

    /// Reads the value of the member `name`, which is one of [`Members::NAMES`].
    fn read<'de, A: MapAccess<'de>>(&mut self, name: &str, map: &mut A) -> Result<(), A::Error>;
}

/// A message as a JSON object. Not as a list of its members' values, which serde's derive takes
/// too.
pub(super) struct Object<T>(pub(super) T);

/// Reads an [`Object`].
struct Read<T>(PhantomData<T>);

/// Reads a member's name, as one of these.
struct Name(&'static [&'static str]);

impl<'de, T: Members> Deserialize<'de> for Object<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Object<T>, D::Error> {
        deserializer.deserialize_map(Read(PhantomData))
    }
}

impl<'de, T: Members> Visitor<'de> for Read<T> {
    type Value = Object<T>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "an object ({})", T::MESSAGE)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Object<T>, A::Error> {
        let mut message = T::default();
        // At most one for each of `NAMES`.
        let mut seen: Vec<&'static str> = Vec::new();
        while let Some(name) = map.next_key_seed(Name(T::NAMES))? {
            if seen.iter().any(|seen| is_same(seen, name)) {
                return Err(A::Error::duplicate_field(name));
            }
            seen.push(name);
            message.read(name, &mut map)?;
        }
        Ok(Object(message))
    }
}

/// Whether two names are the same member, in whichever spelling.
fn is_same(one: &str, other: &str) -> bool {
    let letters = |name| str::chars(name).filter(|letter| *letter != '_');
    let lower = |letter: char| letter.to_ascii_lowercase();
    letters(one).map(lower).eq(letters(other).map(lower))
}

impl<'de> DeserializeSeed<'de> for Name {
    type Value = &'static str;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<&'static str, D::Error> {
        deserializer.deserialize_str(self)
    }
}

impl Visitor<'_> for Name {
    type Value = &'static str;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the name of a member")
    }

    fn visit_str<E: Error>(self, name: &str) -> Result<&'static str, E> {
        let known = self.0.iter().find(|known| **known == name);
        known.copied().ok_or_else(|| E::unknown_field(name, self.0))
    }
}
