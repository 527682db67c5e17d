//! The figures of a plan, each with what it was computed from.

use std::fmt;

use serde_json::{Value, json};

/// A figure of the plan.
#[derive(Clone, Debug)]
pub(super) struct Figure {
    /// Its name in JSON.
    pub(super) name: &'static str,
    /// What it is, for people.
    pub(super) what: String,
    pub(super) amount: Amount,
    /// The constants that it was computed from, each once; none if it follows from the command line
    /// and from how Tollgate allocates.
    pub(super) from: Vec<&'static str>,
}

/// A number and its unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Amount {
    /// Sums of many keys and machines, which 64 bits may not hold.
    Bytes(u128),
    Nanos(u64),
    /// Thousandths of a processor.
    Millicores(u64),
    PerSecond(u64),
    Count(u64),
}

// === impl Figure ===

impl Figure {
    /// `from` may name a constant several times, for several limits.
    pub(super) fn new(
        name: &'static str,
        what: impl Into<String>,
        amount: Amount,
        from: &[&'static str],
    ) -> Figure {
        let mut distinct = Vec::new();
        for name in from {
            if !distinct.contains(name) {
                distinct.push(*name);
            }
        }
        Figure {
            name,
            what: what.into(),
            amount,
            from: distinct,
        }
    }

    pub(super) fn to_json(&self) -> Value {
        json!({
            "value": self.amount.value_in_json(),
            "unit": self.amount.unit(),
            "what": self.what,
            "from": self.from,
        })
    }
}

impl fmt::Display for Figure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:>14}  {}", self.amount.to_string(), self.what)?;
        match self.from.is_empty() {
            true => writeln!(f),
            false => writeln!(f, " [{}]", self.from.join(", ")),
        }
    }
}

// === impl Amount ===

impl Amount {
    /// Its number; one that 64 bits cannot hold becomes the largest that they can.
    pub(super) fn value_in_json(self) -> u64 {
        match self {
            Amount::Bytes(value) => u64::try_from(value).unwrap_or(u64::MAX),
            Amount::Nanos(value)
            | Amount::Millicores(value)
            | Amount::PerSecond(value)
            | Amount::Count(value) => value,
        }
    }

    const fn unit(self) -> &'static str {
        match self {
            Amount::Bytes(_) => "bytes",
            Amount::Nanos(_) => "ns",
            Amount::Millicores(_) => "millicores",
            Amount::PerSecond(_) => "per_second",
            Amount::Count(_) => "count",
        }
    }
}

impl fmt::Display for Amount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Amount::Bytes(bytes) => match bytes {
                0..1_000 => write!(f, "{bytes} B"),
                1_000..1_000_000 => write_tenths(f, bytes, 1_000, "kB"),
                1_000_000..1_000_000_000 => write_tenths(f, bytes, 1_000_000, "MB"),
                _ => write_tenths(f, bytes, 1_000_000_000, "GB"),
            },
            Amount::Nanos(nanos) if nanos < 1_000 => write!(f, "{nanos} ns"),
            Amount::Nanos(nanos) => write_tenths(f, nanos.into(), 1_000, "us"),
            Amount::Millicores(0) => write!(f, "0.0"),
            Amount::Millicores(value @ 1..100) => write!(f, "0.{value:03}"),
            Amount::Millicores(value) => write_tenths(f, value.into(), 1_000, ""),
            Amount::PerSecond(count) => write!(f, "{count}/s"),
            Amount::Count(count) => write!(f, "{count}"),
        }
    }
}

/// Writes a number with one digit after the point, rounded up: plans are no smaller than needed.
fn write_tenths(f: &mut fmt::Formatter<'_>, value: u128, unit: u128, name: &str) -> fmt::Result {
    let tenths = value.saturating_mul(10).div_ceil(unit);
    write!(f, "{}.{}", tenths / 10, tenths % 10)?;
    match name {
        "" => Ok(()),
        _ => write!(f, " {name}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amounts_are_rounded_up() {
        for (amount, text) in [
            (Amount::Bytes(999), "999 B"),
            (Amount::Bytes(23_600_001), "23.7 MB"),
            (Amount::Bytes(2_000_000_000), "2.0 GB"),
            (Amount::Nanos(60), "60 ns"),
            (Amount::Nanos(21_230), "21.3 us"),
            (Amount::Millicores(7), "0.007"),
            (Amount::Millicores(2_101), "2.2"),
            (Amount::PerSecond(10), "10/s"),
        ] {
            assert_eq!(amount.to_string(), text);
        }
    }
}
