//! A command: its words.

use std::fmt;

/// Where a word is: its first byte, and the byte behind its last.
pub(crate) type Place = (u32, u32);

/// A command that has arrived completely.
#[derive(Clone, Copy)]
pub struct Command<'b> {
    /// As it arrived.
    bytes: &'b [u8],
    /// What the words are in: the same bytes, or others without quotes.
    words: &'b [u8],
    places: &'b [Place],
}

// === impl Command ===

impl<'b> Command<'b> {
    /// A command whose words are in its own bytes.
    pub(crate) const fn new(bytes: &'b [u8], places: &'b [Place]) -> Command<'b> {
        Command::with_words(bytes, bytes, places)
    }

    /// A command whose words are elsewhere, without their quotes.
    pub(crate) const fn with_words(
        bytes: &'b [u8],
        words: &'b [u8],
        places: &'b [Place],
    ) -> Command<'b> {
        Command {
            bytes,
            words,
            places,
        }
    }

    /// How many bytes of the input it takes up: the next command begins behind them.
    pub const fn length(&self) -> usize {
        self.bytes.len()
    }

    /// Its bytes, as they arrived.
    pub const fn bytes(&self) -> &'b [u8] {
        self.bytes
    }

    /// How many words it has, its name included. None at all for an empty line or an empty array,
    /// which have no reply.
    pub const fn len(&self) -> usize {
        self.places.len()
    }

    /// Whether it has no words, and so no reply.
    pub const fn is_empty(&self) -> bool {
        self.places.is_empty()
    }

    /// The word at `index`, from 0: the name of the command. `None` behind the last.
    #[inline]
    pub fn word(&self, index: usize) -> Option<&'b [u8]> {
        let place = self.places.get(index)?;
        Some(self.at(*place))
    }

    /// The name; empty if there is none.
    #[inline]
    pub fn name(&self) -> &'b [u8] {
        self.word(0).unwrap_or_default()
    }

    /// The words from `index` on.
    pub fn words(&self, index: usize) -> impl Iterator<Item = &'b [u8]> + use<'b> {
        let Command { words, places, .. } = *self;
        let places = places.get(index..).unwrap_or_default();
        places.iter().map(move |place| slice(words, *place))
    }

    fn at(&self, place: Place) -> &'b [u8] {
        slice(self.words, place)
    }
}

#[inline]
fn slice(bytes: &[u8], (from, to): Place) -> &[u8] {
    // 32 bits fit; the parser made the places from these bytes.
    let index = |place: u32| usize::try_from(place).unwrap_or(usize::MAX);
    bytes.get(index(from)..index(to)).unwrap_or_default()
}

impl fmt::Debug for Command<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let words = self.words(0).map(String::from_utf8_lossy);
        f.debug_list().entries(words).finish()
    }
}
