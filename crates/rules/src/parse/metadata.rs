//! Free-form metadata.

use serde_json::{Map, Number, Value};

use crate::findings::Findings;
use crate::quote::quote;
use crate::yaml::{Body, Looks, Node, Pair, Scalar};

/// The map below `metadata`.
pub(super) fn metadata(node: &Node, findings: &mut Findings) -> Option<Map<String, Value>> {
    match &node.body {
        Body::Map(entries) => Some(map(entries, findings)),
        _ => {
            let message = format!(
                "error parsing metadata: `metadata` takes a map, and this is {}",
                node.kind()
            );
            let help = "write `metadata:` and keys of your own below it";
            findings.error(node.mark, "metadata", message, help);
            None
        }
    }
}

fn map(entries: &[Pair], findings: &mut Findings) -> Map<String, Value> {
    let mut map = Map::new();
    for (key, value) in entries {
        let key = key.scalar().map_or("", |scalar| &scalar.text);
        map.insert(key.to_owned(), free(value, findings));
    }
    map
}

fn free(node: &Node, findings: &mut Findings) -> Value {
    match &node.body {
        Body::Scalar(scalar) => plain(scalar).unwrap_or_else(|| {
            let message = format!(
                "error parsing metadata: {} is not a number that JSON can represent",
                quote(&scalar.text)
            );
            let help = "put it in quotes";
            findings.error(node.mark, "metadata", message, help);
            Value::Null
        }),
        Body::List(items) => items.iter().map(|item| free(item, findings)).collect(),
        Body::Map(entries) => Value::Object(map(entries, findings)),
    }
}

fn plain(scalar: &Scalar) -> Option<Value> {
    let text = scalar.text.as_str();
    match scalar.looks() {
        Looks::Text => Some(Value::String(text.to_owned())),
        Looks::Null => Some(Value::Null),
        Looks::Flag(flag) => Some(Value::Bool(flag)),
        Looks::Int => int(text).and_then(|number| match i64::try_from(number) {
            Ok(number) => Some(Value::from(number)),
            // As near as a protobuf number gets, which is a double.
            Err(_) => float(&number.to_string()),
        }),
        Looks::Float => float(text),
    }
}

/// As Envoy's service reads it: `1_000`, and in other bases `0x10`, `0o17`, `017` and `0b1`. `None`
/// if it has more than 128 bits.
fn int(text: &str) -> Option<i128> {
    let digits: String = text.chars().filter(|c| *c != '_').collect();
    let (sign, unsigned) = match digits.strip_prefix(['-', '+']) {
        Some(unsigned) => (&digits[..1], unsigned),
        None => ("", &*digits),
    };
    let bases = [("0x", 16), ("0o", 8), ("0b", 2), ("0", 8)];
    let based = bases.iter().find_map(|(prefix, radix)| {
        let digits = unsigned.strip_prefix(prefix)?;
        i128::from_str_radix(&format!("{sign}{digits}"), *radix).ok()
    });
    based.or_else(|| digits.parse().ok())
}

fn float(text: &str) -> Option<Value> {
    let number: f64 = text.parse().ok()?;
    Number::from_f64(number).map(Value::Number)
}
