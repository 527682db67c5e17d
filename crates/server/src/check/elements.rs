//! Lists whose errors name the element that they are in.

use std::fmt;
use std::marker::PhantomData;

use serde::de::{Deserialize, Deserializer, Error, SeqAccess, Visitor};

/// Reads the elements of a list into a collection.
struct ReadElements<T, C> {
    name: &'static str,
    expected: &'static str,
    most: usize,
    of: PhantomData<(T, C)>,
}

/// Reads a list of at most `most` elements. An error says in which of them it is, as an element of
/// `name`; one that has no list says that it `expected` one.
pub(super) fn read_elements<'de, D, T, C>(
    from: D,
    name: &'static str,
    expected: &'static str,
    most: usize,
) -> Result<C, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de>,
    C: Default + Extend<T>,
{
    from.deserialize_seq(ReadElements {
        name,
        expected,
        most,
        of: PhantomData,
    })
}

/// The text of an error in an element of a list, with the path to it: `checks[3]: ...`, or
/// `checks[3].descriptors[0]: ...` for one that begins with an element itself.
pub(super) fn in_element(name: &str, index: usize, error: impl fmt::Display) -> String {
    let error = error.to_string();
    let is_path = error.starts_with("descriptors[");
    format!("{name}[{index}]{}{error}", if is_path { "." } else { ": " })
}

impl<'de, T: Deserialize<'de>, C: Default + Extend<T>> Visitor<'de> for ReadElements<T, C> {
    type Value = C;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.expected)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<C, A::Error> {
        let (mut elements, mut count) = (C::default(), 0);
        loop {
            let next = list.next_element();
            let next =
                next.map_err(|error| A::Error::custom(in_element(self.name, count, error)))?;
            let Some(element) = next else {
                return Ok(elements);
            };
            if count >= self.most {
                let ReadElements { name, most, .. } = self;
                let text = format!("more than {most} {name}; send them in several requests");
                return Err(A::Error::custom(text));
            }
            elements.extend(Some(element));
            count += 1;
        }
    }
}
