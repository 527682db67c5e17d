//! Rows of tables with a key each.

use std::fmt;

use super::chart::Bar;
use super::escape::{Number, Text};
use crate::report::DeniedKey;

/// Writes a row for each key: its descriptor, its rule, and its requests with a bar of this colour.
pub(super) fn write_key_rows<'k>(
    keys: impl Iterator<Item = &'k DeniedKey> + Clone,
    colour: &'static str,
    f: &mut fmt::Formatter<'_>,
) -> fmt::Result {
    let most = keys.clone().map(|key| key.denied).max().unwrap_or(0);
    for key in keys {
        f.write_str("<tr><td>")?;
        write_descriptor(&key.descriptor, f)?;
        let value = key.denied;
        let bar = Bar {
            value,
            most,
            colour,
        };
        writeln!(
            f,
            "</td><td>{}/{}</td><td class=\"number\">{}</td><td class=\"bar\">{bar}</td></tr>",
            Text(&key.rule.domain),
            Text(key.rule.shown()),
            Number(value)
        )?;
    }
    Ok(())
}

/// Writes the keys and values of a descriptor.
pub(super) fn write_descriptor(
    entries: &[(String, String)],
    f: &mut fmt::Formatter<'_>,
) -> fmt::Result {
    for (index, (key, value)) in entries.iter().enumerate() {
        f.write_str(if index == 0 { "" } else { ", " })?;
        write!(f, "{}={}", Text(key), Text(value))?;
    }
    Ok(())
}
