//! Answers of the stream, one behind the other.

use bytes::{Buf, Bytes};

/// The bytes that an answer seldom exceeds.
const ANSWER_BYTES: usize = 64;
/// The bytes of the length in front of each answer.
const LENGTH_BYTES: usize = size_of::<u32>();

/// Encoded answers, which are written all before the first is taken.
#[derive(Debug, Default)]
pub(super) struct AnswerBytes(Vec<u8>);

/// Answers to be taken.
#[derive(Debug, Default)]
pub(super) struct Answered(Bytes);

// === impl AnswerBytes ===

impl AnswerBytes {
    /// No answers yet, with room for so many.
    pub(super) fn with_capacity(answers: usize) -> AnswerBytes {
        AnswerBytes(Vec::with_capacity(answers * (ANSWER_BYTES + LENGTH_BYTES)))
    }

    /// Adds an answer, which `write` appends to what it gets.
    pub(super) fn add(&mut self, write: impl FnOnce(&mut Vec<u8>)) {
        let start = self.0.len();
        let begin = start + LENGTH_BYTES;
        self.0.extend_from_slice(&[0; LENGTH_BYTES]);
        write(&mut self.0);
        let length = u32::try_from(self.0.len() - begin).unwrap_or(u32::MAX);
        self.0[start..begin].copy_from_slice(&length.to_be_bytes());
    }
}

// === impl Answered ===

impl From<AnswerBytes> for Answered {
    fn from(AnswerBytes(bytes): AnswerBytes) -> Answered {
        Answered(bytes.into())
    }
}

impl Iterator for Answered {
    type Item = Bytes;

    fn next(&mut self) -> Option<Bytes> {
        if self.0.is_empty() {
            return None;
        }
        let length = usize::try_from(self.0.get_u32()).unwrap_or(usize::MAX);
        Some(self.0.split_to(length.min(self.0.len())))
    }
}
