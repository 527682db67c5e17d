//! A listener's certificate, its key, and the authorities of its clients, read from files.

use std::fmt;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustls::crypto::{CryptoProvider, ring};
use rustls::pki_types::pem::{self, PemObject};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::server::danger::ClientCertVerifier;
use rustls::sign::{CertifiedKey, SingleCertAndKey};
use rustls::{DistinguishedName, InconsistentKeys, RootCertStore, ServerConfig};

use super::invalid::{InvalidTls, Problem, TlsFile};
use super::validity::Validity;

/// The largest file of certificates or keys.
pub const PEM_BYTES_MAX: u64 = 1024 * 1024;
/// What a key with a password has in the traditional form of OpenSSL.
const ENCRYPTED: &[u8] = b"Proc-Type: 4,ENCRYPTED";
/// How often files are read whose key does not belong to the certificate: they may have been
/// replaced between the reading of one and the other.
const READS_MAX: usize = 3;
/// The most bytes of names of authorities that clients are sent. TLS has room for 64 KiB, and
/// libraries accept messages of so many.
const NAME_BYTES_MAX: usize = 32 * 1024;

/// Where the credentials are, as PEM. Two of the files may be the same one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TlsFiles {
    /// The certificate of the service, and those that lead from it to an authority.
    pub cert: PathBuf,
    /// Its private key, without a password.
    pub key: PathBuf,
    /// The authorities of clients. With them, each client needs a certificate of one of them.
    pub client_ca: Option<PathBuf>,
}

/// What was read from files, and fits together.
pub struct Credentials {
    provider: Arc<CryptoProvider>,
    certified: Arc<CertifiedKey>,
    clients: Option<Arc<dyn ClientCertVerifier>>,
    validity: Validity,
    digest: u64,
}

/// The files as they are read: a hash of them, and everything that is wrong.
#[derive(Default)]
pub(super) struct Reading {
    hasher: DefaultHasher,
    invalid: Vec<InvalidTls>,
}

// === impl TlsFiles ===

impl TlsFiles {
    /// All of the files.
    pub fn paths(&self) -> impl Iterator<Item = &PathBuf> {
        [&self.cert, &self.key].into_iter().chain(&self.client_ca)
    }

    /// Reads the files, and checks that they fit together. Blocks.
    ///
    /// # Errors
    ///
    /// Everything that is wrong with them.
    pub fn read(&self) -> Result<Credentials, Vec<InvalidTls>> {
        let is_mismatch = |one: &InvalidTls| matches!(one.problem, Problem::KeyMismatch);
        let mut read = self.read_once();
        for _ in 1..READS_MAX {
            match &read {
                Err(invalid) if invalid.iter().any(is_mismatch) => read = self.read_once(),
                _ => break,
            }
        }
        read
    }

    /// Reads each file once, and checks that they fit together.
    fn read_once(&self) -> Result<Credentials, Vec<InvalidTls>> {
        let provider = Arc::new(ring::default_provider());
        let mut reading = Reading::default();
        let chain = reading.load(TlsFile::Cert, &self.cert, certificates);
        let key = reading.load(TlsFile::Key, &self.key, private_key);
        let certified = chain.zip(key).and_then(|((chain, validity), key)| {
            let certified = certify(chain, key, &provider);
            let certified = reading.keep(TlsFile::Key, &self.key, certified);
            Some((certified?, validity))
        });
        let clients = self.client_ca.as_ref().map(|path| {
            let verifier = |bytes: &[u8]| client_verifier(bytes, &provider);
            reading.load(TlsFile::ClientCa, path, verifier)
        });
        match (certified, reading.invalid.is_empty()) {
            (Some((certified, validity)), true) => Ok(Credentials {
                provider,
                certified: Arc::new(certified),
                clients: clients.flatten(),
                validity,
                digest: reading.hasher.finish(),
            }),
            _ => Err(reading.invalid),
        }
    }
}

// === impl Reading ===

impl Reading {
    /// Reads a file.
    pub(super) fn load<T>(
        &mut self,
        file: TlsFile,
        path: &Path,
        parse: impl FnOnce(&[u8]) -> Result<T, Problem>,
    ) -> Option<T> {
        let parsed = read(path).and_then(|bytes| {
            bytes.hash(&mut self.hasher);
            parse(&bytes)
        });
        self.keep(file, path, parsed)
    }

    /// What could be used, or nothing: then the problem is recorded.
    pub(super) fn keep<T>(
        &mut self,
        file: TlsFile,
        path: &Path,
        used: Result<T, Problem>,
    ) -> Option<T> {
        let record = |problem| {
            let path = path.to_owned();
            self.invalid.push(InvalidTls {
                file,
                path,
                problem,
            });
        };
        used.map_err(record).ok()
    }

    /// Everything that is wrong.
    pub(super) fn into_invalid(self) -> Vec<InvalidTls> {
        self.invalid
    }
}

// === impl Credentials ===

impl Credentials {
    /// While the certificate and all that follow it in its file are valid.
    pub const fn validity(&self) -> Validity {
        self.validity
    }

    /// A hash of the files. Equal files have equal ones, in this process.
    pub const fn digest(&self) -> u64 {
        self.digest
    }

    /// Whether each client needs a certificate.
    pub const fn requires_client_certificates(&self) -> bool {
        self.clients.is_some()
    }

    /// The library's settings for them.
    pub(super) fn server_config(&self) -> ServerConfig {
        let builder = ServerConfig::builder_with_provider(Arc::clone(&self.provider))
            .with_safe_default_protocol_versions()
            .expect("ring has ciphers for both versions of TLS");
        let builder = match &self.clients {
            Some(clients) => builder.with_client_cert_verifier(Arc::clone(clients)),
            None => builder.with_no_client_auth(),
        };
        let certified = SingleCertAndKey::from(Arc::clone(&self.certified));
        builder.with_cert_resolver(Arc::new(certified))
    }
}

impl fmt::Debug for Credentials {
    /// Without the key.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Credentials")
            .field("validity", &self.validity)
            .finish_non_exhaustive()
    }
}

/// The bytes of a file.
fn read(path: &Path) -> Result<Vec<u8>, Problem> {
    tollgate_files::read(path, PEM_BYTES_MAX).map_err(|error| match error.kind() {
        ErrorKind::InvalidInput => Problem::NotAFile,
        ErrorKind::FileTooLarge => Problem::TooLarge,
        _ => Problem::Unreadable(error),
    })
}

/// The certificates in a file, one at least, and while all of them are valid.
pub(super) fn certificates(
    bytes: &[u8],
) -> Result<(Vec<CertificateDer<'static>>, Validity), Problem> {
    let chain: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(bytes).collect();
    let chain = chain.map_err(Problem::BadPem)?;
    let mut all: Option<Validity> = None;
    for (index, certificate) in chain.iter().enumerate() {
        let validity = Validity::read(certificate).ok_or(Problem::BadCertificate(index + 1))?;
        all = Some(all.map_or(validity, |all| all.both(validity)));
    }
    Ok((chain, all.ok_or(Problem::NoCertificate)?))
}

pub(super) fn private_key(bytes: &[u8]) -> Result<PrivateKeyDer<'static>, Problem> {
    PrivateKeyDer::from_pem_slice(bytes).map_err(|error| match error {
        pem::Error::NoItemsFound => Problem::NoKey,
        // Its header lines are no Base64.
        _ if bytes.windows(ENCRYPTED.len()).any(|part| part == ENCRYPTED) => Problem::NoKey,
        other => Problem::BadPem(other),
    })
}

pub(super) fn certify(
    chain: Vec<CertificateDer<'static>>,
    key: PrivateKeyDer<'static>,
    provider: &CryptoProvider,
) -> Result<CertifiedKey, Problem> {
    CertifiedKey::from_der(chain, key, provider).map_err(|error| match error {
        rustls::Error::InconsistentKeys(InconsistentKeys::KeyMismatch) => Problem::KeyMismatch,
        other => Problem::Unsupported(other),
    })
}

/// The authorities in a file, one at least.
pub(super) fn authorities(bytes: &[u8]) -> Result<RootCertStore, Problem> {
    let mut roots = RootCertStore::empty();
    let (authorities, _) = certificates(bytes)?;
    for (index, authority) in authorities.into_iter().enumerate() {
        let added = roots.add(authority);
        added.map_err(|_malformed| Problem::BadCertificate(index + 1))?;
    }
    Ok(roots)
}

/// Accepts clients with a certificate of one of the authorities in a file.
fn client_verifier(
    bytes: &[u8],
    provider: &Arc<CryptoProvider>,
) -> Result<Arc<dyn ClientCertVerifier>, Problem> {
    let roots = authorities(bytes)?;
    let names = names_for_clients(&roots);
    let verifier = WebPkiClientVerifier::builder_with_provider(roots.into(), Arc::clone(provider))
        .clear_root_hint_subjects()
        .add_root_hint_subjects(names);
    // The builder fails without an authority; there is one at least.
    let verifier = verifier.build().map_err(|_| Problem::NoCertificate)?;
    Ok(verifier)
}

/// The names of the authorities, by which a client chooses its certificate; none if they are longer
/// than [`NAME_BYTES_MAX`], because the library writes them with a wrong length then. A client that
/// gets none may present any certificate.
fn names_for_clients(roots: &RootCertStore) -> Vec<DistinguishedName> {
    let mut names = roots.subjects();
    names.sort_by(|one, other| one.as_ref().cmp(other.as_ref()));
    names.dedup_by(|one, other| one.as_ref() == other.as_ref());
    let bytes: usize = names.iter().map(|name| name.as_ref().len()).sum();
    if bytes > NAME_BYTES_MAX {
        names.clear();
    }
    names
}
