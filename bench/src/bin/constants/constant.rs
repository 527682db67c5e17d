//! The measured constants, as the planner reads them.

use serde_json::{Map, Value, json};

/// The version of the format.
const VERSION: u32 = 1;

/// The unit of a constant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unit {
    /// Nanoseconds of processor time.
    Nanos,
    Bytes,
}

/// Constants by name.
#[derive(Debug, Default)]
pub(crate) struct Constants(Map<String, Value>);

// === impl Constants ===

impl Constants {
    /// Adds a constant, rounded up to a whole number.
    ///
    /// # Panics
    ///
    /// If it is there already, or is not a number: a constant that was not measured is not written.
    pub(crate) fn put(&mut self, name: &str, value: f64, unit: Unit, what: &str) {
        assert!(value.is_finite() && value >= 0.0, "{name}: {value}");
        let unit = match unit {
            Unit::Nanos => "ns",
            Unit::Bytes => "bytes",
        };
        let value = value.ceil() as u64;
        eprintln!("{name}: {value} {unit}");
        let constant = json!({"value": value, "unit": unit, "what": what});
        let former = self.0.insert(name.to_owned(), constant);
        assert!(former.is_none(), "{name} is measured twice");
    }

    /// The value of a constant that was put.
    pub(crate) fn value(&self, name: &str) -> f64 {
        let value = self
            .0
            .get(name)
            .and_then(|constant| constant["value"].as_f64());
        value.unwrap_or_else(|| panic!("{name} was not measured"))
    }

    /// The file.
    pub(crate) fn json(&self, origin: &Value) -> String {
        let file = json!({"version": VERSION, "measured": origin, "constants": self.0});
        format!("{file:#}\n")
    }
}
