//! The key or word that a misspelt one was probably meant to be.

use crate::nearest::{SLIPS_MAX, nearest, slips};
use crate::section::{SECTIONS, Section};

/// The key most like `text`, and its section if that is another one. Keys of `section` win ties.
pub(super) fn nearest_key(text: &str, section: Section) -> Option<(&'static str, Option<Section>)> {
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

/// The word most like `text`, or one that begins with it.
pub(super) fn nearest_word(text: &str, words: &[&'static str]) -> Option<&'static str> {
    let lower = text.to_lowercase();
    let is_begin = |word: &&&str| lower.len() >= 4 && word.starts_with(&lower);
    nearest(text, words).or_else(|| words.iter().rfind(is_begin).copied())
}
