//! Where rules come from: files, and directories of files.

use std::fmt;
use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

/// The largest rules file. A larger one is read up to here and then rejected by the parser.
pub const FILE_BYTES_MAX: usize = 8 * 1024 * 1024;
/// The most bytes of all files of one load.
pub const LOAD_BYTES_MAX: usize = 64 * 1024 * 1024;
/// The most files in one load.
pub const FILES_MAX: usize = 4096;

/// The text of one file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Source {
    /// What the file is called in diagnostics, usually its path.
    pub name: String,
    /// What is in it, whether it is text or not.
    pub text: Vec<u8>,
}

/// Why files cannot be read.
#[derive(Debug)]
#[non_exhaustive]
pub enum ReadError {
    /// A file or directory cannot be read.
    Io {
        /// Which.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// There are more than [`FILES_MAX`] files.
    TooManyFiles,
    /// The files hold more than [`LOAD_BYTES_MAX`] bytes.
    TooManyBytes,
    /// A directory holds no `*.yaml` and no `*.yml`.
    NoFiles {
        /// Which.
        path: PathBuf,
    },
}

// === impl Source ===

impl Source {
    /// `text`, to be called `name`.
    pub fn new(name: impl Into<String>, text: impl Into<Vec<u8>>) -> Source {
        Source {
            name: name.into(),
            text: text.into(),
        }
    }
}

/// Reads files, and the `*.yaml` and `*.yml` files that stand directly in directories, sorted by
/// name.
///
/// The letter case of the extension does not matter, so that no rules are missing only because a
/// file is called `RULES.YAML`. Files whose names begin with a dot are passed over in directories:
/// a Kubernetes ConfigMap shows each file a second time below `..data`. Of a file, at most one byte
/// more than [`FILE_BYTES_MAX`] is read, which is enough for the parser to say that it is too
/// large.
///
/// # Errors
///
/// [`ReadError`] for the first path that cannot be read, for a symbolic link in a directory that
/// leads to no file, and for a directory without rules.
pub fn read_paths(paths: &[PathBuf]) -> Result<Vec<Source>, ReadError> {
    read_with(paths, read)
}

/// The same of regular files alone: opening a pipe could block for ever, and a service would then
/// never reload again.
///
/// # Errors
///
/// As [`read_paths`], and [`ReadError::Io`] for a pipe or a device.
pub fn read_regular_paths(paths: &[PathBuf]) -> Result<Vec<Source>, ReadError> {
    read_with(paths, |path| {
        tollgate_files::ensure_regular(path).map_err(|source| ReadError::Io {
            path: path.to_owned(),
            source,
        })?;
        read(path)
    })
}

/// Reads the files at all of these paths, each with `read`, up to the bounds of one load.
fn read_with(
    paths: &[PathBuf],
    read: impl Fn(&Path) -> Result<Source, ReadError>,
) -> Result<Vec<Source>, ReadError> {
    let mut files = Vec::new();
    for path in paths {
        files.extend(rule_files(path)?);
        if files.len() > FILES_MAX {
            return Err(ReadError::TooManyFiles);
        }
    }
    let mut sources = Vec::with_capacity(files.len());
    let mut bytes = 0;
    for file in &files {
        let source = read(file)?;
        bytes += source.text.len();
        if bytes > LOAD_BYTES_MAX {
            return Err(ReadError::TooManyBytes);
        }
        sources.push(source);
    }
    Ok(sources)
}

/// The files that [`read_paths`] reads for a path: itself, or those of a directory.
///
/// # Errors
///
/// [`ReadError`] for a directory that [`read_paths`] rejects.
pub fn rule_files(path: &Path) -> Result<Vec<PathBuf>, ReadError> {
    match path.is_dir() {
        true => files_in(path),
        false => Ok(vec![path.to_owned()]),
    }
}

/// The rules files of a directory, sorted by name.
fn files_in(directory: &Path) -> Result<Vec<PathBuf>, ReadError> {
    let failed = |source| ReadError::Io {
        path: directory.to_owned(),
        source,
    };
    let mut files = Vec::new();
    for entry in std::fs::read_dir(directory).map_err(failed)? {
        let path = entry.map_err(failed)?.path();
        if is_rules(&path)? {
            files.push(path);
        }
        if files.len() > FILES_MAX {
            return Err(ReadError::TooManyFiles);
        }
    }
    if files.is_empty() {
        return Err(ReadError::NoFiles {
            path: directory.to_owned(),
        });
    }
    files.sort();
    Ok(files)
}

/// Whether a directory's entry is a file of rules.
///
/// A symbolic link counts as the file that it points to, as a ConfigMap's files are links; one that
/// leads to no file is an error, since the rules that it stood for would be gone without a word.
pub(crate) fn is_rules(path: &Path) -> Result<bool, ReadError> {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let extension = path.extension().unwrap_or_default();
    let mut extensions = ["yaml", "yml"].into_iter();
    let is_named = extensions.any(|known| extension.eq_ignore_ascii_case(known));
    if !is_named || name.starts_with('.') {
        return Ok(false);
    }
    match path.metadata() {
        Ok(metadata) if metadata.is_file() => Ok(true),
        Ok(metadata) if path.is_symlink() => {
            let why = match metadata.is_dir() {
                true => "this symbolic link leads to a directory; name that directory itself",
                false => "this symbolic link does not lead to a regular file; remove it",
            };
            Err(ReadError::Io {
                path: path.to_owned(),
                source: io::Error::new(io::ErrorKind::InvalidInput, why),
            })
        }
        Ok(_) => Ok(false),
        // Removed since the directory was listed.
        Err(_) if path.symlink_metadata().is_err() => Ok(false),
        Err(source) => Err(ReadError::Io {
            path: path.to_owned(),
            source,
        }),
    }
}

fn read(path: &Path) -> Result<Source, ReadError> {
    let failed = |source| ReadError::Io {
        path: path.to_owned(),
        source,
    };
    let bytes_max = u64::try_from(FILE_BYTES_MAX).unwrap_or(u64::MAX);
    let mut text = Vec::new();
    let file = File::open(path).map_err(failed)?;
    file.take(bytes_max + 1)
        .read_to_end(&mut text)
        .map_err(failed)?;
    Ok(Source::new(path.to_string_lossy(), text))
}

// === impl ReadError ===

impl fmt::Display for ReadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ReadError::Io { path, .. } => write!(f, "cannot read {}", path.display()),
            ReadError::TooManyFiles => write!(f, "more than {FILES_MAX} rules files"),
            ReadError::TooManyBytes => {
                write!(f, "the rules files hold more than {LOAD_BYTES_MAX} bytes")
            }
            ReadError::NoFiles { path } => {
                write!(f, "no *.yaml or *.yml file in {}", path.display())
            }
        }
    }
}

impl std::error::Error for ReadError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            ReadError::Io { source, .. } => Some(source),
            _ => None,
        }
    }
}
