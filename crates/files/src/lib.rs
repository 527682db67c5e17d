//! Reads the files that settings name: rules, lists, passwords, keys, certificates.
//!
//! A service reads them again while it runs, so reading one must end, and must not take all of the
//! memory: a pipe or a device in place of a file is an error, and every file has a largest size.

use std::fs::File;
use std::io::{self, Error, ErrorKind, Read};
use std::path::Path;

/// The largest file with a password, in bytes.
pub const PASSWORD_FILE_BYTES_MAX: u64 = 4096;

/// The bytes of a regular file that has at most `bytes_max` of them.
///
/// ```
/// let manifest = std::path::Path::new("Cargo.toml");
/// assert!(tollgate_files::read(manifest, 1024).is_ok());
/// let error = tollgate_files::read(manifest, 3).unwrap_err();
/// assert_eq!(error.to_string(), "it has more than 3 bytes");
/// ```
///
/// # Errors
///
/// As [`ensure_regular`], and [`ErrorKind::FileTooLarge`] for more bytes.
pub fn read(path: &Path, bytes_max: u64) -> io::Result<Vec<u8>> {
    ensure_regular(path)?;
    let mut bytes = Vec::new();
    let mut file = File::open(path)?.take(bytes_max.saturating_add(1));
    let read = file.read_to_end(&mut bytes)?;
    match u64::try_from(read) {
        Ok(read) if read <= bytes_max => Ok(bytes),
        _ => {
            let problem = format!("it has more than {bytes_max} bytes");
            Err(Error::new(ErrorKind::FileTooLarge, problem))
        }
    }
}

/// The same of text.
///
/// # Errors
///
/// As [`read`], and [`ErrorKind::InvalidData`] if the file is not UTF-8.
pub fn read_text(path: &Path, bytes_max: u64) -> io::Result<String> {
    let bytes = read(path, bytes_max)?;
    String::from_utf8(bytes).map_err(|_| Error::new(ErrorKind::InvalidData, "it is not UTF-8"))
}

/// The text of a file with a password, without the line end behind it.
///
/// # Errors
///
/// As [`read_text`], for more than [`PASSWORD_FILE_BYTES_MAX`] bytes.
pub fn read_password(path: &Path) -> io::Result<String> {
    let mut text = read_text(path, PASSWORD_FILE_BYTES_MAX)?;
    if text.ends_with('\n') {
        text.pop();
    }
    if text.ends_with('\r') {
        text.pop();
    }
    Ok(text)
}

/// Checks that a file is a regular one, or a symbolic link to one.
///
/// # Errors
///
/// [`ErrorKind::InvalidInput`] for a directory, a pipe, a socket or a device: opening a pipe waits
/// until another process writes to it, and a device may have no end. Otherwise as the file system.
pub fn ensure_regular(path: &Path) -> io::Result<()> {
    match path.metadata()?.is_file() {
        true => Ok(()),
        false => Err(Error::new(
            ErrorKind::InvalidInput,
            "it is not a regular file",
        )),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn a_device_and_a_directory_are_no_regular_files() {
        for path in ["/dev/null", "/dev/zero", "/"] {
            let error = read(Path::new(path), 10).unwrap_err();
            assert_eq!(error.to_string(), "it is not a regular file", "{path}");
        }
        let missing = read(Path::new("/no such file"), 10).unwrap_err();
        assert_eq!(missing.kind(), ErrorKind::NotFound);
    }

    #[test]
    fn a_file_may_have_as_many_bytes_as_the_bound() {
        let manifest = Path::new("Cargo.toml");
        let length = manifest.metadata().unwrap().len();
        let text = read_text(manifest, length).unwrap();
        assert!(text.starts_with("[package]"), "{text}");
        let error = read_text(manifest, length - 1).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::FileTooLarge);
        assert!(read(manifest, u64::MAX).is_ok());
    }
}
