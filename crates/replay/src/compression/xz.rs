//! Unpacks xz as far as its data go.
//!
//! The crate's own reader takes a whole chunk of up to 64 KiB before it unpacks any of it, and
//! drops what it has unpacked if an error follows in the same call. Of a file that is cut, that
//! loses up to 2 MiB of text. Its decoder without I/O unpacks every byte that is there.

use std::io::{self, BufRead, ErrorKind, Read};

use lzma_rust2::{Action, Status, XzStream};

/// Reads what xz data unpack to.
pub(super) struct XzReader<R> {
    packed: R,
    stream: XzStream,
    /// What follows the bytes that were read last.
    error: Option<io::Error>,
}

// === impl XzReader ===

impl<R: BufRead> XzReader<R> {
    /// A reader whose dictionary takes at most so many KiB.
    pub(super) fn new(packed: R, memory_kib_max: u32) -> XzReader<R> {
        XzReader {
            packed,
            stream: XzStream::new_mem_limit(true, memory_kib_max),
            error: None,
        }
    }
}

impl<R: BufRead> Read for XzReader<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if buffer.is_empty() {
            return Ok(0);
        }
        if let Some(error) = self.error.take() {
            return Err(error);
        }
        loop {
            let packed = self.packed.fill_buf()?;
            let (action, is_end) = match packed.is_empty() {
                true => (Action::Finish, true),
                false => (Action::Run, false),
            };
            let before = self.stream.total_out();
            let processed = self.stream.process(packed, buffer, action);
            // Also after an error, this is how much of the buffer was filled.
            let unpacked = usize::try_from(self.stream.total_out() - before).unwrap_or(0);
            match processed {
                Ok(result) => {
                    self.packed.consume(result.bytes_consumed);
                    if unpacked > 0 || result.status == Status::StreamEnd {
                        return Ok(unpacked);
                    }
                    if is_end {
                        return Err(ErrorKind::UnexpectedEof.into());
                    }
                }
                Err(error) if unpacked > 0 => {
                    self.error = Some(error);
                    return Ok(unpacked);
                }
                Err(error) => return Err(error),
            }
        }
    }
}
