//! A descriptor of `/v1/check`, in either of its forms. Duplicate members are kept, so that the
//! bounds of requests reject them: if one of the two were dropped, a limit on it would never count.

use std::borrow::Cow;
use std::fmt;
use std::marker::PhantomData;

use serde::Deserialize;
use serde::de::value::MapAccessDeserializer;
use serde::de::{DeserializeSeed, Deserializer, Error, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::Number;
use smallvec::SmallVec;
use tollgate_core::{Entry, PerDescriptor};

/// 2^50. Below this, the number that is read is the one that was written.
const WHOLE_MAX: f64 = 1_125_899_906_842_624.0;

/// A descriptor: `{"entries": [{"key": …, "value": …}]}`, whose order matters, or
/// `{"user": "ann", "path": "/x"}`, whose order does not.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Described<'a> {
    pub(super) pairs: Pairs<'a>,
    pub(super) is_unordered: bool,
}

/// Keys and values: parts of the body, but for texts with escapes, and numbers as text.
pub(super) type Pairs<'a> = SmallVec<[(Cow<'a, str>, Cow<'a, str>); PAIRS_INLINE]>;

/// The error for an entry where a descriptor is expected.
const ENTRY_ALONE: &str = "`key` and `value` are an entry, not a descriptor; write \
    {\"user\": \"ann\"}, or {\"entries\": [{\"key\": \"user\", \"value\": \"ann\"}]}";

/// The pairs of nearly every descriptor.
const PAIRS_INLINE: usize = 2;

/// The name of a member.
#[derive(Deserialize)]
struct Name<'a>(#[serde(borrow)] Cow<'a, str>);

/// An entry in the long form.
struct Pair<'a>(Cow<'a, str>, Cow<'a, str>);

/// The members of [`Pair`].
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct PairMembers<'a> {
    #[serde(borrow)]
    key: Cow<'a, str>,
    #[serde(borrow, default)]
    value: Cow<'a, str>,
}

/// The value of a member.
enum MemberValue<'a> {
    Text(Cow<'a, str>),
    Pairs(Vec<Pair<'a>>),
    /// Anything else: `null`, an object, or an unexpected list.
    Other,
}

/// Reads a [`MemberValue`], as pairs if it is a list and the member is `entries`.
struct ReadMember {
    is_entries: bool,
}

/// Reads a descriptor whose texts live as long as `'a`.
struct ReadDescribed<'a>(PhantomData<&'a str>);
struct ReadPair;

// === impl Described ===

impl Described<'_> {
    pub(super) fn entries(&self) -> PerDescriptor<Entry<'_>> {
        let entries = self.pairs.iter().map(|(key, value)| Entry {
            key: key.as_bytes(),
            value: value.as_bytes(),
        });
        entries.collect()
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for Described<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(ReadDescribed(PhantomData))
    }
}

impl<'de: 'a, 'a> Visitor<'de> for ReadDescribed<'a> {
    type Value = Described<'a>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a descriptor, such as {\"user\": \"ann\"}")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Described<'a>, A::Error> {
        let mut pairs = Pairs::new();
        let mut is_long = false;
        while let Some(Name(key)) = map.next_key()? {
            if is_long {
                let text = format!("`{key}` beside `entries`; write every pair into `entries`");
                return Err(A::Error::custom(text));
            }
            let is_entries = key == "entries" && pairs.is_empty();
            match map.next_value_seed(ReadMember { is_entries })? {
                MemberValue::Text(_) | MemberValue::Other if is_entries => {
                    let text =
                        "`entries` must be a list: [{\"key\": \"user\", \"value\": \"ann\"}]";
                    return Err(A::Error::custom(text));
                }
                MemberValue::Text(text) => pairs.push((key, text)),
                MemberValue::Pairs(list) => {
                    pairs = list
                        .into_iter()
                        .map(|Pair(key, value)| (key, value))
                        .collect();
                    is_long = true;
                }
                MemberValue::Other => {
                    let text =
                        format!("the value of `{key}` must be text, a number, true or false");
                    return Err(A::Error::custom(text));
                }
            }
        }
        if !is_long && is_entry(&pairs) {
            return Err(A::Error::custom(ENTRY_ALONE));
        }
        Ok(Described {
            pairs,
            is_unordered: !is_long,
        })
    }
}

/// Whether members are those of an entry in the long form. Read as a descriptor, they would have
/// the keys `key` and `value`, which match no rule, so that nothing would be limited.
fn is_entry(pairs: &Pairs<'_>) -> bool {
    let has = |name| pairs.iter().any(|(key, _)| key == name);
    pairs.len() == 2 && has("key") && has("value")
}

// === values ===

impl<'de> DeserializeSeed<'de> for ReadMember {
    type Value = MemberValue<'de>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for ReadMember {
    type Value = MemberValue<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("text")
    }

    fn visit_borrowed_str<E: Error>(self, text: &'de str) -> Result<MemberValue<'de>, E> {
        Ok(MemberValue::Text(text.into()))
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<MemberValue<'de>, E> {
        Ok(MemberValue::Text(text.to_owned().into()))
    }

    fn visit_bool<E: Error>(self, flag: bool) -> Result<MemberValue<'de>, E> {
        Ok(MemberValue::Text(flag.to_string().into()))
    }

    fn visit_u64<E: Error>(self, number: u64) -> Result<MemberValue<'de>, E> {
        Ok(MemberValue::Text(number.to_string().into()))
    }

    fn visit_i64<E: Error>(self, number: i64) -> Result<MemberValue<'de>, E> {
        Ok(MemberValue::Text(number.to_string().into()))
    }

    /// Whole numbers are written as such, so that `1.0` and `1` have one key.
    fn visit_f64<E: Error>(self, number: f64) -> Result<MemberValue<'de>, E> {
        let is_whole = number.fract() == 0.0;
        if is_whole && number.abs() >= WHOLE_MAX {
            // Several numbers were read as this one, and would share a key.
            return Err(E::custom(
                "a number is too large to differ from others; write it as text, in quotes",
            ));
        }
        if is_whole {
            let text = format!("{number:.0}");
            let text = if text == "-0" { "0".to_owned() } else { text };
            return Ok(MemberValue::Text(text.into()));
        }
        let number = Number::from_f64(number);
        let text = number.map(|number| MemberValue::Text(number.to_string().into()));
        Ok(text.unwrap_or(MemberValue::Other))
    }

    fn visit_unit<E: Error>(self) -> Result<MemberValue<'de>, E> {
        Ok(MemberValue::Other)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<MemberValue<'de>, A::Error> {
        if !self.is_entries {
            while list.next_element::<IgnoredAny>()?.is_some() {}
            return Ok(MemberValue::Other);
        }
        let mut pairs = Vec::new();
        while let Some(pair) = list.next_element()? {
            pairs.push(pair);
        }
        Ok(MemberValue::Pairs(pairs))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<MemberValue<'de>, A::Error> {
        while map.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
        Ok(MemberValue::Other)
    }
}

impl<'de> Deserialize<'de> for Pair<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(ReadPair)
    }
}

impl<'de> Visitor<'de> for ReadPair {
    type Value = Pair<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an entry is an object with `key` and `value`")
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Pair<'de>, A::Error> {
        let PairMembers { key, value } = PairMembers::deserialize(MapAccessDeserializer::new(map))?;
        Ok(Pair(key, value))
    }
}
