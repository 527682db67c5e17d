//! Nouns after a number, in texts for people.

use std::fmt;

/// A noun, in the plural unless there is one of it: `line`, `lines`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Noun<N>(
    /// How many there are.
    pub N,
    /// The singular, whose plural ends in `s`.
    pub &'static str,
);

impl<N: PartialEq + From<u8>> fmt::Display for Noun<N> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Noun(count, singular) = self;
        let ending = if *count == N::from(1) { "" } else { "s" };
        write!(f, "{singular}{ending}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_is_singular() {
        let texts = [0, 1, 2].map(|count| Noun(count, "line").to_string());
        assert_eq!(texts, ["lines", "line", "lines"]);
    }
}
