//! Compressed inputs: known by their first bytes, unpacked as they are read.
//!
//! An input that ends too early or is damaged keeps what was unpacked before: the reader ends there
//! and remembers the [`Cut`]. An error of the input itself, such as that of a disk, stays one.

use std::cell::{Cell, RefCell};
use std::fmt;
use std::io::{self, BufRead, BufReader, ErrorKind, Read};
use std::rc::Rc;

use flate2::bufread::GzDecoder;

use crate::compression::blocks::Blocks;
use crate::compression::members::Members;
use crate::compression::xz::XzReader;
use crate::noun::Noun;

mod blocks;
mod members;
mod xz;

/// The largest window (zstd) or dictionary (xz) that an input may need, as a power of two; every
/// level of both programs needs less, and `zstd --long` exactly this.
const WINDOW_BITS_MAX: u32 = 27;
/// The most memory that the dictionary of an xz input may take, in KiB, and some for its decoder.
const XZ_MEMORY_KIB_MAX: u32 = (1 << (WINDOW_BITS_MAX - 10)) + 4096;
/// How much is read at once.
const CHUNK_BYTES: usize = 256 * 1024;

/// How an input is compressed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Compression {
    /// By gzip.
    Gzip,
    /// By xz.
    Xz,
    /// By zstd.
    Zstd,
    /// By bzip2.
    Bzip2,
}

/// Where the data of a compressed input end before its end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cut {
    /// How it is compressed.
    pub compression: Compression,
    /// How many bytes were unpacked before.
    pub bytes: u64,
    /// Whether the input just ends there; otherwise its data are damaged.
    pub is_short: bool,
}

/// What is known of the end of a compressed input, once the reader has come to it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Found {
    cut: Rc<RefCell<Option<Cut>>>,
    has_trailing: Rc<Cell<bool>>,
}

// === impl Found ===

impl Found {
    /// Where the data end early, if they do.
    pub(crate) fn cut(&self) -> Option<Cut> {
        self.cut.borrow().clone()
    }

    pub(crate) fn is_cut(&self) -> bool {
        self.cut.borrow().is_some()
    }

    /// Whether something other than zeros and data follows the data.
    pub(crate) fn has_trailing(&self) -> bool {
        self.has_trailing.get()
    }
}

// === impl Compression ===

impl Compression {
    /// The compression of an input with these first bytes.
    pub(crate) fn of(head: &[u8]) -> Option<Compression> {
        const MAGIC: [(&[u8], Compression); 4] = [
            (&[0x1f, 0x8b], Compression::Gzip),
            (b"\xfd7zXZ\0", Compression::Xz),
            (b"\x28\xb5\x2f\xfd", Compression::Zstd),
            (b"BZh", Compression::Bzip2),
        ];
        // A zstd file may begin with a frame to skip, as those of `pzstd` do.
        if let [0x50..=0x5f, b'*', b'M', 0x18, ..] = head {
            return Some(Compression::Zstd);
        }
        let mut magic = MAGIC.iter();
        let found = magic.find(|(magic, _)| head.starts_with(magic));
        found.map(|(_, compression)| *compression)
    }

    /// Unpacks `input`; what is found at its end is put into the second value.
    pub(crate) fn unpack<'i>(self, input: impl Read + 'i) -> (Box<dyn Read + 'i>, Found) {
        let has_failed = Rc::new(Cell::new(false));
        let source = Source {
            input,
            has_failed: Rc::clone(&has_failed),
        };
        let source = BufReader::with_capacity(CHUNK_BYTES, source);
        let found = Found::default();
        let unpacked = Unpacked {
            decoder: self.decoder(source, &found),
            has_failed,
            compression: self,
            bytes: 0,
            found: found.clone(),
        };
        (Box::new(unpacked), found)
    }

    fn decoder<'i, R: BufRead + 'i>(self, source: R, found: &Found) -> Box<dyn Read + 'i> {
        let trailing = Rc::clone(&found.has_trailing);
        match self {
            Compression::Gzip => Box::new(Members::<R, GzDecoder<_>>::new(self, source, trailing)),
            Compression::Bzip2 => Box::new(Members::<R, Blocks<_>>::new(self, source, trailing)),
            Compression::Zstd => Box::new(Members::<R, zstd::Decoder<'static, _>>::new(
                self, source, trailing,
            )),
            // Zeros may follow its pieces, in blocks of four; anything else is damage.
            Compression::Xz => Box::new(XzReader::new(source, XZ_MEMORY_KIB_MAX)),
        }
    }

    /// The program's name.
    pub const fn name(self) -> &'static str {
        match self {
            Compression::Gzip => "gzip",
            Compression::Xz => "xz",
            Compression::Zstd => "zstd",
            Compression::Bzip2 => "bzip2",
        }
    }

    /// The error of an input that needs more memory than it may have, if this is one.
    fn too_large(self, error: &io::Error) -> Option<io::Error> {
        // The zstd library has a text for it and no kind.
        let is_too_large = error.kind() == ErrorKind::OutOfMemory
            || self == Compression::Zstd && error.to_string().contains("too much memory");
        let unpack = match self {
            Compression::Zstd => "zstd -dc --long=31",
            _ => "xz -dc",
        };
        is_too_large.then(|| {
            io::Error::other(format!(
                "it needs a window of more than {} MiB; unpack it first: \
                 `{unpack} FILE | tollgate replay … -`",
                1 << (WINDOW_BITS_MAX - 20)
            ))
        })
    }
}

// === the input ===

/// An input that remembers whether reading it failed.
struct Source<R> {
    input: R,
    has_failed: Rc<Cell<bool>>,
}

impl<R: Read> Read for Source<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.input.read(buffer);
        let is_error = |error: &io::Error| error.kind() != ErrorKind::Interrupted;
        self.has_failed.set(read.as_ref().is_err_and(is_error));
        read
    }
}

// === impl Unpacked ===

/// What is unpacked. It ends where nothing more can be, once and for all: a decoder that failed is
/// not asked again.
struct Unpacked<'i> {
    decoder: Box<dyn Read + 'i>,
    has_failed: Rc<Cell<bool>>,
    compression: Compression,
    bytes: u64,
    found: Found,
}

impl Read for Unpacked<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.found.is_cut() {
            return Ok(0);
        }
        let error = match self.decoder.read(buffer) {
            Ok(read) => {
                self.bytes += u64::try_from(read).unwrap_or(0);
                return Ok(read);
            }
            Err(error) => error,
        };
        if self.has_failed.get() || error.kind() == ErrorKind::Interrupted {
            return Err(error);
        }
        if let Some(too_large) = self.compression.too_large(&error) {
            return Err(too_large);
        }
        *self.found.cut.borrow_mut() = Some(Cut {
            compression: self.compression,
            bytes: self.bytes,
            is_short: error.kind() == ErrorKind::UnexpectedEof,
        });
        Ok(0)
    }
}

// === impl Cut ===

impl fmt::Display for Cut {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = self.compression.name();
        let what = if self.is_short {
            "end early"
        } else {
            "are damaged"
        };
        write!(
            f,
            "its {name} data {what}, after {} {} of text",
            self.bytes,
            Noun(self.bytes, "byte")
        )
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests;
