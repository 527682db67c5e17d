//! Compressed data in several pieces, one after the other, each of which is unpacked by a decoder
//! of its own; and what follows the last piece.
//!
//! As for the programs themselves, what follows is not damage if it is not a piece: zeros are
//! padding, as tapes and block devices have it, and anything else is ignored.

use std::cell::Cell;
use std::io::{self, BufRead, Chain, Cursor, ErrorKind, Read};
use std::rc::Rc;

use flate2::bufread::GzDecoder;

use super::{Compression, WINDOW_BITS_MAX};

/// How many bytes tell whether another piece follows. No piece is shorter.
const HEAD_BYTES: u64 = 4;

/// The input of one piece: the bytes that were examined, and the rest.
pub(super) type Packed<R> = Chain<Cursor<Vec<u8>>, R>;

/// A decoder of one piece.
pub(super) trait Member<R: BufRead>: Read + Sized {
    fn of(packed: Packed<R>) -> io::Result<Self>;
    /// What follows the piece.
    fn into_packed(self) -> R;
}

/// Reads what all pieces unpack to.
pub(super) struct Members<R, M> {
    compression: Compression,
    /// The present piece; `None` behind the last one, or after an error.
    member: Option<M>,
    /// What precedes the first piece: nothing is examined yet.
    packed: Option<R>,
    has_trailing: Rc<Cell<bool>>,
}

// === impl Members ===

impl<R: BufRead, M: Member<R>> Members<R, M> {
    /// A reader that sets `has_trailing` if something else than zeros follows the last piece.
    pub(super) fn new(
        compression: Compression,
        packed: R,
        has_trailing: Rc<Cell<bool>>,
    ) -> Members<R, M> {
        Members {
            compression,
            member: None,
            packed: Some(packed),
            has_trailing,
        }
    }

    /// The piece that follows, if one does.
    fn next(&self, mut packed: R) -> io::Result<Option<M>> {
        let mut head = Vec::new();
        packed.by_ref().take(HEAD_BYTES).read_to_end(&mut head)?;
        let is_skippable = self.compression == Compression::Zstd && is_skippable(&head);
        if is_skippable || Compression::of(&head) == Some(self.compression) {
            return M::of(Cursor::new(head).chain(packed)).map(Some);
        }
        let is_padding = head.iter().all(|byte| *byte == 0) && has_only_zeros(packed)?;
        self.has_trailing.set(!is_padding);
        Ok(None)
    }
}

impl<R: BufRead, M: Member<R>> Read for Members<R, M> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if buffer.is_empty() {
            return Ok(0);
        }
        loop {
            if let Some(packed) = self.packed.take() {
                self.member = self.next(packed)?;
            }
            let Some(member) = &mut self.member else {
                return Ok(0);
            };
            let read = member.read(buffer)?;
            if read > 0 {
                return Ok(read);
            }
            self.packed = self.member.take().map(M::into_packed);
        }
    }
}

/// Whether a frame of zstd begins that has no text, such as the table of a seekable file (RFC 8878,
/// 3.1.2).
fn is_skippable(head: &[u8]) -> bool {
    matches!(head, [0x50..=0x5f, 0x2a, 0x4d, 0x18])
}

/// Whether nothing else follows.
fn has_only_zeros(mut packed: impl BufRead) -> io::Result<bool> {
    loop {
        let bytes = match packed.fill_buf() {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == ErrorKind::Interrupted => continue,
            Err(error) => return Err(error),
        };
        if bytes.is_empty() {
            return Ok(true);
        }
        if bytes.iter().any(|byte| *byte != 0) {
            return Ok(false);
        }
        let read = bytes.len();
        packed.consume(read);
    }
}

// === impl Member ===

impl<R: BufRead> Member<R> for GzDecoder<Packed<R>> {
    fn of(packed: Packed<R>) -> io::Result<Self> {
        Ok(GzDecoder::new(packed))
    }

    fn into_packed(self) -> R {
        self.into_inner().into_inner().1
    }
}

impl<R: BufRead> Member<R> for zstd::Decoder<'static, Packed<R>> {
    fn of(packed: Packed<R>) -> io::Result<Self> {
        let mut decoder = zstd::Decoder::with_buffer(packed)?.single_frame();
        decoder.window_log_max(WINDOW_BITS_MAX)?;
        Ok(decoder)
    }

    fn into_packed(self) -> R {
        self.finish().into_inner().1
    }
}
