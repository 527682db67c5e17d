//! Conditions of a route that have to list something.

use serde::de::{Deserialize, Deserializer, Error};

/// Reads a list or a map that is there, and so is meant to be a condition. Without an item it would
/// be none, and the route would be for every request.
///
/// # Errors
///
/// It has no item.
pub(super) fn read_some<'de, D, T>(from: D) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de>,
    for<'t> &'t T: IntoIterator,
{
    let read = T::deserialize(from)?;
    let is_empty = (&read).into_iter().next().is_none();
    if is_empty {
        let text = "one of the conditions lists nothing; write what requests must have, or remove \
            its key";
        return Err(D::Error::custom(text));
    }
    Ok(read)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use crate::settings::MatchSettings;

    #[test]
    fn a_condition_lists_something_or_is_not_there() {
        let read = |text: &str| serde_json::from_str::<MatchSettings>(text);
        assert_eq!(read("{}").unwrap(), MatchSettings::default());
        assert!(read(r#"{"paths": ["/a"], "headers": {"x": "*"}}"#).is_ok());
        for key in ["hosts", "paths", "methods"] {
            let error = read(&format!(r#"{{"{key}": []}}"#)).unwrap_err();
            assert!(error.to_string().contains("lists nothing"), "{error}");
        }
        assert!(read(r#"{"headers": {}}"#).is_err());
    }
}
