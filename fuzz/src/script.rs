//! Interprets an input as a sequence of choices.

/// The bytes that are left to choose with.
pub(crate) struct Script<'i> {
    rest: &'i [u8],
}

// === impl Script ===

impl<'i> Script<'i> {
    pub(crate) const fn new(input: &'i [u8]) -> Script<'i> {
        Script { rest: input }
    }

    pub(crate) const fn is_over(&self) -> bool {
        self.rest.is_empty()
    }

    /// The next byte; 0 once there are none.
    pub(crate) fn byte(&mut self) -> u8 {
        match self.rest.split_first() {
            Some((byte, rest)) => {
                self.rest = rest;
                *byte
            }
            None => 0,
        }
    }

    /// Whether the next byte is one of so many in sixteen.
    pub(crate) fn sixteenths(&mut self, of: u8) -> bool {
        self.byte() % 16 < of
    }

    /// A number of any size, mostly a small one.
    pub(crate) fn number(&mut self) -> u64 {
        match self.byte() {
            0xff => u64::MAX,
            0xfe => u64::from(u32::MAX) - u64::from(self.byte() % 2),
            first @ 0xf8.. => {
                let more = 0..first - 0xf6;
                more.fold(0, |number, _| number << 8 | u64::from(self.byte()))
            }
            small => u64::from(small % 32),
        }
    }

    /// As [`Script::number`], in 32 bits.
    pub(crate) fn count(&mut self) -> u32 {
        u32::try_from(self.number()).unwrap_or(u32::MAX)
    }

    /// One of `choices`.
    pub(crate) fn pick<T: Copy, const N: usize>(&mut self, choices: [T; N]) -> T {
        choices[usize::from(self.byte()) % N]
    }
}
