//! The results for people.

use std::fmt::{self, Write as _};

use crate::record::{Measured, Record};

/// Whom the others are compared with, where they take part.
const COMPARED: [&str; 4] = ["token_bucket", "governor", "quota", "floor"];

/// What one process measured, as a table.
pub(crate) struct Table<'m>(pub(crate) &'m [Measured]);

// === impl Table ===

impl fmt::Display for Table<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some(first) = self.0.first() else {
            return Ok(());
        };
        writeln!(f, "\n{}", first.record.scenario)?;
        write!(f, "  {:<15}{:>10}", "", "M/s")?;
        for peer in self.references() {
            write!(f, "{:>16}", format!("x {peer}"))?;
        }
        writeln!(
            f,
            "{:>8}{:>8}{:>9}{:>8}{:>10}",
            "p50 ns", "p99", "p99.99", "instr", "B/key"
        )?;
        self.0
            .iter()
            .try_for_each(|measured| self.line(f, measured))
    }
}

impl Table<'_> {
    fn find(&self, contender: &str) -> Option<&Record> {
        let mut records = self.0.iter().map(|one| &one.record);
        records.find(|record| record.contender == contender)
    }

    fn references(&self) -> impl Iterator<Item = &'static str> {
        let is_here = |peer: &&str| {
            self.find(peer)
                .is_some_and(|record| record.ops_per_second.is_some())
        };
        COMPARED.into_iter().filter(is_here)
    }

    /// Writes the row of one contender.
    fn line(&self, f: &mut fmt::Formatter<'_>, measured: &Measured) -> fmt::Result {
        let record = &measured.record;
        write!(f, "  {:<15}", record.contender)?;
        write!(
            f,
            "{:>10}",
            cell(record.ops_per_second.map(|speed| speed / 1e6), 2)
        )?;
        for peer in self.references() {
            let other = self.find(peer).and_then(|other| other.ops_per_second);
            let ratio = record
                .ops_per_second
                .zip(other)
                .map(|(speed, other)| speed / other);
            write!(f, "{:>16}", cell(ratio, 2))?;
        }
        let nanos = |nanos: Option<u64>| nanos.map_or("-".to_owned(), |nanos| nanos.to_string());
        let (half, most, nearly_all) = (record.p50_ns, record.p99_ns, record.p9999_ns);
        write!(
            f,
            "{:>8}{:>8}{:>9}",
            nanos(half),
            nanos(most),
            nanos(nearly_all)
        )?;
        write!(f, "{:>8}", cell(record.instructions, 0))?;
        write!(f, "{:>10}", cell(record.bytes_per_key, 1))?;
        writeln!(f, "{}", aside(measured))
    }
}

fn cell(number: Option<f64>, digits: usize) -> String {
    number.map_or("-".to_owned(), |number| format!("{number:.digits$}"))
}

/// What has no column of its own.
fn aside(measured: &Measured) -> String {
    let mut aside = String::new();
    let mut add = |text: String| {
        if !text.is_empty() {
            // Writing to a string does not fail.
            let _written = write!(aside, "  {text}");
        }
    };
    add(measured.note.clone());
    if let Some(lost) = measured.lost_keys {
        add(format!("{lost} live keys lost"));
    }
    if let Some(excess) = measured.excess {
        add(format!("{:.4} % beyond the limit", excess * 100.0));
    }
    if let Some(growth) = measured.growth {
        add(format!("memory x {growth:.3} since full"));
    }
    aside
}
