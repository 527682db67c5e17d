//! The word that was probably meant.

/// How unlike two words may be, and one still be taken for a misspelling of the other.
pub(crate) const SLIPS_MAX: usize = 3;

/// The known word that is most like `text`, if one is like it. Letter case does not matter, nor
/// whether the parts of a word are joined by `_`, `-` or a space.
pub fn nearest<'k>(text: &str, known: &[&'k str]) -> Option<&'k str> {
    // A digit is not a typo: `http2` is not meant to be `http1`.
    let digits = |text: &str| text.bytes().filter(u8::is_ascii_digit).collect::<Vec<_>>();
    let of_text = digits(text);
    let near = known.iter().filter(|word| digits(word) == of_text);
    let near = near.filter_map(|word| {
        let slips = slips(text, word);
        (slips <= SLIPS_MAX.min(word.len() / 2)).then_some((slips, *word))
    });
    near.min_by_key(|(slips, _)| *slips).map(|(_, word)| word)
}

/// How many letters must change to get from one word to the other.
pub(crate) fn slips(text: &str, word: &str) -> usize {
    // Compared in full, a long text would take long; it is not a misspelling of a short word.
    if text.len() > 2 * word.len() + SLIPS_MAX {
        return usize::MAX;
    }
    let plain = |text: &str| text.to_lowercase().replace(['-', ' '], "_");
    strsim::damerau_levenshtein(&plain(text), &plain(word))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_word_is_near() {
        let known = ["window", "unit", "http1", "new-keys"];
        for (text, expected) in [
            ("widnow", Some("window")),
            ("WINDOW", Some("window")),
            ("New Keys", Some("new-keys")),
            ("http2", None),
            ("htp1", Some("http1")),
            ("limit", None),
            ("", None),
            (&"unit".repeat(1_000), None),
        ] {
            assert_eq!(nearest(text, &known), expected, "{text}");
        }
    }
}
