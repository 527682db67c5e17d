//! One template of paths: what the router is given for it, and what its errors say.

use super::other_syntax::check_syntax;
use crate::path::PathSettings;
use crate::setting::InvalidSetting;

/// What is written for a character that would look like the syntax of another product.
const LITERALS: [(&str, &str); 4] = [("%2A", "*"), ("%3A", ":"), ("%24", "$"), ("%2B", "+")];

/// Checks that parameters are whole segments, and that the others are in normal form; what the
/// router is given: the template with the characters of [`LITERALS`], as paths have them.
pub(super) fn parse(template: &str, paths: &PathSettings) -> Result<String, InvalidSetting> {
    let wrong = |problem, instead| Err(InvalidSetting::new("", problem, instead));
    check_syntax(template)?;
    let Some(rest) = template.strip_prefix('/') else {
        return wrong(
            format!("\"{template}\" does not begin with a slash"),
            format!("write /{template}"),
        );
    };
    let (mut fixed, mut routed) = (String::new(), String::new());
    let mut parameters = Vec::new();
    for segment in rest.split('/') {
        let is_parameter = is_parameter(segment);
        if !is_parameter && segment.contains(['{', '}']) {
            return wrong(
                format!("a parameter is only a part of the segment \"{segment}\" of {template}"),
                "write {name} for the whole segment".to_owned(),
            );
        }
        let text = match is_parameter {
            true => segment.to_owned(),
            false => decode_literals(segment),
        };
        fixed.push('/');
        if is_parameter {
            fixed.push_str(&stand_in(parameters.len()));
            parameters.push(segment);
        } else {
            fixed.push_str(&text);
        }
        routed.push('/');
        routed.push_str(&text);
    }
    match paths.normalize(fixed.as_bytes()) {
        Ok(normal) if normal.as_str() == fixed => Ok(routed),
        Ok(normal) => wrong(
            format!("{template} matches no path, because paths are normalised first"),
            format!(
                "write it as {}",
                with_parameters(normal.as_str(), &parameters)
            ),
        ),
        Err(error) => wrong(
            format!("{template} matches no path: {error}"),
            "write a path as it is after normalisation".to_owned(),
        ),
    }
}

/// What stands for a parameter while a template is normalised.
fn stand_in(index: usize) -> String {
    format!("-parameter-{index}-")
}

/// A normalised template with its parameters.
fn with_parameters(normal: &str, parameters: &[&str]) -> String {
    let parameters = parameters.iter().enumerate();
    parameters.fold(normal.to_owned(), |text, (index, parameter)| {
        text.replace(&stand_in(index), parameter)
    })
}

fn is_parameter(segment: &str) -> bool {
    let name = segment
        .strip_prefix('{')
        .and_then(|rest| rest.strip_suffix('}'));
    name.is_some_and(|name| !name.contains(['{', '}']))
}

fn decode_literals(segment: &str) -> String {
    let mut text = segment.to_owned();
    for (encoded, character) in LITERALS {
        text = text.replace(encoded, character);
        text = text.replace(&encoded.to_ascii_lowercase(), character);
    }
    text
}
