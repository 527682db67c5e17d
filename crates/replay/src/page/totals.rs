//! The counts at the top of a page.

use std::fmt;

use super::escape::{Number, Percent};

/// Writes counts, each with its identifier and its name; those in `shares` also as a share of `of`.
pub(super) fn write_totals(
    totals: &[(&str, &str, u64)],
    of: u64,
    shares: &[&str],
    f: &mut fmt::Formatter<'_>,
) -> fmt::Result {
    f.write_str("<dl class=\"totals\">\n")?;
    for (id, name, count) in totals {
        write!(
            f,
            "<div><dt>{name}</dt><dd id=\"{id}\" data-count=\"{count}\">{}",
            Number(*count)
        )?;
        if shares.contains(id) {
            let share = Percent { part: *count, of };
            write!(f, " <small>{share}</small>")?;
        }
        f.write_str("</dd></div>\n")?;
    }
    f.write_str("</dl>\n")
}
