//! The types of plain scalars: YAML gives them one by their looks.

/// What the looks of a plain scalar mean.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Looks {
    Text,
    Null,
    Flag(bool),
    Int,
    Float,
}

// === impl Looks ===

impl Looks {
    /// The type of a scalar that is written without quotes.
    pub(super) fn of(text: &str) -> Looks {
        match text {
            "" | "~" | "null" | "Null" | "NULL" => Looks::Null,
            "true" | "True" | "TRUE" => Looks::Flag(true),
            "false" | "False" | "FALSE" => Looks::Flag(false),
            text => number_looks(text),
        }
    }
}

/// Whether a plain scalar is a number, as YAML 1.2's core schema and Go's parser see it.
fn number_looks(text: &str) -> Looks {
    let unsigned = text.strip_prefix(['-', '+']).unwrap_or(text);
    let all = |digits: &str, radix: u32| {
        !digits.is_empty() && digits.chars().all(|c| c == '_' || c.is_digit(radix))
    };
    let radix = |prefix: &str, radix: u32| {
        unsigned
            .strip_prefix(prefix)
            .is_some_and(|digits| all(digits, radix))
    };
    if all(unsigned, 10) && !unsigned.starts_with('_') {
        return Looks::Int;
    }
    if radix("0x", 16) || radix("0o", 8) || radix("0b", 2) {
        return Looks::Int;
    }
    let special = matches!(unsigned, ".inf" | ".Inf" | ".INF");
    if special || matches!(text, ".nan" | ".NaN" | ".NAN") || is_float(unsigned) {
        return Looks::Float;
    }
    Looks::Text
}

/// `1.5`, `.5`, `1.`, `1e3`, `1.5e-3`.
fn is_float(text: &str) -> bool {
    let (number, exponent) = match text.split_once(['e', 'E']) {
        Some((number, exponent)) => (number, Some(exponent)),
        None => (text, None),
    };
    let digits = |digits: &str| digits.chars().all(|c| c.is_ascii_digit());
    let exponent_fits = exponent.is_none_or(|exponent| {
        let exponent = exponent.strip_prefix(['-', '+']).unwrap_or(exponent);
        !exponent.is_empty() && digits(exponent)
    });
    let (whole, part) = number.split_once('.').unwrap_or((number, ""));
    let some = !(whole.is_empty() && part.is_empty());
    some && digits(whole) && digits(part) && exponent_fits
}
