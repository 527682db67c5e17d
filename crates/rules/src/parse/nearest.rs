//! The key or word that a misspelt one was probably meant to be.

use crate::section::{SECTIONS, Section};

/// How far apart two words may be for one to be taken for a misspelling of the other.
const SLIPS_MAX: usize = 3;

/// The key most like `text`, and its section if that is another one. Keys of `section` win ties.
pub(super) fn nearest(text: &str, section: Section) -> Option<(&'static str, Option<Section>)> {
    let others = SECTIONS.into_iter().filter(|other| *other != section);
    let places = std::iter::once(section).chain(others);
    let fields = places.flat_map(|at| at.fields().map(move |field| (at, field.key)));
    let near = fields.filter_map(|(at, key)| {
        let slips = slips(text, key);
        let allowed = SLIPS_MAX.min(key.len() / if at == section { 2 } else { 3 });
        (slips <= allowed).then_some((slips, key, (at != section).then_some(at)))
    });
    let (_, key, at) = near.min_by_key(|(slips, _, _)| *slips)?;
    Some((key, at))
}

/// How many letters must change to get from one word to the other.
fn slips(text: &str, word: &str) -> usize {
    // Compared in full, a long text would take long; it is no misspelling of a short word.
    if text.len() > 2 * word.len() + SLIPS_MAX {
        return usize::MAX;
    }
    let plain = |text: &str| text.to_lowercase().replace(['-', ' '], "_");
    strsim::damerau_levenshtein(&plain(text), word)
}

/// The word most like `text`.
pub(super) fn nearest_word(text: &str, words: &[&'static str]) -> Option<&'static str> {
    let near = words.iter().filter_map(|word| {
        let slips = slips(text, word);
        (slips <= SLIPS_MAX.min(word.len() / 2)).then_some((slips, *word))
    });
    let near = near.min_by_key(|(slips, _)| *slips).map(|(_, word)| word);
    let text = text.to_lowercase();
    let is_begin = |word: &&&str| text.len() >= 4 && word.starts_with(&text);
    near.or_else(|| words.iter().rfind(is_begin).copied())
}
