//! Words that are probably misspelt.

/// From this length on, two slips still leave no doubt which word was meant.
const LONG: usize = 6;

/// The known word of which `text` is a misspelling, if there is no doubt: a letter too few or
/// twice, or two that changed places; in a long word two slips of any kind. Words that may be meant
/// themselves have another letter, or one more: `BATCH` is not a misspelt `PATCH`, nor `MGET`
/// `GET`.
pub(crate) fn find_meant<'k>(text: &str, known: &[&'k str]) -> Option<&'k str> {
    // A long text would take long to compare.
    let near = known
        .iter()
        .filter(|word| text.len().abs_diff(word.len()) <= 2);
    let slips = near.map(|word| (strsim::damerau_levenshtein(text, word), *word));
    let (slips, word) = slips.min_by_key(|(slips, _)| *slips)?;
    let is_meant = match slips {
        0 => false,
        1 => {
            let is_short = text.len() < word.len();
            is_short || has_same_letters(text, word) || word.len() >= LONG
        }
        2 => word.len() >= LONG,
        _ => false,
    };
    is_meant.then_some(word)
}

/// Whether two words have the same letters, however often.
fn has_same_letters(one: &str, other: &str) -> bool {
    let sorted = |text: &str| {
        let mut bytes = text.as_bytes().to_vec();
        bytes.sort_unstable();
        bytes.dedup();
        bytes
    };
    sorted(one) == sorted(other)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_misspelt_word_differs_from_another_one() {
        let known = ["GET", "POST", "PATCH", "DELETE", "PROPFIND"];
        for (text, expected) in [
            ("POTS", Some("POST")),
            ("GETT", Some("GET")),
            ("PST", Some("POST")),
            ("MGET", None),
            ("GETX", None),
            ("BPUT", None),
            ("PACTH", Some("PATCH")),
            ("DELTE", Some("DELETE")),
            ("DALATE", Some("DELETE")),
            ("PROFINDS", Some("PROPFIND")),
            ("GET", None),
            ("SET", None),
            ("LIST", None),
            ("BATCH", None),
            ("PURGE", None),
            ("CREATE", None),
            ("", None),
        ] {
            assert_eq!(find_meant(text, &known), expected, "{text}");
        }
    }
}
