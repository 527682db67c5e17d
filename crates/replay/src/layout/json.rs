//! One JSON object a line: its members, also those of objects in it.

use std::borrow::Cow;
use std::fmt::{self, Write as _};

use serde::Deserialize;
use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, Visitor};
use serde_json::value::RawValue;
use tollgate_rls::InvalidJson;

use super::names::FieldNames;
use crate::record::{BadRecord, Record};

/// The members that have names, and the values of one line.
pub(super) struct Members<'f> {
    names: &'f FieldNames,
    /// All members that are looked for.
    root: Node<'f>,
    /// How many.
    count: usize,
    /// The line with bytes that are not text escaped, if it has any.
    escaped: String,
}

/// The members of an object that are looked for.
#[derive(Default)]
struct Node<'f>(Vec<(&'f str, Member<'f>)>);

/// A member: where its value goes, and which of its own members are looked for.
#[derive(Default)]
struct Member<'f> {
    places: Vec<usize>,
    inner: Node<'f>,
}

/// A string, borrowed if it has no escapes.
#[derive(Deserialize)]
struct Text<'a>(#[serde(borrow)] Cow<'a, str>);

type Values<'a> = Vec<Option<Cow<'a, [u8]>>>;

// === impl Members ===

impl<'f> Members<'f> {
    pub(super) fn of(names: &'f FieldNames) -> Members<'f> {
        let mut root = Node::default();
        let mut count = 0;
        for part in names.iter().flat_map(|(_, names)| names).flatten() {
            root.add(part, count);
            count += 1;
        }
        Members {
            names,
            root,
            count,
            escaped: String::new(),
        }
    }

    /// The values of the members of a line.
    pub(super) fn read<'a>(&'a mut self, line: &'a [u8]) -> Result<Record<'a>, BadRecord> {
        let text = match std::str::from_utf8(line) {
            Ok(text) => text,
            Err(_) => {
                escape(line, &mut self.escaped);
                &self.escaped
            }
        };
        let mut values: Values<'a> = vec![None; self.count];
        self.root.read(text, &mut values).map_err(bad)?;
        let mut record = Record::default();
        let mut place = 0;
        for (slot, names) in self.names.iter() {
            let mut found = None;
            for name in names {
                let parts = &mut values[place..place + name.len()];
                place += name.len();
                if found.is_none() {
                    found = join(parts);
                }
            }
            record.set(slot, found.unwrap_or_default());
        }
        Ok(record)
    }
}

/// The value that the parts make, if all of them are there.
fn join<'a>(parts: &mut [Option<Cow<'a, [u8]>>]) -> Option<Cow<'a, [u8]>> {
    if let [only] = parts {
        return only.take();
    }
    let parts: Option<Vec<_>> = parts.iter().map(Option::as_deref).collect();
    Some(Cow::Owned(parts?.join(&b" "[..])))
}

/// Writes bytes that are not UTF-8 as `\xff`, which in JSON is an escaped backslash.
fn escape(line: &[u8], escaped: &mut String) {
    escaped.clear();
    for chunk in line.utf8_chunks() {
        escaped.push_str(chunk.valid());
        for byte in chunk.invalid() {
            // Writing to memory cannot fail.
            let _written = write!(escaped, "\\\\x{byte:02x}");
        }
    }
}

fn bad(error: serde_json::Error) -> BadRecord {
    let invalid = InvalidJson::from(error);
    BadRecord::Layout(match invalid.column() {
        0 => invalid.reason().to_owned(),
        column => format!("{} at column {column}", invalid.reason()),
    })
}

// === impl Node ===

impl<'f> Node<'f> {
    /// Looks for `name`: as a member of that name, and if it has dots, of the objects before them.
    fn add(&mut self, name: &'f str, place: usize) {
        self.member(name).places.push(place);
        if let Some((first, rest)) = name.split_once('.')
            && !first.is_empty()
            && !rest.is_empty()
        {
            self.member(first).inner.add(rest, place);
        }
    }

    fn member(&mut self, name: &'f str) -> &mut Member<'f> {
        let at = self.0.iter().position(|(known, _)| *known == name);
        let at = at.unwrap_or_else(|| {
            self.0.push((name, Member::default()));
            self.0.len() - 1
        });
        &mut self.0[at].1
    }

    fn read<'a>(&self, text: &'a str, values: &mut Values<'a>) -> Result<(), serde_json::Error> {
        let mut deserializer = serde_json::Deserializer::from_str(text);
        let seed = Object { node: self, values };
        seed.deserialize(&mut deserializer)?;
        deserializer.end()
    }
}

/// An object whose members go to their places.
struct Object<'n, 'f, 'v, 'a> {
    node: &'n Node<'f>,
    values: &'v mut Values<'a>,
}

impl<'a> DeserializeSeed<'a> for Object<'_, '_, '_, 'a> {
    type Value = ();

    fn deserialize<D: Deserializer<'a>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'a> Visitor<'a> for Object<'_, '_, '_, 'a> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'a>>(self, mut map: A) -> Result<(), A::Error> {
        while let Some(Text(key)) = map.next_key()? {
            let member = self.node.0.iter().find(|(name, _)| *name == key);
            let Some((_, member)) = member else {
                map.next_value::<IgnoredAny>()?;
                continue;
            };
            let json = map.next_value::<&'a RawValue>()?.get();
            if json.starts_with('{') {
                let read = member.inner.read(json, self.values);
                read.map_err(serde::de::Error::custom)?;
            }
            for place in &member.places {
                self.values[*place] = value(json);
            }
        }
        Ok(())
    }
}

/// A string without its quotes and escapes, several in a list joined as a header's lines are, a
/// number as it is written; nothing of `null` and of an object.
fn value(json: &str) -> Option<Cow<'_, [u8]>> {
    match json.as_bytes().first()? {
        b'"' => match serde_json::from_str::<Text<'_>>(json).ok()?.0 {
            Cow::Borrowed(text) => Some(Cow::Borrowed(text.as_bytes())),
            Cow::Owned(text) => Some(Cow::Owned(text.into_bytes())),
        },
        b'[' => {
            let items: Vec<Text<'_>> = serde_json::from_str(json).ok()?;
            let items: Vec<&str> = items.iter().map(|Text(item)| &**item).collect();
            Some(Cow::Owned(items.join(", ").into_bytes()))
        }
        b'{' | b'n' => None,
        _ => Some(Cow::Borrowed(json.as_bytes())),
    }
}
