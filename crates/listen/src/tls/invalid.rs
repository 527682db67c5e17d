//! Why the files of a listener's TLS cannot be used.

use std::error::Error;
use std::fmt;
use std::io;
use std::path::PathBuf;

use rustls::pki_types::pem;

use super::credentials::PEM_BYTES_MAX;

/// What is wrong with one of the files.
#[derive(Debug)]
pub struct InvalidTls {
    /// Which of them.
    pub file: TlsFile,
    /// Its path.
    pub path: PathBuf,
    /// What is wrong.
    pub problem: Problem,
}

/// One of the files of [`crate::TlsFiles`] or [`crate::ClientTlsFiles`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TlsFile {
    /// The certificate.
    Cert,
    /// Its key.
    Key,
    /// The authorities of clients.
    ClientCa,
    /// The authorities of servers.
    Ca,
}

/// What can be wrong with a file.
#[derive(Debug)]
#[non_exhaustive]
pub enum Problem {
    /// The system does not let us read it.
    Unreadable(io::Error),
    /// It is a directory, a device or a pipe.
    NotAFile,
    /// It has more than [`PEM_BYTES_MAX`] bytes.
    TooLarge,
    /// It has no certificate.
    NoCertificate,
    /// It has no private key that can be read without a password.
    NoKey,
    /// It is not PEM, or only the beginning of it.
    BadPem(pem::Error),
    /// One of its certificates is malformed; counted from 1.
    BadCertificate(usize),
    /// The key or the first certificate is of a kind that is not supported.
    Unsupported(rustls::Error),
    /// The certificate is for another key.
    KeyMismatch,
}

// === impl TlsFile ===

impl TlsFile {
    /// Its name in the settings.
    pub const fn name(self) -> &'static str {
        match self {
            TlsFile::Cert => "cert",
            TlsFile::Key => "key",
            TlsFile::ClientCa => "client_ca",
            TlsFile::Ca => "ca",
        }
    }
}

// === impl Problem ===

impl Problem {
    /// What to do about it.
    pub const fn help(&self) -> &'static str {
        match self {
            Problem::Unreadable(_) | Problem::NotAFile => {
                "name a file (PEM) that this user may read"
            }
            Problem::TooLarge => "name a file with nothing but certificates or a key (PEM)",
            Problem::NoCertificate => {
                "it needs a part from `-----BEGIN CERTIFICATE-----` to the end of the certificate"
            }
            Problem::NoKey => {
                "it needs a part such as `-----BEGIN PRIVATE KEY-----`; `openssl pkey -in KEY -out \
                 PLAIN` decrypts one that needs a password"
            }
            Problem::BadPem(_) | Problem::BadCertificate(_) => "write the file again",
            Problem::Unsupported(_) => {
                "use RSA with 2048 bits or more, ECDSA over P-256 or P-384, or Ed25519"
            }
            Problem::KeyMismatch => {
                "name the key that the certificate was made for; the certificate of the service \
                 comes first in its file, those of authorities after it"
            }
        }
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Problem::Unreadable(error) => write!(f, "the file cannot be read: {error}"),
            Problem::NotAFile => f.write_str("it is not a regular file"),
            Problem::TooLarge => write!(f, "the file has more than {PEM_BYTES_MAX} bytes"),
            Problem::NoCertificate => f.write_str("the file has no certificate"),
            Problem::NoKey => f.write_str("the file has no private key that can be read"),
            Problem::BadPem(error) => {
                // The library shows the bytes of the file, which may be a key.
                let what = match error {
                    pem::Error::MissingSectionEnd { .. } => "a part of it has no end",
                    pem::Error::IllegalSectionStart { .. } => "the beginning of a part is wrong",
                    pem::Error::Base64Decode(_) => "a part of it is not Base64",
                    _ => "it cannot be parsed",
                };
                write!(f, "the file is not PEM: {what}")
            }
            Problem::BadCertificate(number) => {
                write!(f, "certificate {number} of the file is malformed")
            }
            Problem::Unsupported(error) => {
                write!(f, "the certificate and its key cannot be used: {error}")
            }
            Problem::KeyMismatch => f.write_str("the key does not belong to the certificate"),
        }
    }
}

// === impl InvalidTls ===

impl fmt::Display for InvalidTls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (name, path, problem) = (self.file.name(), self.path.display(), &self.problem);
        write!(f, "`{name}`, {path}: {problem}; {}", problem.help())
    }
}

impl Error for InvalidTls {}
