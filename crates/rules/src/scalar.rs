//! Scalars with a type: text, flags, whole numbers.

use crate::draft::Spanned;
use crate::findings::Findings;
use crate::quote::quote;
use crate::window;
use crate::yaml::{Looks, Node, Scalar};

/// How to write a rate that is not a whole number of units.
const FRACTION_HELP: &str = "write a whole number and a window to match: 1.5 units per hour are \
    `requests_per_unit: 3` with `window: 2h`, per minute with `window: 2m`";

const UNLIMITED_HELP: &str = "write `unlimited: true` in place of `requests_per_unit` and `unit`";

/// The text of a node. Whole numbers and flags are taken as they are written, because Envoy's
/// service does so for names and values.
pub(crate) fn text(node: &Node, key: &str, findings: &mut Findings) -> Option<Spanned<String>> {
    let scalar = scalar(node, key, findings)?;
    if scalar.looks() == Looks::Float {
        let message = format!(
            "`{key}` takes text, and {} is a number with a point (error checking config)",
            findings.quote(&scalar.text)
        );
        let help = format!(
            "put it in quotes: `{key}: \"{}\"`",
            findings.short(&scalar.text)
        );
        findings.error(node.mark, "type", message, help);
        return None;
    }
    Some(Spanned {
        value: scalar.text.clone(),
        mark: node.mark,
    })
}

/// A node that is neither a map nor a list.
pub(crate) fn scalar<'n>(node: &'n Node, key: &str, findings: &mut Findings) -> Option<&'n Scalar> {
    let scalar = node.scalar();
    if scalar.is_none() {
        let message = format!("`{key}` takes text, and this is {}", node.kind());
        let help = format!("write `{key}: NAME`");
        findings.error(node.mark, "type", message, help);
    }
    scalar
}

/// `true` or `false`; also the words of YAML 1.1, which Envoy's service accepts.
pub(crate) fn flag(node: &Node, key: &str, findings: &mut Findings) -> Option<bool> {
    if let Some(Looks::Flag(flag)) = node.scalar().map(Scalar::looks) {
        return Some(flag);
    }
    if let Some((scalar, flag)) = node
        .scalar()
        .and_then(|text| Some((text, yaml_1_1_flag(text)?)))
    {
        let message = format!("{} is read as `{flag}`", findings.quote(&scalar.text));
        let help = format!("write `{key}: {flag}`: in YAML 1.2 other words are text");
        findings.warning(node.mark, "flag-word", message, help);
        return Some(flag);
    }
    let (message, help) = match node.scalar() {
        Some(scalar) => {
            let word = scalar.text.to_ascii_lowercase();
            let meant = matches!(word.as_str(), "true" | "yes" | "on" | "1" | "y");
            let meant = if meant { "true" } else { "false" };
            let is_flag = !scalar.plain && matches!(word.as_str(), "true" | "false");
            let message = if is_flag {
                format!("`\"{}\"` is quoted text, not a boolean", scalar.text)
            } else {
                let shown = findings.quote(&scalar.text);
                format!("{shown} is neither `true` nor `false`")
            };
            (message, format!("write `{key}: {meant}`, without quotes"))
        }
        None => (
            format!("`{key}` is `true` or `false`, and this is {}", node.kind()),
            format!("write `{key}: true` or leave it out"),
        ),
    };
    findings.error(node.mark, "type", message, help);
    None
}

/// Whether [`flag`] takes it.
pub(crate) fn is_flag(node: &Node) -> bool {
    let is_flag = |scalar: &Scalar| {
        matches!(scalar.looks(), Looks::Flag(_)) || yaml_1_1_flag(scalar).is_some()
    };
    node.scalar().is_some_and(is_flag)
}

/// The flags of YAML 1.1 that YAML 1.2 no longer knows.
fn yaml_1_1_flag(scalar: &Scalar) -> Option<bool> {
    match scalar.text.as_str() {
        _ if !scalar.plain => None,
        "y" | "Y" | "yes" | "Yes" | "YES" | "on" | "On" | "ON" => Some(true),
        "n" | "N" | "no" | "No" | "NO" | "off" | "Off" | "OFF" => Some(false),
        _ => None,
    }
}

/// A whole number of per cent: `10%`. `example` is shown to an author who wrote none.
pub(crate) fn percent(
    node: &Node,
    key: &str,
    example: &str,
    findings: &mut Findings,
) -> Option<u32> {
    let text = node.scalar().map_or("", |scalar| scalar.text.as_str());
    let digits = text.strip_suffix('%').unwrap_or(text);
    let is_number = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
    if text.ends_with('%')
        && is_number
        && let Ok(percent) = digits.parse()
    {
        return Some(percent);
    }
    let message = match node.scalar() {
        Some(_) if is_number && text.ends_with('%') => {
            format!("{} is too large", quote(text))
        }
        Some(_) => format!("{} is not a percentage", quote(text)),
        None => format!("`{key}` is a percentage, and this is {}", node.kind()),
    };
    let help = if key == "enforce" && text.eq_ignore_ascii_case("false") {
        "write `enforce: 0%` or `shadow_mode: true`".to_owned()
    } else if is_number && !text.ends_with('%') {
        format!("write `{key}: {}%`", findings.short(digits))
    } else {
        format!("write a whole number and `%`: `{key}: {example}`")
    };
    let code = if key == "soft" { "soft" } else { "percent" };
    findings.error(node.mark, code, message, help);
    None
}

/// A whole number from `min` to `max`.
pub(crate) fn count(
    node: &Node,
    key: &str,
    (min, max): (u32, u32),
    findings: &mut Findings,
) -> Option<u32> {
    let (code, message, help) = match node.scalar().map(|scalar| number(scalar, min, max)) {
        Some(Ok(number)) => return Some(number),
        Some(Err(wrong)) => {
            let text = node.scalar().map_or("", |scalar| &scalar.text);
            let (why, help) = wrong.describe(key, &findings.short(text), min, max);
            (
                wrong.code(),
                format!("{} {why}", findings.quote(text)),
                help,
            )
        }
        None => (
            "type",
            format!("`{key}` is a whole number, and this is {}", node.kind()),
            format!("write a number from {min} to {max}"),
        ),
    };
    findings.error(node.mark, code, message, help);
    None
}

/// Why a scalar is not the number that is wanted.
enum Wrong {
    Quoted,
    Negative,
    Point,
    Octal,
    OutOfRange,
    NoNumber,
}

fn number(scalar: &Scalar, min: u32, max: u32) -> Result<u32, Wrong> {
    let text = scalar.text.as_str();
    let number = whole(text)?;
    if !scalar.plain {
        return Err(Wrong::Quoted);
    }
    let number = u32::try_from(number).map_err(|_| Wrong::OutOfRange)?;
    if number < min || number > max {
        return Err(Wrong::OutOfRange);
    }
    Ok(number)
}

/// The whole number that YAML and Go's parser see in a text; saturates.
fn whole(text: &str) -> Result<u128, Wrong> {
    let unsigned = text.strip_prefix(['-', '+']).unwrap_or(text);
    let scalar = Scalar {
        text: text.to_owned(),
        plain: true,
        merged_at: None,
    };
    match scalar.looks() {
        Looks::Int if text.starts_with('-') => return Err(Wrong::Negative),
        Looks::Int => {}
        Looks::Float => return Err(Wrong::Point),
        _ => return Err(Wrong::NoNumber),
    }
    let digits: String = unsigned.chars().filter(|c| *c != '_').collect();
    let (digits, radix) = match digits.get(..2) {
        Some("0x") => (&digits[2..], 16),
        Some("0o") => (&digits[2..], 8),
        Some("0b") => (&digits[2..], 2),
        // Octal in YAML 1.1, decimal in YAML 1.2.
        Some(start) if start.starts_with('0') => return Err(Wrong::Octal),
        _ => (&*digits, 10),
    };
    Ok(u128::from_str_radix(digits, radix).unwrap_or(u128::MAX))
}

/// What to write in place of a text that is not a number.
fn help_for_count(key: &str, text: &str, min: u32, max: u32) -> String {
    if key == "requests_per_unit" {
        if let Ok((count, _)) = window::short_form(text) {
            return format!(
                "write `rate_limit: {text}`, or `requests_per_unit: {count}` with a `unit`"
            );
        }
        if matches!(
            text.to_lowercase().as_str(),
            "unlimited" | "infinite" | "none"
        ) {
            return UNLIMITED_HELP.to_owned();
        }
    }
    match window::meant_count(text) {
        Some(count) if (min..=max).contains(&count) => format!("write `{key}: {count}`"),
        _ => format!("write a whole number from {min} to {max}"),
    }
}

// === impl Wrong ===

impl Wrong {
    fn code(&self) -> &'static str {
        match self {
            Wrong::Quoted | Wrong::Point | Wrong::NoNumber => "type",
            Wrong::Negative | Wrong::Octal | Wrong::OutOfRange => "number",
        }
    }

    /// What is wrong, to follow the text itself, and what to write instead.
    fn describe(&self, key: &str, text: &str, min: u32, max: u32) -> (String, String) {
        let range = format!("write a whole number from {min} to {max}");
        let (why, help) = match self {
            Wrong::Quoted => ("is text", format!("leave out the quotes: `{key}: {text}`")),
            Wrong::Negative => ("is negative", range),
            Wrong::Point => ("is not a whole number (error checking config)", {
                match (key, window::meant_count(text)) {
                    (_, Some(count)) if (min..=max).contains(&count) => {
                        format!("write `{key}: {count}`")
                    }
                    ("requests_per_unit", _) if text.contains("inf") => UNLIMITED_HELP.to_owned(),
                    ("requests_per_unit", _) => FRACTION_HELP.to_owned(),
                    _ => range,
                }
            }),
            Wrong::Octal => (
                "begins with a 0, which some parsers read as octal",
                "leave out the leading 0".to_owned(),
            ),
            Wrong::OutOfRange => return (format!("is outside {min} to {max}"), range),
            Wrong::NoNumber => ("is not a number", help_for_count(key, text, min, max)),
        };
        (why.to_owned(), help)
    }
}
