//! Text in a page: values come from logs, so clients choose them.

use std::fmt;

use crate::plain::Plain;

/// Untrusted text for a page, in an element or in a quoted attribute: shortened, without control
/// characters, and with everything escaped that has a meaning in HTML.
pub(super) struct Text<'a>(pub(super) &'a str);

/// A count with a thin space between thousands.
pub(super) struct Number(pub(super) u64);

/// A share in percent, with two decimals, rounded down.
pub(super) struct Percent {
    pub(super) part: u64,
    pub(super) of: u64,
}

// === impl Text ===

impl fmt::Display for Text<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for sign in Plain(self.0).to_string().chars() {
            match sign {
                '&' => f.write_str("&amp;")?,
                '<' => f.write_str("&lt;")?,
                '>' => f.write_str("&gt;")?,
                '"' => f.write_str("&quot;")?,
                '\'' => f.write_str("&#39;")?,
                sign => write!(f, "{sign}")?,
            }
        }
        Ok(())
    }
}

// === impl Number ===

impl fmt::Display for Number {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let digits = self.0.to_string();
        for (index, digit) in digits.chars().enumerate() {
            if index > 0 && (digits.len() - index).is_multiple_of(3) {
                f.write_str("\u{202f}")?;
            }
            write!(f, "{digit}")?;
        }
        Ok(())
    }
}

// === impl Percent ===

impl fmt::Display for Percent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let parts = (u128::from(self.part) * 10_000).checked_div(u128::from(self.of));
        let parts = parts.unwrap_or(0);
        write!(f, "{}.{:02}\u{202f}%", parts / 100, parts % 100)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_that_a_client_sends_has_a_meaning_in_html() {
        let hostile = "</td><script>alert('1')</script> \" onload=\"x&lt;\u{1b}[2J\u{202e}";
        let shown = Text(hostile).to_string();
        for sign in ['<', '>', '"', '\'', '\u{1b}'] {
            assert!(!shown.contains(sign), "{shown}");
        }
        assert!(shown.starts_with("&lt;/td&gt;&lt;script&gt;"), "{shown}");
        assert!(shown.contains("x&amp;lt;"), "{shown}");
    }

    #[test]
    fn counts_are_grouped_and_shares_rounded_down() {
        let grouped = [0, 999, 1000, 1_234_567].map(|count| Number(count).to_string());
        assert_eq!(
            grouped,
            ["0", "999", "1\u{202f}000", "1\u{202f}234\u{202f}567"]
        );
        let share = |part, of| Percent { part, of }.to_string();
        assert_eq!(
            [share(1, 3), share(0, 0), share(2, 2)],
            ["33.33\u{202f}%", "0.00\u{202f}%", "100.00\u{202f}%"]
        );
    }
}
