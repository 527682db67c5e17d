//! Answers of the stream, one behind the other.

use bytes::Bytes;

use crate::grpc::FRAME_HEAD_BYTES;

/// The bytes that an answer seldom exceeds.
const ANSWER_BYTES: usize = 64;

/// Encoded answers, as gRPC frames them.
#[derive(Debug, Default)]
pub(super) struct AnswerBytes(Vec<u8>);

// === impl AnswerBytes ===

impl AnswerBytes {
    /// No answers yet, with room for so many.
    pub(super) fn with_capacity(answers: usize) -> AnswerBytes {
        AnswerBytes(Vec::with_capacity(
            answers * (ANSWER_BYTES + FRAME_HEAD_BYTES),
        ))
    }

    /// How many bytes they have.
    pub(super) const fn len(&self) -> usize {
        self.0.len()
    }

    /// Adds an answer, which `write` appends to what it gets.
    pub(super) fn add(&mut self, write: impl FnOnce(&mut Vec<u8>)) {
        let start = self.0.len();
        let begin = start + FRAME_HEAD_BYTES;
        self.0.extend_from_slice(&[0; FRAME_HEAD_BYTES]);
        write(&mut self.0);
        // No answer comes near the 4 GiB that the length has room for.
        let length = u32::try_from(self.0.len() - begin).unwrap_or(u32::MAX);
        // The first byte stays 0: it is not compressed.
        self.0[start + 1..begin].copy_from_slice(&length.to_be_bytes());
    }
}

impl From<AnswerBytes> for Bytes {
    fn from(AnswerBytes(bytes): AnswerBytes) -> Bytes {
        bytes.into()
    }
}
