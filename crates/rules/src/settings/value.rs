//! Settings whose types another crate describes with serde.
//!
//! What `serde` finds wrong is reported where it is in the file, in the words of all other
//! settings. A type stops at its first error. So the value is then read again without the part that
//! was wrong, until all errors are found.

use std::cell::RefCell;
use std::collections::HashSet;
use std::sync::Arc;

use serde::de::value::{MapAccessDeserializer, MapDeserializer, SeqDeserializer, StrDeserializer};
use serde::de::{DeserializeOwned, Deserializer, Expected, IntoDeserializer, Visitor};
use serde::forward_to_deserialize_any;

use super::meant::help_for_text;
use super::reports::{help_for_map, report_empty_entry, report_empty_item, suggest};
use crate::findings::Findings;
use crate::quote::quote;
use crate::scalar;
use crate::yaml::{Body, Looks, Node, Pair, Scalar};

mod wrong;

use wrong::Wrong;

/// The most errors of one value that are found: it is read once for each.
const ERRORS_MAX: usize = 100;

/// Reads a value, and reports all that is wrong with it.
pub(super) fn read<T: DeserializeOwned>(
    key: &str,
    node: &Node,
    places: &[(&str, &str)],
    findings: &RefCell<Findings>,
) -> Option<T> {
    let skipped = RefCell::default();
    let value = Value {
        key,
        node,
        places,
        findings,
        skipped: &skipped,
    };
    value.skip_empty();
    let is_whole = skipped.borrow().is_empty();
    for error in 0..ERRORS_MAX {
        let before = skipped.borrow().len();
        match T::deserialize(value).map_err(|wrong| value.report(&wrong)) {
            Ok(read) if error == 0 && is_whole => return Some(read),
            // What is left of it is right, but it is not what was written.
            Ok(_) => return None,
            Err(_) if value.is_skipped() || skipped.borrow().len() == before => return None,
            Err(_) => {}
        }
    }
    None
}

/// A node, and the key that it belongs to.
#[derive(Clone, Copy)]
struct Value<'n> {
    key: &'n str,
    node: &'n Node,
    /// Keys that belong to another place, and that place.
    places: &'n [(&'n str, &'n str)],
    findings: &'n RefCell<Findings>,
    /// Nodes that were wrong, which are read as if they were not there.
    skipped: &'n RefCell<HashSet<*const Node>>,
}

/// Whether the key or the value of an entry was skipped.
fn is_skipped((key, value): &(Value<'_>, Value<'_>)) -> bool {
    key.is_skipped() || value.is_skipped()
}

// === impl Value ===

impl<'n> Value<'n> {
    /// Reports an error at this node, unless it was reported below it, or follows from the absence
    /// of what was skipped.
    fn report(self, wrong: &Wrong) -> Wrong {
        let follows = match wrong {
            Wrong::Reported => return Wrong::Reported,
            Wrong::MissingKey(key) => self.lacks(Some(key)),
            Wrong::UnknownKey { .. } | Wrong::UnknownChoice { .. } => false,
            Wrong::BareChoice | Wrong::Text { .. } | Wrong::Other(_) => self.lacks(None),
        };
        let skipped = self.skip();
        if follows {
            return skipped;
        }
        let text = self.node.scalar().map_or("", |scalar| &scalar.text);
        let (message, help) = match wrong {
            Wrong::Reported => return skipped,
            Wrong::UnknownKey { key, known } => {
                let mut places = self.places.iter();
                let help = match places.find(|(name, _)| name == key) {
                    Some((_, place)) => format!("`{key}` belongs below `{place}`"),
                    None => suggest(key, known),
                };
                (format!("unknown key {}", quote(key)), help)
            }
            Wrong::UnknownChoice { choice, known } => {
                let message = format!("{} is not a valid `{}`", quote(choice), self.key);
                (message, suggest(choice, known))
            }
            Wrong::MissingKey(key) => (
                format!("`{key}` is missing below `{}`", self.key),
                format!("write `{key}: ...`"),
            ),
            Wrong::BareChoice => (
                format!("{} needs a value", quote(text)),
                format!("write `{}: {{ {text}: VALUE }}`", self.key),
            ),
            Wrong::Text { message, expected } => {
                (message.clone(), help_for_text(self.key, text, expected))
            }
            Wrong::Other(message) => (message.clone(), String::new()),
        };
        let code = match wrong {
            Wrong::UnknownKey { .. } => "unknown-key",
            _ => "setting",
        };
        let mut findings = self.findings.borrow_mut();
        findings.error(self.node.mark, code, message, help);
        skipped
    }

    /// Reports and leaves out each key and item below this node that has no value: for serde, it
    /// would not be there, and so would not do what it was written for.
    fn skip_empty(self) {
        let below: Vec<(Option<Value<'_>>, Value<'_>)> = match &self.node.body {
            Body::Map(entries) => self.pairs(entries).map(|(k, v)| (Some(k), v)).collect(),
            Body::List(items) => self.items(items).map(|item| (None, item)).collect(),
            Body::Scalar(_) => return,
        };
        for (key, value) in below {
            if !value.node.is_null() {
                value.skip_empty();
                continue;
            }
            value.skip();
            let mut findings = self.findings.borrow_mut();
            match key {
                Some(key) => report_empty_entry(key.node.mark, value.key, &mut findings),
                None => report_empty_item(value.node.mark, self.key, &mut findings),
            }
        }
    }

    /// Leaves this node out when the value is read again: something is wrong with it, and reported.
    fn skip(self) -> Wrong {
        self.skipped.borrow_mut().insert(self.node);
        Wrong::Reported
    }

    fn is_skipped(self) -> bool {
        self.skipped
            .borrow()
            .contains(&std::ptr::from_ref(self.node))
    }

    /// Whether an entry of this map or list was skipped: the one of `key`, or any.
    fn lacks(self, key: Option<&str>) -> bool {
        match &self.node.body {
            Body::Map(entries) => {
                let mut lacking = self.pairs(entries).filter(is_skipped);
                lacking.any(|(_, value)| key.is_none_or(|key| key == value.key))
            }
            Body::List(items) => self.items(items).any(Value::is_skipped),
            Body::Scalar(_) => false,
        }
    }

    /// Reports that this node should be something else.
    fn expect<T>(self, expected: &str, help: String) -> Result<T, Wrong> {
        let message = format!(
            "`{}` is {expected}, and this is {}",
            self.key,
            self.node.kind()
        );
        let mut findings = self.findings.borrow_mut();
        findings.error(self.node.mark, "type", message, help);
        Err(self.skip())
    }

    /// A node that is neither a map nor a list; reports these.
    fn scalar(self) -> Result<&'n Scalar, Wrong> {
        let mut findings = self.findings.borrow_mut();
        let scalar = scalar::scalar(self.node, self.key, &mut findings);
        scalar.ok_or_else(|| self.skip())
    }

    /// Its text; reports anything else.
    fn text(self) -> Result<String, Wrong> {
        let mut findings = self.findings.borrow_mut();
        let text = scalar::text(self.node, self.key, &mut findings);
        text.map(|text| text.value).ok_or_else(|| self.skip())
    }

    /// Its number up to `max`; reports anything else.
    fn count(self, max: u32) -> Result<u32, Wrong> {
        let mut findings = self.findings.borrow_mut();
        let count = scalar::count(self.node, self.key, (0, max), &mut findings);
        count.ok_or_else(|| self.skip())
    }

    /// The entries of a map; a missing one has none.
    fn entries(self, keys: &[&'static str]) -> Result<&'n [Pair], Wrong> {
        match &self.node.body {
            Body::Map(entries) => Ok(entries),
            _ if self.node.is_null() => Ok(&[]),
            _ => self.expect("a map", help_for_map(self.key, keys)),
        }
    }

    /// The items of a list.
    fn items(self, items: &'n [Arc<Node>]) -> impl Iterator<Item = Value<'n>> {
        items.iter().map(move |node| Value { node, ..self })
    }

    /// The keys and values of a map.
    fn pairs(self, entries: &'n [Pair]) -> impl Iterator<Item = (Value<'n>, Value<'n>)> {
        entries.iter().map(move |(key, node)| {
            let name = key.scalar().map_or(self.key, |scalar| &scalar.text);
            (
                Value { node: key, ..self },
                Value {
                    key: name,
                    node,
                    ..self
                },
            )
        })
    }

    fn visit_map<'de, V: Visitor<'de>>(
        self,
        keys: &[&'static str],
        visitor: V,
    ) -> Result<V::Value, Wrong> {
        let pairs = self.pairs(self.entries(keys)?);
        visitor.visit_map(MapDeserializer::new(pairs.filter(|pair| !is_skipped(pair))))
    }

    fn visit_seq<'de, V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Wrong> {
        let Body::List(items) = &self.node.body else {
            return self.expect("a list", format!("write `{}: [...]`", self.key));
        };
        let items = self.items(items).filter(|item| !item.is_skipped());
        visitor.visit_seq(SeqDeserializer::new(items))
    }

    fn visit_enum<'de, V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Wrong> {
        match &self.node.body {
            Body::Map(entries) if entries.len() == 1 => {
                let pairs = self.pairs(entries);
                let pairs = MapDeserializer::new(pairs.filter(|pair| !is_skipped(pair)));
                visitor.visit_enum(MapAccessDeserializer::new(pairs))
            }
            Body::Scalar(_) => {
                let text = self.text()?;
                visitor.visit_enum(StrDeserializer::<Wrong>::new(&text))
            }
            _ => self.expect("one choice", format!("write `{}: {{ ... }}`", self.key)),
        }
    }

    /// What is expected to be nothing: the value of a choice that has none.
    fn visit_unit<'de, V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Wrong> {
        if self.node.is_null() {
            return visitor.visit_unit();
        }
        let key = self.key;
        self.expect("a choice without a value", format!("write `{key}` alone"))
    }
}

impl<'de> Deserializer<'de> for Value<'_> {
    type Error = Wrong;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Wrong> {
        let looks = self.node.scalar().map(Scalar::looks);
        match (&self.node.body, looks) {
            (Body::Map(_), _) => self.deserialize_map(visitor),
            (Body::List(_), _) => self.deserialize_seq(visitor),
            (_, Some(Looks::Flag(_))) => self.deserialize_bool(visitor),
            (_, Some(Looks::Int)) => self.deserialize_u32(visitor),
            (_, Some(Looks::Null)) => self.deserialize_unit(visitor),
            _ => self.deserialize_str(visitor),
        }
    }

    fn deserialize_bool<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Wrong> {
        let flag = scalar::flag(self.node, self.key, &mut self.findings.borrow_mut());
        let read = visitor.visit_bool(flag.ok_or_else(|| self.skip())?);
        read.map_err(|wrong: Wrong| self.report(&wrong))
    }

    fn deserialize_u8<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Wrong> {
        let read = visitor.visit_u32(self.count(u8::MAX.into())?);
        read.map_err(|wrong: Wrong| self.report(&wrong))
    }

    fn deserialize_u16<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Wrong> {
        let read = visitor.visit_u32(self.count(u16::MAX.into())?);
        read.map_err(|wrong: Wrong| self.report(&wrong))
    }

    fn deserialize_u32<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Wrong> {
        let read = visitor.visit_u32(self.count(u32::MAX)?);
        read.map_err(|wrong: Wrong| self.report(&wrong))
    }

    fn deserialize_u64<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Wrong> {
        self.deserialize_u32(visitor)
    }

    fn deserialize_str<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Wrong> {
        let expected: &dyn Expected = &visitor;
        let expected = expected.to_string();
        match visitor.visit_string(self.scalar()?.text.clone()) {
            // A number with a point is not text, unless it is something else than a text.
            Ok(read) => self.text().map(|_| read),
            Err(wrong) => Err(self.report(&Wrong::of_text(wrong, expected))),
        }
    }

    fn deserialize_string<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Wrong> {
        self.deserialize_str(visitor)
    }

    fn deserialize_identifier<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Wrong> {
        self.deserialize_str(visitor)
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Wrong> {
        match self.node.is_null() {
            true => visitor.visit_none(),
            false => visitor.visit_some(self),
        }
    }

    fn deserialize_unit<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Wrong> {
        self.visit_unit(visitor)
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        _name: &'static str,
        visitor: V,
    ) -> Result<V::Value, Wrong> {
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_seq<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Wrong> {
        let read = self.visit_seq(visitor);
        read.map_err(|wrong| self.report(&wrong))
    }

    fn deserialize_map<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Wrong> {
        let read = self.visit_map(&[], visitor);
        read.map_err(|wrong| self.report(&wrong))
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _name: &'static str,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Wrong> {
        let read = self.visit_map(fields, visitor);
        read.map_err(|wrong| self.report(&wrong))
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _name: &'static str,
        _variants: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Wrong> {
        let read = self.visit_enum(visitor);
        read.map_err(|wrong| self.report(&wrong))
    }

    forward_to_deserialize_any! {
        i8 i16 i32 i64 i128 u128 f32 f64 char bytes byte_buf unit_struct tuple tuple_struct
        ignored_any
    }
}

impl IntoDeserializer<'_, Wrong> for Value<'_> {
    type Deserializer = Self;

    fn into_deserializer(self) -> Self {
        self
    }
}
