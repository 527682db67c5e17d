//! The word that was probably meant.

/// How unlike two keys may be, and one still be taken for a slip of the other.
const SLIPS_MAX: usize = 3;

/// The known word that is most like `text`, if one is like it.
pub fn nearest<'k>(text: &str, known: &[&'k str]) -> Option<&'k str> {
    // A digit is no slip: `http2` is not meant to be `http1`.
    let digits = |text: &str| text.bytes().filter(u8::is_ascii_digit).collect::<Vec<_>>();
    let of_text = digits(text);
    let near = known.iter().filter(|key| digits(key) == of_text);
    let near = near.filter_map(|key| {
        // A long text is no slip of a short key, and comparing it would take long.
        let slips = (text.len() <= 2 * key.len() + SLIPS_MAX)
            .then(|| strsim::damerau_levenshtein(&text.to_lowercase(), key))?;
        (slips <= SLIPS_MAX.min(key.len() / 2)).then_some((slips, *key))
    });
    near.min_by_key(|(slips, _)| *slips).map(|(_, key)| key)
}
