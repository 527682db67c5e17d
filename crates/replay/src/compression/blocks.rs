//! Unpacks bzip2 block by block, and keeps a block back until its checksum has been compared.
//!
//! A damaged bit in a block leads to a block of other text, whole lines of which may look right.
//! The decoder gives a block away before it compares the checksum, so its text waits here. It reads
//! no further input before it has compared it: when it does, the text so far is right.

use std::io::{self, BufRead, ErrorKind, Read};

use bzip2::bufread::BzDecoder;

use super::members::{Member, Packed};

/// How much is unpacked at once. This much before a damaged block may be lost with it.
const CHUNK_BYTES: usize = 4 * 1024;
/// The most text of a block: 900 000 bytes, five of which may stand for 259 equal ones.
const BLOCK_TEXT_BYTES_MAX: usize = 900_000 / 5 * 259;

/// Reads what one piece of bzip2 data unpacks to.
pub(super) struct Blocks<R> {
    decoder: BzDecoder<Packed<R>>,
    text: Vec<u8>,
    /// How much of the text was read.
    read: usize,
    /// How much of the text is of blocks whose checksums are right.
    verified: usize,
    is_end: bool,
    /// What follows the text that is verified.
    error: Option<io::Error>,
}

// === impl Blocks ===

impl<R: BufRead> Blocks<R> {
    /// Unpacks another chunk, and marks the text before it as verified if that is known now.
    fn unpack(&mut self) -> io::Result<()> {
        let before = self.text.len();
        if before > BLOCK_TEXT_BYTES_MAX + CHUNK_BYTES {
            return Err(ErrorKind::InvalidData.into());
        }
        let packed = self.decoder.total_in();
        self.text.resize(before + CHUNK_BYTES, 0);
        let unpacked = self.decoder.read(&mut self.text[before..]);
        let read = unpacked.as_ref().copied().unwrap_or(0);
        self.text.truncate(before + read);
        if self.decoder.total_in() > packed {
            self.verified = before;
        }
        match unpacked {
            Ok(0) => {
                self.verified = before;
                self.is_end = true;
            }
            Ok(_) => {}
            Err(error) if error.kind() == ErrorKind::Interrupted => return Err(error),
            Err(error) => {
                // The decoder asks for more input only behind a block.
                if error.kind() == ErrorKind::UnexpectedEof {
                    self.verified = before;
                }
                self.error = Some(error);
            }
        }
        Ok(())
    }
}

impl<R: BufRead> Read for Blocks<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            let read = (&self.text[self.read..self.verified]).read(buffer)?;
            self.read += read;
            if read > 0 || buffer.is_empty() || self.is_end {
                return Ok(read);
            }
            if let Some(error) = self.error.take() {
                return Err(error);
            }
            self.text.drain(..self.read);
            (self.read, self.verified) = (0, 0);
            self.unpack()?;
        }
    }
}

impl<R: BufRead> Member<R> for Blocks<R> {
    fn of(packed: Packed<R>) -> io::Result<Self> {
        Ok(Blocks {
            decoder: BzDecoder::new(packed),
            text: Vec::new(),
            read: 0,
            verified: 0,
            is_end: false,
            error: None,
        })
    }

    fn into_packed(self) -> R {
        self.decoder.into_inner().into_inner().1
    }
}
